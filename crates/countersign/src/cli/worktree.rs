//! `diff` and `worktree`: what an agent changed, merging it, and clearing it away.

use clap::{Args, Subcommand};
use countersign_protocol::{
    AgentTarget, DiffFileRow, DiffQuery, HostAgent, MergeWorktreeBody, MergedWorktree, NoParams,
    RemoveWorktreeQuery, WorktreeRow, method,
};
use serde_json::{Value, json};

use super::CommonArgs;
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
    /// List the worktrees of agents
    #[command(
        after_help = "Examples:\n  countersign worktree list\n  countersign worktree list --json | jq -r '.worktrees[].path'"
    )]
    List,
    /// Merge an agent's branch
    #[command(after_help = "Examples:
  countersign worktree merge builder
  countersign worktree merge builder --into release

Merges the commits of the agent's branch into the branch that is checked out in the repository, or
into BRANCH: fast-forward if possible, otherwise with a merge commit. Nothing is changed if there are
conflicts, if the worktree has uncommitted work, or if uncommitted changes of yours are in the way.")]
    Merge(MergeWorktreeArgs),
    /// Remove an agent's worktree
    #[command(after_help = "Examples:
  countersign worktree remove builder
  countersign worktree remove builder --discard

A worktree with uncommitted work is kept, unless --discard is given.
Commits stay on its branch; the branch is deleted only if it has no new commits.")]
    Remove(RemoveWorktreesArgs),
}

#[derive(Args)]
pub(crate) struct MergeWorktreeArgs {
    /// Name or id of the agent
    agent: String,
    /// Branch to merge into [default: the one checked out in the repository]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
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
    let agent_id = args.agent.clone();
    let params = AgentTarget {
        agent_id,
        body: DiffQuery::default(),
    };
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
    match command {
        WorktreeCommand::List => list(common).await,
        WorktreeCommand::Merge(args) => merge(common, args).await,
        WorktreeCommand::Remove(args) => remove(common, args).await,
    }
}

async fn list(common: &CommonArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agents = client.call::<method::Agents>(&NoParams {}).await?;
    let found: Vec<(&HostAgent, &WorktreeRow)> = agents
        .iter()
        .filter_map(|agent| Some((agent, agent.managed.as_ref()?.worktree.as_ref()?)))
        .collect();
    if common.json {
        let rows: Vec<_> = found
            .iter()
            .map(|(agent, tree)| worktree_json(agent, tree))
            .collect();
        output::print_json(&json!({ "worktrees": rows }))?;
    } else if found.is_empty() {
        output::print_message("no worktrees; `countersign spawn --worktree` makes one");
    } else {
        let rows: Vec<_> = found
            .iter()
            .map(|(agent, tree)| worktree_row(agent, tree))
            .collect();
        let heading = ["AGENT", "STATE", "BRANCH", "FOLDER"];
        output::print(&output::columns(&heading, &rows, usize::MAX))?;
    }
    Ok(CliExit::Ok)
}

fn worktree_row(agent: &HostAgent, worktree: &WorktreeRow) -> Vec<String> {
    let state = agent.state.to_string();
    [&agent.name, &state, &worktree.branch, &worktree.path]
        .map(|text| escape::line(text).into_owned())
        .into()
}

fn worktree_json(agent: &HostAgent, worktree: &WorktreeRow) -> Value {
    json!({
        "agent_id": agent.id, "agent_name": agent.name, "state": agent.state,
        "base": worktree.base, "branch": worktree.branch, "path": worktree.path,
        "repository": worktree.repository,
    })
}

async fn merge(common: &CommonArgs, args: MergeWorktreeArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let body = MergeWorktreeBody { into: args.into };
    let params = AgentTarget {
        agent_id: args.agent,
        body,
    };
    let merged = client.call::<method::MergeWorktree>(&params).await?;
    if common.json {
        output::print_json(&merged)?;
    }
    if !merged.merged {
        return Err(not_merged(&merged));
    }
    if !common.json {
        output::print(&describe_merge(&merged))?;
    }
    Ok(CliExit::Ok)
}

fn describe_merge(merged: &MergedWorktree) -> String {
    let into = escape::line(merged.into.as_deref().unwrap_or_default());
    match &merged.commit {
        None => format!("{into} already has all its commits\n"),
        Some(commit) => {
            let commit = escape::line(commit.get(..12).unwrap_or(commit));
            let how = if merged.fast_forward {
                "fast-forward"
            } else {
                "merge commit"
            };
            format!("merged into {into}: {commit} ({how})\n")
        }
    }
}

fn not_merged(merged: &MergedWorktree) -> CliError {
    let why = escape::line(merged.why.as_deref().unwrap_or("no reason was given"));
    let mut what = format!("nothing was merged: {why}");
    for file in &merged.conflicts {
        what.push_str("\n  conflict in ");
        what.push_str(&escape::line(file));
    }
    let hint = if merged.conflicts.is_empty() {
        "commit or move away what is in the way, then try again"
    } else {
        "have the agent merge the other branch into its own first: `countersign send AGENT '…'`"
    };
    CliError::Failed {
        what,
        hint: Some(hint.into()),
    }
}

async fn remove(common: &CommonArgs, args: RemoveWorktreesArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent_id = args.agent.clone();
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
    Err(
        CliError::failed(format!("the worktree was kept: {}", escape::line(why)))
            .with_hint("commit the work, or delete it with --discard"),
    )
}

fn stat(files: &[DiffFileRow]) -> String {
    let rows: Vec<_> = files.iter().map(stat_row).collect();
    output::columns(&["STATUS", "ADDED", "REMOVED", "FILE"], &rows, usize::MAX)
}

fn stat_row(file: &DiffFileRow) -> Vec<String> {
    let path = escape::line(&file.path);
    let path = match &file.from {
        Some(from) => format!("{} -> {path}", escape::line(from)),
        None => path.into_owned(),
    };
    let (added, removed) = if file.binary {
        ("-".to_owned(), "-".to_owned())
    } else {
        (format!("+{}", file.added), format!("-{}", file.removed))
    };
    let status = escape::line(&file.status).into_owned();
    vec![status, added, removed, path]
}

/// A diff, safe to show, with the colours people know.
pub(crate) fn coloured(text: &str) -> String {
    let lines = text.lines().map(|line| {
        // The colour comes from the first bytes, and the text is escaped: a diff cannot bring its own.
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
    });
    lines.collect()
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
            hunks: None,
            path: "b\n".into(),
            removed: 1,
            status: "renamed".into(),
            too_large: false,
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
