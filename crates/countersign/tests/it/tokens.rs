//! Tokens on the command line, and what a host leaves in its home.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::host::{Host, command};

#[tokio::test]
async fn only_the_command_line_makes_a_token_that_never_ends_and_it_warns() {
    let host = Host::start();
    let create = |expires: &str| {
        let words = [
            "token",
            "create",
            "--role",
            "observer",
            "--expires",
            expires,
            "--json",
        ];
        command(host.home()).args(words).output().unwrap()
    };
    let made = create("never");
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let row: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(row["expires_at"], Value::Null);
    let warning = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(
        warning.contains("warning: this token never expires"),
        "{warning}"
    );
    let made = create("90d");
    assert_eq!(
        (made.status.code(), made.stderr.len()),
        (Some(0), 0),
        "{made:?}"
    );
    for (wrong, why) in [("91d", "at most 90 days"), ("0s", "duration"), ("-1h", "")] {
        let refused = create(wrong);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(why), "{said}");
    }
    // A token on the socket narrows who calls, so that one that was found cannot be made to last.
    let over_socket = command(host.home())
        .args([
            "token",
            "create",
            "--role",
            "operator",
            "--expires",
            "never",
        ])
        .env("COUNTERSIGN_TOKEN", host.token())
        .output()
        .unwrap();
    assert_eq!(over_socket.status.code(), Some(2), "{over_socket:?}");
}

#[tokio::test]
async fn what_the_host_makes_is_for_its_owner_alone() {
    let host = Host::start();
    let mode = |name: &str| {
        let found = std::fs::metadata(host.home().join(name)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("run"), mode("run/host.sock"), mode("countersign.db")),
        (0o700, 0o600, 0o600)
    );
}

#[tokio::test]
async fn no_token_lies_in_a_file() {
    let home = tempfile::tempdir().unwrap();
    let left = home.path().join("run/auth-token");
    std::fs::create_dir(home.path().join("run")).unwrap();
    std::fs::set_permissions(
        home.path().join("run"),
        std::fs::Permissions::from_mode(0o700),
    )
    .unwrap();
    std::fs::write(&left, "an earlier host's").unwrap();
    let host = Host::start_in(home, &[]);
    assert!(!left.exists());
    let run: Vec<_> = std::fs::read_dir(host.home().join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let known = ["host.sock", "runners", "terminals"];
    let is_known = |name: &std::ffi::OsString| known.iter().any(|known| name == known);
    assert!(run.iter().all(is_known), "{run:?}");
}

#[test]
fn only_loopback_is_listened_on() {
    let home = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let ended = command(home.path())
            .args(["up", "--listen", address])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            !ended.status.success() && words.contains("loopback"),
            "{address}: {words}"
        );
    }
}
