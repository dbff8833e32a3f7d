//! Checks of what agents need beside the host: the agents themselves, git and Node.

use countersign_agents::{ProgramVersion, VersionError, probe_version};
use countersign_protocol::CatalogRow;

use super::{DoctorCheck, ok, warn};

/// The settings that keep git from running a repository's programs are passed in a way that older
/// versions ignore.
const GIT_MIN: [u32; 2] = [2, 31];

/// What the agents that come from npm are built for.
const NODE_MIN: [u32; 1] = [22];

pub(super) async fn tools(agents: &[CatalogRow]) -> Vec<DoctorCheck> {
    let is_any_installed = agents.iter().any(|agent| agent.installed);
    vec![
        agents_found(agents),
        git(probe_version("git").await),
        node(probe_version("node").await, is_any_installed),
    ]
}

fn agents_found(agents: &[CatalogRow]) -> DoctorCheck {
    const WHAT: &str = "known agents";
    let (here, missing): (Vec<_>, Vec<_>) = agents.iter().partition(|agent| agent.installed);
    let names: Vec<&str> = here.iter().map(|agent| agent.name.as_str()).collect();
    if names.is_empty() {
        return warn(
            WHAT,
            "none is installed",
            "see how to install one with `countersign agents`",
        );
    }
    ok(
        WHAT,
        format!(
            "{} installed; {} more can be (`countersign agents`)",
            names.join(", "),
            missing.len()
        ),
    )
}

fn git(found: Result<ProgramVersion, VersionError>) -> DoctorCheck {
    const WHAT: &str = "git";
    const NEEDED: &str = "`spawn --worktree`, `diff` and `worktree` need git 2.31 or newer";
    match found {
        Ok(version) if version.numbers.as_slice() >= GIT_MIN.as_slice() => {
            ok(WHAT, format!("{}; worktrees can be used", version.line))
        }
        Ok(version) => warn(WHAT, format!("{} is too old", version.line), NEEDED),
        Err(error) => warn(WHAT, error.to_string(), NEEDED),
    }
}

fn node(found: Result<ProgramVersion, VersionError>, is_any_installed: bool) -> DoctorCheck {
    const WHAT: &str = "node";
    const NEEDED: &str = "agents that are installed with npm need Node 22 or newer";
    match found {
        Ok(version) if version.numbers.as_slice() >= NODE_MIN.as_slice() => ok(WHAT, version.line),
        Ok(version) => warn(WHAT, format!("{} is old", version.line), NEEDED),
        // Without it an agent that is a program of its own still runs.
        Err(VersionError::Missing) if is_any_installed => {
            ok(WHAT, format!("not installed; {NEEDED}"))
        }
        Err(error) => warn(WHAT, error.to_string(), NEEDED),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckGrade;
    use super::*;

    fn version(line: &str, numbers: &[u32]) -> ProgramVersion {
        ProgramVersion {
            line: line.into(),
            numbers: numbers.into(),
        }
    }

    #[test]
    fn what_is_missing_or_old_is_a_warning() {
        let gits = [
            Ok(version("git version 2.47.3", &[2, 47, 3])),
            Ok(version("git version 2.30.2", &[2, 30, 2])),
            Err(VersionError::Missing),
        ];
        assert_eq!(
            gits.map(|found| git(found).grade),
            [CheckGrade::Ok, CheckGrade::Warn, CheckGrade::Warn]
        );
        let nodes = [
            (Ok(version("v22.1.0", &[22, 1, 0])), false),
            (Ok(version("v18.0.0", &[18, 0, 0])), true),
            (Err(VersionError::Missing), true),
            (Err(VersionError::Missing), false),
        ];
        assert_eq!(
            nodes.map(|(found, is_any)| node(found, is_any).grade),
            [
                CheckGrade::Ok,
                CheckGrade::Warn,
                CheckGrade::Ok,
                CheckGrade::Warn
            ]
        );
    }
}
