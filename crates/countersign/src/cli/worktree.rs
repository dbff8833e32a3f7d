//! `diff` and `worktree`: what an agent changed, and clearing it away.

use clap::{Args, Subcommand};
use countersign_protocol::{AgentParams, AgentTarget, DiffFileRow, RemoveWorktreeQuery, method};

use super::{CommonArgs, agent_lookup};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign diff builder
  countersign diff builder --stat

Shows all changes since its worktree was created: commits, uncommitted changes and new files.")]
pub(crate) struct DiffArgs {
    /// Name or id of the agent
    agent: String,
    /// Only the files, with the number of added and removed lines
    #[arg(long)]
    stat: bool,
}

#[derive(Subcommand)]
pub(crate) enum WorktreeCommand {
    /// Remove an agent's worktree
    #[command(
        after_help = "A worktree with uncommitted work is kept, unless --discard is given.
Commits stay on its branch; the branch is deleted only if it has no new commits."
    )]
    Remove(RemoveWorktreesArgs),
}

#[derive(Args)]
pub(crate) struct RemoveWorktreesArgs {
    /// Name or id of the agent
    agent: String,
    /// Delete uncommitted work
    #[arg(long)]
    discard: bool,
}

pub(super) async fn diff(common: &CommonArgs, args: DiffArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent_id = agent_lookup::find_agent_id(&mut client, &args.agent).await?;
    let params = AgentParams { agent_id };
    let diff = client.call::<method::AgentChanges>(&params).await?;
    if common.json {
        output::print_json(&diff)?;
        return Ok(CliExit::Ok);
    }
    if diff.files.is_empty() {
        output::print_message("nothing changed");
        return Ok(CliExit::Ok);
    }
    let text = if args.stat {
        stat(&diff.files)
    } else {
        coloured(&diff.text)
    };
    output::print(&text)?;
    if diff.truncated {
        output::print_message(
            "the diff is longer than this; use git in the worktree to see all of it",
        );
    }
    Ok(CliExit::Ok)
}

pub(super) async fn worktree(
    common: &CommonArgs,
    command: WorktreeCommand,
) -> Result<CliExit, CliError> {
    let WorktreeCommand::Remove(args) = command;
    let mut client = common.connect().await?;
    let agent_id = agent_lookup::find_agent_id(&mut client, &args.agent).await?;
    let body = RemoveWorktreeQuery {
        discard: args.discard,
    };
    let params = AgentTarget { agent_id, body };
    let removed = client.call::<method::RemoveWorktree>(&params).await?;
    if common.json {
        output::print_json(&removed)?;
    } else if removed.removed {
        let branch = removed.branch_kept.as_deref();
        let kept = branch.map(|name| format!("; kept its branch {}", escape::line(name)));
        output::print(&format!(
            "removed the worktree{}\n",
            kept.unwrap_or_default()
        ))?;
    }
    if removed.removed {
        return Ok(CliExit::Ok);
    }
    let why = removed.why.as_deref().unwrap_or("it holds work");
    Err(CliError::Failed {
        what: format!("the worktree was kept: {}", escape::line(why)),
        hint: Some("commit the work, or delete it with --discard".into()),
    })
}

/// One line per file.
fn stat(files: &[DiffFileRow]) -> String {
    let row = |file: &DiffFileRow| {
        let path = escape::line(&file.path);
        let path = match &file.from {
            Some(from) => format!("{} -> {path}", escape::line(from)),
            None => path.into_owned(),
        };
        let lines = if file.binary {
            ["-".to_owned(), "-".to_owned()]
        } else {
            [format!("+{}", file.added), format!("-{}", file.removed)]
        };
        let [added, removed] = lines;
        vec![
            escape::line(&file.status).into_owned(),
            added,
            removed,
            path,
        ]
    };
    let rows: Vec<_> = files.iter().map(row).collect();
    output::columns(&["STATUS", "ADDED", "REMOVED", "FILE"], &rows, usize::MAX)
}

/// A diff, safe to show, with the colours people know.
pub(crate) fn coloured(text: &str) -> String {
    let line = |line: &str| {
        let style = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
                output::HEAD
            }
            [b'+', ..] => output::GOOD,
            [b'-', ..] => output::BAD,
            [b'@', ..] => output::WARNING,
            _ => return format!("{}\n", escape::block(line)),
        };
        format!("{style}{}{style:#}\n", escape::block(line))
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_with_what_came_and_went() {
        let file = DiffFileRow {
            added: 3,
            binary: false,
            from: Some("a".into()),
            path: "b\n".into(),
            removed: 1,
            status: "renamed".into(),
        };
        assert_eq!(
            anstream::adapter::strip_str(&stat(&[file])).to_string(),
            "STATUS   ADDED  REMOVED  FILE\nrenamed  +3     -1       a -> b\\n\n"
        );
    }

    #[test]
    fn a_diff_says_the_same_without_colours() {
        let text = "diff --git a/x b/x\n@@ -1 +1 @@\n-a\u{1b}[2J\n+b\n";
        assert_eq!(
            anstream::adapter::strip_str(&coloured(text)).to_string(),
            "diff --git a/x b/x\n@@ -1 +1 @@\n-a\\u{1b}[2J\n+b\n"
        );
    }
}
