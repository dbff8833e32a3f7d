use super::*;

fn domain(name: &str, port: u16) -> ConnectTarget {
    let host = ConnectHost::Domain(name.to_owned());
    ConnectTarget { host, port }
}

fn address(text: &str, port: u16) -> ConnectTarget {
    let host = ConnectHost::Address(text.parse().unwrap());
    ConnectTarget { host, port }
}

#[test]
fn tunnels_are_read() {
    let cases = [
        ("docs.rs:443", domain("docs.rs", 443)),
        ("DOCS.rs.:443", domain("docs.rs", 443)),
        ("127.0.0.1:80", address("127.0.0.1", 80)),
        ("[::1]:80", address("::1", 80)),
        ("[::ffff:10.0.0.5]:80", address("10.0.0.5", 80)),
        ("localhost:80", address("127.0.0.1", 80)),
        ("a.localhost:80", address("127.0.0.1", 80)),
    ];
    for (text, expected) in cases {
        let head = format!("CONNECT {text} HTTP/1.1\r\nHost: x\r\n\r\nrest");
        let length = head.len() - "rest".len();
        let expected = Ok(Some((HttpRequest::Connect(expected), length)));
        assert_eq!(parse_http(head.as_bytes()), expected, "{text}");
        for end in 0..length {
            assert_eq!(parse_http(&head.as_bytes()[..end]), Ok(None), "{end}");
        }
    }
}

#[test]
fn places_that_programs_read_differently_are_refused() {
    let long = format!("{}.rs:443", "a".repeat(64));
    for text in [
        "docs.rs",
        "docs.rs:",
        "docs.rs:0",
        "docs.rs:65536",
        "docs.rs:+443",
        "docs.rs:4 3",
        ":443",
        ".:443",
        "a..b:443",
        "user@docs.rs:443",
        "127.1:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "127.0.0.1.:80",
        "0127.0.0.1:80",
        "[::1%lo]:80",
        "[::1:80",
        "::1:80",
        "[127.0.0.1]:80",
        "docs.rs\0.example:443",
        "docs.rs\u{200b}:443",
        "b\u{fc}cher.example:443",
        &long,
    ] {
        let head = format!("CONNECT {text} HTTP/1.1\r\n\r\n");
        assert_eq!(parse_http(head.as_bytes()), Err(Malformed), "{text:?}");
    }
}

#[test]
fn a_request_is_forwarded_as_its_server_expects_it() {
    let head = "GET http://docs.rs:8080/a?b#c HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n\
                Proxy-Connection: keep-alive\r\nconnection: keep-alive\r\n\r\n";
    let sent =
        "GET /a?b HTTP/1.1\r\nHost: docs.rs:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    let request = HttpRequest::Forward(domain("docs.rs", 8080), sent.as_bytes().to_vec());
    assert_eq!(parse_http(head.as_bytes()), Ok(Some((request, head.len()))));
    let head = "GET http://docs.rs?x HTTP/1.0\r\n\r\n";
    let sent = "GET /?x HTTP/1.1\r\nHost: docs.rs\r\nConnection: close\r\n\r\n";
    let request = HttpRequest::Forward(domain("docs.rs", 80), sent.as_bytes().to_vec());
    assert_eq!(parse_http(head.as_bytes()), Ok(Some((request, head.len()))));
}

#[test]
fn heads_that_are_none_are_refused() {
    for head in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET https://docs.rs/ HTTP/1.1\r\n\r\n",
        "GET http://u@docs.rs/ HTTP/1.1\r\n\r\n",
        "GET http:///x HTTP/1.1\r\n\r\n",
        "CONNECT docs.rs:443\r\n\r\n",
        "CONNECT docs.rs:443 HTTP/2\r\n\r\n",
        "CONNECT  docs.rs:443 HTTP/1.1\r\n\r\n",
        "connect docs.rs:443 HTTP/1.1\r\n\r\n",
        "GET http://docs.rs/ HTTP/1.1\r\nA: b\nGET http://x/ HTTP/1.1\r\n\r\n",
        "GET http://docs.rs/ HTTP/1.1\r\nno field\r\n\r\n",
        "GET http://docs.rs/ HTTP/1.1\r\nA : b\r\n\r\n",
        "\r\n\r\n",
    ] {
        assert_eq!(parse_http(head.as_bytes()), Err(Malformed), "{head:?}");
    }
    assert_eq!(parse_http(b"\xff\xfe / HTTP/1.1\r\n\r\n"), Err(Malformed));
}

#[test]
fn socks_is_read_byte_by_byte() {
    assert_eq!(parse_socks_methods(&[5, 2, 1, 0]), Ok(Some((true, 4))));
    assert_eq!(parse_socks_methods(&[5, 1, 2]), Ok(Some((false, 3))));
    assert_eq!(parse_socks_methods(&[5, 2, 0]), Ok(None));
    assert_eq!(parse_socks_methods(&[4, 1, 0]), Err(Malformed));
    let name = [&[5, 1, 0, 3, 7], &b"docs.rs"[..], &[1, 187]].concat();
    let cases = [
        (name, domain("docs.rs", 443)),
        (
            vec![5, 1, 0, 1, 10, 0, 0, 5, 0, 80],
            address("10.0.0.5", 80),
        ),
        (
            [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat(),
            address("::1", 80),
        ),
    ];
    for (bytes, expected) in cases {
        for end in 0..bytes.len() {
            assert_eq!(parse_socks_request(&bytes[..end]), Ok(None), "{end}");
        }
        let expected = Ok(Some((expected, bytes.len())));
        assert_eq!(parse_socks_request(&bytes), expected);
    }
}

#[test]
fn other_commands_of_socks_are_refused() {
    let empty = [5, 1, 0, 3, 0, 0, 80];
    let number = [&[5, 1, 0, 3, 5], &b"127.1"[..], &[0, 80]].concat();
    for bytes in [
        &[5, 2, 0, 1, 10, 0, 0, 5, 0, 80][..],
        &[5, 3, 0, 1, 10, 0, 0, 5, 0, 80],
        &[5, 1, 1, 1, 10, 0, 0, 5, 0, 80],
        &[5, 1, 0, 2, 10, 0, 0, 5, 0, 80],
        &[5, 1, 0, 1, 10, 0, 0, 5, 0, 0],
        &[4, 1, 0, 1, 10, 0, 0, 5, 0, 80],
        &empty,
        &number,
    ] {
        assert_eq!(parse_socks_request(bytes), Err(Malformed), "{bytes:?}");
    }
}
