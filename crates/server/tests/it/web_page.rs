//! The files of the web page, from a folder that stands for what `make web` makes.

use crate::host::Host;
use crate::http::{Answer, http};

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     font-src 'self'; connect-src 'self'; frame-src 'self'; worker-src 'self'; manifest-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types own";
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'self'; \
     style-src 'self' 'unsafe-inline'; frame-ancestors 'self'";

const FILES: [(&str, &str); 8] = [
    ("index.html", "<!doctype html><title>page</title>"),
    ("index.html.gz", "index, compressed"),
    ("app-4FJ2KQZX.js", "app"),
    ("app-4FJ2KQZX.js.gz", "app, compressed"),
    ("sw.js", "worker"),
    ("manifest.webmanifest", "{}"),
    ("term/frame.html", "<!doctype html><title>frame</title>"),
    ("term/frame-4FJ2KQZX.js", "frame"),
];

/// A host with a page that was built.
fn host_with_page() -> Host {
    Host::start_with(|_, options| {
        let folder = options.database.with_file_name("dist");
        std::fs::create_dir_all(folder.join("term")).unwrap();
        for (name, text) in FILES {
            std::fs::write(folder.join(name), text).unwrap();
        }
        options.web.folder = Some(folder);
    })
}

async fn get(host: &Host, path: &str, headers: &[(&str, &str)]) -> Answer {
    http(&host.address, "GET", path, headers, "").await
}

/// The headers that a browser acts on.
fn policies(answer: &Answer) -> [Option<&str>; 7] {
    [
        "content-type",
        "content-security-policy",
        "cache-control",
        "cross-origin-resource-policy",
        "cross-origin-opener-policy",
        "referrer-policy",
        "x-content-type-options",
    ]
    .map(|name| answer.header(name))
}

fn expected_policies<'a>(
    content_type: &'a str,
    policy: &'a str,
    cache: &'a str,
    resource: &'a str,
) -> [Option<&'a str>; 7] {
    [
        content_type,
        policy,
        cache,
        resource,
        "same-origin",
        "no-referrer",
        "nosniff",
    ]
    .map(Some)
}

#[tokio::test]
async fn every_address_of_the_page_gives_its_document() {
    let host = host_with_page();
    for path in [
        "/",
        "/ask/approval-1",
        "/agents",
        "/agents/fix/diff",
        "/rules",
        "/timeline",
        "/insights",
        "/settings",
        "/agents?from=link",
    ] {
        let answer = get(&host, path, &[]).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, "<!doctype html><title>page</title>"),
            "{path}"
        );
        assert_eq!(
            policies(&answer),
            expected_policies(
                "text/html; charset=utf-8",
                PAGE_POLICY,
                "no-cache",
                "same-origin"
            ),
            "{path}"
        );
    }
}

#[tokio::test]
async fn files_have_their_type_and_are_kept_as_long_as_their_name_allows() {
    const FOR_EVER: &str = "public, max-age=31536000, immutable";
    let host = host_with_page();
    let script = "text/javascript; charset=utf-8";
    let html = "text/html; charset=utf-8";
    for (path, body, expected) in [
        (
            "/app-4FJ2KQZX.js",
            "app",
            expected_policies(script, PAGE_POLICY, FOR_EVER, "same-origin"),
        ),
        (
            "/sw.js",
            "worker",
            expected_policies(script, PAGE_POLICY, "no-cache", "same-origin"),
        ),
        (
            "/manifest.webmanifest",
            "{}",
            expected_policies(
                "application/manifest+json",
                PAGE_POLICY,
                "no-cache",
                "same-origin",
            ),
        ),
        (
            "/term/frame.html",
            "<!doctype html><title>frame</title>",
            expected_policies(html, FRAME_POLICY, "no-cache", "cross-origin"),
        ),
        (
            "/term/frame-4FJ2KQZX.js",
            "frame",
            expected_policies(script, FRAME_POLICY, FOR_EVER, "cross-origin"),
        ),
    ] {
        let answer = get(&host, path, &[]).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
        assert_eq!(policies(&answer), expected, "{path}");
    }
}

#[tokio::test]
async fn a_file_is_compressed_only_for_who_accepts_it_and_sent_once() {
    let host = host_with_page();
    let path = "/app-4FJ2KQZX.js";
    let plain = get(&host, path, &[]).await;
    let compressed = get(&host, path, &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(
        (
            plain.body.as_str(),
            plain.header("content-encoding"),
            plain.header("vary")
        ),
        ("app", None, Some("accept-encoding"))
    );
    assert_eq!(
        (
            compressed.body.as_str(),
            compressed.header("content-encoding")
        ),
        ("app, compressed", Some("gzip"))
    );
    assert_ne!(plain.header("etag"), compressed.header("etag"));
    let tag = plain.header("etag").unwrap();
    let again = get(&host, path, &[("if-none-match", tag)]).await;
    assert_eq!(
        (again.status, again.body.as_str(), again.header("etag")),
        (304, "", Some(tag))
    );
    let other = get(&host, path, &[("if-none-match", "\"other\"")]).await;
    assert_eq!((other.status, other.body.as_str()), (200, "app"));
}

#[tokio::test]
async fn what_is_not_a_file_of_the_page_is_not_found() {
    let host = host_with_page();
    for path in [
        "/app-00000000.js",
        "/icons/nothing.png",
        "/app-4FJ2KQZX.js.gz",
        "/../countersign.db",
        "/%2e%2e/countersign.db",
        "/term",
        "/ask",
        "/api/v1/nothing",
        "/settings/x",
    ] {
        let answer = get(&host, path, &[]).await;
        assert_eq!(answer.refusal(), (404, "unknown_path".to_owned()), "{path}");
    }
    let answer = http(&host.address, "POST", "/sw.js", &[], "").await;
    assert_eq!(answer.refusal(), (404, "unknown_path".to_owned()));
}

#[tokio::test]
async fn a_host_without_the_page_says_how_to_get_it() {
    let host = Host::start_with(|_, options| {
        let folder = options.database.with_file_name("dist");
        std::fs::create_dir_all(&folder).unwrap();
        options.web.folder = Some(folder);
    });
    for path in ["/", "/agents/fix", "/settings"] {
        let answer = get(&host, path, &[]).await;
        assert_eq!(answer.status, 200, "{path}");
        for text in ["make web", "countersign watch", "/api/v1/openapi.json"] {
            assert!(answer.body.contains(text), "{path} without {text}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"));
    }
    let bearer = format!("Bearer {}", host.token());
    let headers = [("authorization", bearer.as_str())];
    let status = get(&host, "/api/v1/status", &headers).await;
    assert_eq!(status.json()["web"]["built"], false);
}
