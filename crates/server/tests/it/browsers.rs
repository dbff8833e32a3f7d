//! Pages: only our own may talk to us, and only with the cookie that a one-time link gave.

use countersign_testkit::doors::PATIENCE;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;

use crate::host::Host;
use crate::http::{EventStream, Rest, http};
use crate::wire::Wire;

fn refused() -> (u16, String) {
    (403, "wrong_origin".to_owned())
}

/// Headers that a page of another site, or one under a name that was bound to us, would send.
fn foreign(host: &Host) -> Vec<Vec<(&'static str, String)>> {
    let port = host.address.rsplit(':').next().unwrap();
    let names = ["evil.example", "127.0.0.1.evil.example", "127.0.0.2"];
    let mut cases: Vec<Vec<(&str, String)>> = names
        .iter()
        .map(|name| vec![("host", format!("{name}:{port}"))])
        .collect();
    cases.push(vec![("host", "127.0.0.1".to_owned())]);
    cases.push(vec![("host", String::new())]);
    let origins = [
        "null".to_owned(),
        "http://evil.example".to_owned(),
        format!("http://evil.example:{port}"),
        "http://127.0.0.1".to_owned(),
        format!("http://127.0.0.1:{port}.evil.example"),
        "file://".to_owned(),
    ];
    cases.extend(origins.map(|origin| vec![("origin", origin)]));
    cases.push(vec![("sec-fetch-site", "cross-site".to_owned())]);
    cases.push(vec![("sec-fetch-site", "same-site".to_owned())]);
    cases
}

fn with_token<'a>(
    headers: &'a [(&'static str, String)],
    bearer: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("authorization", bearer)];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    all
}

#[tokio::test]
async fn another_sites_page_gets_nothing_over_http() {
    let host = Host::start();
    let bearer = format!("Bearer {}", host.token());
    for headers in foreign(&host) {
        let headers = with_token(&headers, &bearer);
        let paths = [
            "/",
            "/healthz",
            "/metrics",
            "/api/v1/agents",
            "/api/v1/openapi.json",
            "/nothing",
            "/login/x",
        ];
        for path in paths {
            let answer = http(&host.address, "GET", path, &headers, "").await;
            assert_eq!(answer.refusal(), refused(), "{path} {headers:?}");
        }
        let answer = http(&host.address, "POST", "/api/v1/stop", &headers, "").await;
        assert_eq!(answer.refusal(), refused(), "{headers:?}");
    }
}

#[tokio::test]
async fn another_sites_page_gets_no_websocket() {
    let host = Host::start();
    let bearer = format!("Bearer {}", host.token());
    for headers in foreign(&host) {
        let headers = with_token(&headers, &bearer);
        for path in ["/", "/rpc"] {
            match Wire::upgrade(&host.address, path, &headers).await {
                Err(tungstenite::Error::Http(response)) => assert_eq!(response.status(), 403),
                Err(other) => panic!("{headers:?}: {other}"),
                Ok(_) => panic!("{headers:?} opened a connection"),
            }
        }
    }
}

