//! Pages: only our own may talk to us, and only with the cookie that a one-time link gave.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;

use crate::host::Host;
use crate::http::{Rest, http};
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

#[tokio::test]
async fn a_login_link_gives_a_cookie_once() {
    let host = Host::start();
    let mut operator = Wire::unix(&host.socket()).await;
    let ticket = operator.ok("host.create_ticket", json!({})).await;
    let origin = format!("http://{}", host.address);
    let link = ticket["url"].as_str().unwrap();
    let path = link.strip_prefix(&origin).unwrap();
    // A page of another site cannot use the link up.
    let answer = http(
        &host.address,
        "GET",
        path,
        &[("sec-fetch-site", "cross-site")],
        "",
    )
    .await;
    assert_eq!(answer.refusal(), refused());
    let answer = http(&host.address, "GET", path, &[], "").await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let answer = http(&host.address, "GET", path, &[], "").await;
    assert_eq!(answer.refusal(), (401, "auth_failed".to_owned()));

    let id = operator
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await["id"]
        .take();
    let path = format!("/api/v1/approvals/{}/resolution", id.as_str().unwrap());
    let body = json!({ "resolution": "approve" }).to_string();
    let answer = http(
        &host.address,
        "GET",
        "/api/v1/agents",
        &[("cookie", cookie)],
        "",
    )
    .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = http(&host.address, "POST", &path, &[("cookie", cookie)], &body).await;
    assert_eq!(answer.refusal(), refused());
    let headers = [("cookie", cookie), ("origin", origin.as_str())];
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
