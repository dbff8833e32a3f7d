//! The environment of an agent: what the host has, without what is the host's own.

use std::ffi::OsString;

use countersign_core::event::EnvVar;

/// The host's own variables: an agent has no use for where its host lives. Those of the terminal
/// the host was started from say something about a person's session, not about the agent's.
fn is_host_variable(name: &str) -> bool {
    name.starts_with("COUNTERSIGN_")
        || matches!(
            name,
            "CLAUDECODE" | "TMUX" | "TMUX_PANE" | "STY" | "WINDOWID"
        )
}

/// What an agent's process is started with: the host's environment, the variables that were asked
/// for, and the values that are not recorded. A later value of a name replaces an earlier one.
pub(super) fn build_environment(
    host: impl Iterator<Item = (OsString, OsString)>,
    wanted: &[EnvVar],
    secrets: Vec<(String, String)>,
) -> Vec<(OsString, OsString)> {
    let host = host.filter(|(name, _)| !name.to_str().is_some_and(is_host_variable));
    let mut env: Vec<(OsString, OsString)> = host.collect();
    // A name without a value is the caller's own value, which comes with `secrets`, or the host's.
    let given = wanted.iter().filter_map(|var| {
        let value = var.value.clone()?;
        Some((var.name.clone(), value))
    });
    for (name, value) in given.chain(secrets) {
        let name = OsString::from(name);
        env.retain(|(found, _)| *found != name);
        env.push((name, value.into()));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_gets_what_is_its_own_and_nothing_of_the_hosts() {
        let host = [
            ("PATH", "/bin"),
            ("COUNTERSIGN_HOME", "/x"),
            ("A", "1"),
            ("B", "1"),
        ];
        let host = host.map(|(name, value)| (name.into(), value.into()));
        let var = |name: &str, value: Option<&str>| EnvVar {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        let wanted = [var("A", Some("2")), var("B", None), var("KEY", None)];
        let secrets = vec![("KEY".to_owned(), "s".to_owned())];
        let found = build_environment(host.into_iter(), &wanted, secrets);
        let expected = [("PATH", "/bin"), ("B", "1"), ("A", "2"), ("KEY", "s")];
        let expected = expected.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        assert_eq!(found, expected);
    }
}