#[tokio::test]
async fn our_own_page_and_programs_pass() {
    let host = Host::start();
    let bearer = format!("Bearer {}", host.token());
    let port = host.address.rsplit(':').next().unwrap();
    let cases = [
        vec![],
        vec![("origin", format!("http://127.0.0.1:{port}"))],
        vec![
            ("host", format!("localhost:{port}")),
            ("origin", format!("http://localhost:{port}")),
        ],
        vec![("sec-fetch-site", "same-origin".to_owned())],
        vec![("sec-fetch-site", "none".to_owned())],
    ];
    for headers in cases {
        let headers = with_token(&headers, &bearer);
        let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
        assert_eq!(answer.status, 200, "{headers:?} {answer:?}");
        let mut wire = Wire::upgrade(&host.address, "/", &headers).await.unwrap();
        wire.ok("host.agents", json!({})).await;
    }
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// The path of a new login link.
async fn login_path(host: &Host, operator: &mut Wire) -> String {
    let ticket = operator.ok("host.create_ticket", json!({})).await;
    let origin = format!("http://{}", host.address);
    let link = ticket["url"].as_str().unwrap();
    link.strip_prefix(&origin).unwrap().to_owned()
}

/// Logs a browser in; its cookie.
async fn log_in(host: &Host, operator: &mut Wire, device: &str) -> String {
    let path = login_path(host, operator).await;
    let body = format!("device={device}");
    let answer = http(&host.address, "POST", &path, &[FORM], &body).await;
    let cookie = answer.header("set-cookie").expect("a cookie");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_login_link_gives_a_cookie_once_and_only_to_its_form() {
    let host = Host::start();
    let mut operator = Wire::unix(&host.socket()).await;
    let path = login_path(&host, &mut operator).await;
    // What the preview of a link in a chat does, as often as it likes.
    for method in ["GET", "HEAD", "GET"] {
        let answer = http(&host.address, method, &path, &[], "").await;
        assert_eq!((answer.status, answer.header("set-cookie")), (200, None));
    }
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let answer = http(&host.address, "GET", &path, &[("user-agent", agent)], "").await;
    assert!(answer.body.contains("<form method=\"post\">"));
    assert!(answer.body.contains("value=\"Firefox on Linux\""));
    assert!(!answer.body.contains("<script"));
    // With `no-referrer` the browser would send the form as if from another origin.
    assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
    // A page of another site cannot use the link up.
    let headers = [FORM, ("sec-fetch-site", "cross-site")];
    let answer = http(&host.address, "POST", &path, &headers, "").await;
    assert_eq!(answer.refusal(), refused());

    let answer = http(&host.address, "POST", &path, &[FORM], "device=my+phone").await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "over plain HTTP on loopback");
    for method in ["GET", "POST"] {
        let answer = http(&host.address, method, &path, &[FORM], "").await;
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None));
        assert!(answer.body.contains("countersign open"));
    }
}

#[tokio::test]
async fn a_cookie_answers_in_the_name_of_who_made_the_link_and_only_from_our_page() {
    let host = Host::start();
    let mut operator = Wire::unix(&host.socket()).await;
    let cookie = log_in(&host, &mut operator, "phone").await;
    let cookie = ("cookie", cookie.as_str());
    let ask = json!({ "action": "x", "system_level": true });
    let id = operator.ok("host.request_approval", ask).await["id"].take();
    let path = format!("/api/v1/approvals/{}/resolution", id.as_str().unwrap());
    let body = json!({ "resolution": "approve" }).to_string();
    let answer = http(&host.address, "GET", "/api/v1/agents", &[cookie], "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = http(&host.address, "POST", &path, &[cookie], &body).await;
    assert_eq!(answer.refusal(), refused());
    let origin = format!("http://{}", host.address);
    let headers = [cookie, ("origin", origin.as_str())];
    let answer = http(&host.address, "POST", &path, &headers, &body).await;
    assert_eq!(
        (answer.status, &answer.json()["state"]),
        (200, &json!("allowed"))
    );
    // The record says who it was: the one for whom the link was made.
    let you = operator.ok("host.status", json!({})).await["you"].take();
    assert_eq!(answer.json()["resolved_by"], you);
    let mut wire = Wire::upgrade(&host.address, "/", &headers).await.unwrap();
    wire.ok("host.subscribe", json!({})).await;
}

#[tokio::test]
async fn a_device_is_listed_and_its_connections_end_when_it_is_revoked() {
    let mut host = Host::start();
    let mut operator = Wire::unix(&host.socket()).await;
    let cookie = log_in(&host, &mut operator, "my+phone").await;
    let rows = operator.ok("host.tokens", json!({})).await;
    let row = rows[0].clone();
    assert_eq!(
        (&row["device"], &row["device_name"], &row["role"]),
        (&json!(true), &json!("my phone"), &json!("operator"))
    );
    assert!(row["last_seen"].is_string(), "{row}");

    let origin = format!("http://{}", host.address);
    let headers = [("cookie", cookie.as_str()), ("origin", origin.as_str())];
    let mut idle = Wire::upgrade(&host.address, "/rpc", &headers)
        .await
        .unwrap();
    idle.ok("host.subscribe", json!({})).await;
    let mut stream = EventStream::open(
        &host.address,
        "/api/v1/events",
        &[("cookie", cookie.as_str()), ("accept", "text/event-stream")],
    )
    .await;
    let other = log_in(&host, &mut operator, "desk").await;
    let params = json!({ "token_id": row["id"] });
    operator.ok("host.revoke_token", params).await;
    // Without anything being sent to them, nor by them.
    assert_eq!(idle.closed().await, Some(1008));
    assert_eq!(stream.next().await, None);
    let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
    assert_eq!(answer.refusal(), (401, "auth_failed".to_owned()));

    // What is known about the other one survives the host.
    let before = operator.ok("host.tokens", json!({})).await;
    host.restart();
    let mut operator = Wire::unix(&host.socket()).await;
    assert_eq!(operator.ok("host.tokens", json!({})).await, before);
    let headers = [("cookie", other.as_str())];
    let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn a_device_stays_logged_in_while_it_is_used() {
    // Its use is recorded after a quarter of this time.
    let host = Host::start_with(|_, options| options.web.session_ms = 8_000);
    let mut operator = Wire::unix(&host.socket()).await;
    let cookie = log_in(&host, &mut operator, "phone").await;
    let first = operator.ok("host.tokens", json!({})).await[0]["expires_at"].take();
    let headers = [("cookie", cookie.as_str())];
    let begin = std::time::Instant::now();
    loop {
        let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let now = operator.ok("host.tokens", json!({})).await[0]["expires_at"].take();
        if now.as_str() > first.as_str() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
    }
}

#[tokio::test]
async fn a_phone_reaches_the_host_by_its_public_address() {
    let host = Host::start_with(|_, options| {
        options.web.public_url = Some("https://box.example".parse().unwrap());
    });
    let mut operator = Wire::unix(&host.socket()).await;
    let ticket = operator
        .ok("host.create_ticket", json!({ "phone": true }))
        .await;
    let link = ticket["url"].as_str().unwrap();
    let path = link.strip_prefix("https://box.example").unwrap();
    let headers = [
        FORM,
        ("host", "box.example"),
        ("origin", "https://box.example"),
    ];
    let answer = http(&host.address, "POST", path, &headers, "device=phone").await;
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    let web = operator.ok("host.status", json!({})).await["web"].take();
    assert_eq!(web["public_url"], "https://box.example");
    // Beside it, the address on this machine works as before.
    assert!(
        login_path(&host, &mut operator)
            .await
            .starts_with("/login/")
    );

    let host = Host::start();
    let mut operator = Wire::unix(&host.socket()).await;
    let error = operator
        .no("host.create_ticket", json!({ "phone": true }))
        .await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("public_url"), "{message}");
}

#[tokio::test]
async fn links_that_were_never_made_are_refused() {
    let host = Host::start();
    for path in ["/login/x", "/login/", "/login/..%2f..%2fapi"] {
        let answer = http(&host.address, "GET", path, &[], "").await;
        assert!(matches!(answer.status, 401 | 404), "{path} {answer:?}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    // A cookie's value is a token like any other: made up, it opens nothing.
    let headers = [("cookie", "countersign_session=made-up")];
    let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
    assert_eq!(answer.refusal(), (401, "auth_failed".to_owned()));
}

#[tokio::test]
async fn a_name_that_an_operator_allows_is_ours() {
    let host = Host::start_with(|_, options| options.allow_hosts = vec!["desk.example".to_owned()]);
    let token = host.token();
    let bearer = format!("Bearer {token}");
    for (name, status) in [
        ("desk.example", 200),
        ("DESK.example", 200),
        ("other.example", 403),
    ] {
        let headers = [("host", name), ("authorization", bearer.as_str())];
        let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
        assert_eq!(answer.status, status, "{name}");
    }
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    assert_eq!(
        rest.get("/api/v1/agents").await.json(),
        Value::Array(Vec::new())
    );
}
