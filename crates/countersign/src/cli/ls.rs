//! `ls`: the agents, those that need a person on top.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use clap::Args;
use countersign_protocol::{
    AgentTarget, DiffQuery, HostAgent, HostAgentState, NoParams, Time, UsageRow, method,
};
use futures_util::future::join_all;
use unicode_width::UnicodeWidthStr as _;

use super::args::LabelArg;
use super::{CommonArgs, agent_lookup, agent_tree, args};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, fit, output};

/// How long the list waits for the changed lines of its agents. What is not known by then is left out.
const CHANGES_WAIT: Duration = Duration::from_secs(1);
/// Agents whose changed lines are counted: git runs for each of them.
const CHANGES_COUNTED: usize = 16;
/// Columns that WHERE keeps. Other columns are left out for it on a narrow terminal.
const WHERE_MIN: usize = 24;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign ls
  countersign ls --all
  countersign ls --json | jq -r '.agents[].id'
  countersign ls --label team=web

Order: agents that need you, then running, idle, failed and ended ones; the most recent first.
Agents that an orchestrator started are listed under it. ELAPSED is the time since the agent was
started, and SEEN is the time since its last activity. CHANGES counts the lines added and removed in
its worktree. Tokens and cost are reported by the agents themselves; some report only the size of
their context.
Columns that say nothing are left out, and on a narrow terminal the less important ones.")]
pub(crate) struct LsArgs {
    /// Include agents that ended or are archived
    #[arg(long, short)]
    all: bool,
    /// Only agents with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,
}

pub(super) async fn ls(common: &CommonArgs, args: LsArgs) -> Result<CliExit, CliError> {
    let labels = args::labels(args.labels)?;
    let mut client = common.connect().await?;
    let mut agents = client.call::<method::Agents>(&NoParams {}).await?;
    agents.retain(|agent| agent_lookup::has_labels(agent, &labels));
    let count = agents.len();
    agents.retain(|agent| args.all || is_listed(agent));
    let hidden = count - agents.len();
    agents.sort_by_key(|agent| (rank(agent), std::cmp::Reverse(last_seen(agent))));
    let placed = agent_tree::arrange_by_parent(agents);
    if common.json {
        let agents = output::json_rows(placed.iter().map(|(_, agent)| agent))?;
        output::print_json(&BTreeMap::from([("agents", agents)]))?;
        return Ok(CliExit::Ok);
    }
    if placed.is_empty() {
        output::print_message(empty_text(hidden));
        return Ok(CliExit::Ok);
    }
    let home = output::home_folder();
    let surroundings = ListSurroundings {
        now: duration::now(),
        width: output::list_width(),
        changes: count_changes(common, &placed).await,
        home,
        hidden,
    };
    output::print(&agent_list(&placed, &surroundings))?;
    Ok(CliExit::Ok)
}

fn empty_text(hidden: usize) -> String {
    match hidden {
        0 => "no agents; start one with `countersign spawn`".to_owned(),
        1 => "no agent runs; 1 ended or archived: `countersign ls --all`".to_owned(),
        count => format!("no agent runs; {count} ended or archived: `countersign ls --all`"),
    }
}

/// An agent that failed is listed until it is archived: somebody has to see that.
fn is_listed(agent: &HostAgent) -> bool {
    let is_over = matches!(agent.state, HostAgentState::Done | HostAgentState::Stopped);
    !agent_lookup::is_archived(agent) && (!is_over || needs_person(agent))
}

/// Lines added and removed, by agent. Each is asked for on a connection of its own, because the host
/// answers the requests of one connection in turn.
async fn count_changes(
    common: &CommonArgs,
    placed: &[(usize, HostAgent)],
) -> BTreeMap<String, (u64, u64)> {
    let agents = placed.iter().map(|(_, agent)| agent);
    let with_worktree = agents.filter(|agent| worktree_branch(agent).is_some());
    let counts = with_worktree.take(CHANGES_COUNTED).map(|agent| async {
        let counted = tokio::time::timeout(CHANGES_WAIT, changed_lines(common, agent)).await;
        Some((agent.id.clone(), counted.ok()?.ok()?))
    });
    join_all(counts).await.into_iter().flatten().collect()
}

async fn changed_lines(common: &CommonArgs, agent: &HostAgent) -> Result<(u64, u64), CliError> {
    let agent_id = agent.id.clone();
    let params = AgentTarget {
        agent_id,
        body: DiffQuery::default(),
    };
    let diff = common.call::<method::AgentChanges>(&params).await?;
    let files = diff.files.iter();
    Ok(files.fold((0, 0), |(added, removed), file| {
        (added + file.added, removed + file.removed)
    }))
}

fn worktree_branch(agent: &HostAgent) -> Option<&str> {
    let worktree = agent.managed.as_ref()?.worktree.as_ref();
    worktree.map(|worktree| worktree.branch.as_str())
}

/// Lower comes first.
fn rank(agent: &HostAgent) -> u8 {
    if agent_lookup::is_archived(agent) {
        return 6;
    }
    if needs_person(agent) {
        return 0;
    }
    match agent.state {
        HostAgentState::Starting | HostAgentState::Running => 1,
        HostAgentState::Idle | HostAgentState::Paused => 2,
        HostAgentState::Error => 3,
        HostAgentState::Done => 4,
        _ => 5,
    }
}

fn needs_person(agent: &HostAgent) -> bool {
    agent.open_approvals + agent.open_questions > 0
}

fn last_seen(agent: &HostAgent) -> Time {
    let managed = agent.managed.as_ref();
    managed.map_or(agent.updated_at, |managed| managed.last_activity)
}

/// What the list depends on besides its rows.
struct ListSurroundings {
    now: Time,
    width: usize,
    home: String,
    changes: BTreeMap<String, (u64, u64)>,
    /// Agents that are not listed.
    hidden: usize,
}

/// One column of the list.
struct ListColumn {
    heading: &'static str,
    cells: Vec<String>,
    /// Left out where WHERE has no room: the highest number first. `None` stays.
    dispensable: Option<u8>,
}

impl ListColumn {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.width());
        cells.max().unwrap_or(0).max(self.heading.len()) + 2
    }

    fn says_nothing(&self) -> bool {
        self.cells.iter().all(|cell| cell == "-")
    }
}

fn agent_list(placed: &[(usize, HostAgent)], around: &ListSurroundings) -> String {
    let agents: Vec<&HostAgent> = placed.iter().map(|(_, agent)| agent).collect();
    let mut columns = list_columns(placed, &agents, around);
    columns.retain(|column| column.dispensable.is_none() || !column.says_nothing());
    let widest = agents
        .iter()
        .map(|agent| place(agent, &around.home, usize::MAX).width());
    let wanted = widest.max().unwrap_or(0).min(WHERE_MIN);
    let room = make_room(&mut columns, around.width, wanted);
    let places = agents.iter().map(|agent| place(agent, &around.home, room));
    columns.push(ListColumn {
        heading: "WHERE",
        cells: places.collect(),
        dispensable: None,
    });
    let heading: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let rows = (0..agents.len()).map(|row| {
        let cells = columns.iter().map(|column| column.cells[row].clone());
        cells.collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    output::styled_columns(&heading, &rows, around.width, cell_style)
        + &totals(&agents, around.hidden)
}

fn list_columns(
    placed: &[(usize, HostAgent)],
    agents: &[&HostAgent],
    around: &ListSurroundings,
) -> Vec<ListColumn> {
    let now = around.now;
    let column = |heading, dispensable, cell: &dyn Fn(&HostAgent) -> Option<String>| {
        let cells = agents.iter().map(|agent| cell(agent));
        let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".into()));
        ListColumn {
            heading,
            cells: cells.collect(),
            dispensable,
        }
    };
    let names = placed
        .iter()
        .map(|(depth, agent)| "  ".repeat(*depth) + &name(agent, agents));
    vec![
        ListColumn {
            heading: "NAME",
            cells: names.collect(),
            dispensable: None,
        },
        column("KIND", Some(1), &|agent| Some(kind(agent))),
        column("STATE", None, &|agent| Some(state_text(agent, now))),
        column("ELAPSED", Some(2), &|agent| elapsed(agent, now)),
        column("SEEN", Some(6), &|agent| {
            Some(duration::age(now, last_seen(agent)))
        }),
        column("ASKS", Some(0), &asks),
        column("CHANGES", Some(3), &|agent| {
            let (added, removed) = around.changes.get(&agent.id)?;
            Some(format!("+{added} -{removed}"))
        }),
        column("TOKENS", Some(5), &|agent| {
            let usage = agent.managed.as_ref()?.usage;
            tokens(usage).map(amount)
        }),
        column("COST", Some(4), &|agent| {
            let usage = agent.managed.as_ref()?.usage;
            usage.cost_micro_usd.map(cost)
        }),
        column("SANDBOX", Some(3), &|agent| {
            let managed = agent.managed.as_ref()?;
            managed
                .sandbox
                .as_ref()
                .map(crate::render::approvals::sandbox)
        }),
        column("BRANCH", Some(2), &|agent| {
            worktree_branch(agent).map(|branch| escape::line(branch).into_owned())
        }),
    ]
}

/// Leaves columns out until WHERE has the room that it wants, and returns its room.
fn make_room(columns: &mut Vec<ListColumn>, width: usize, wanted: usize) -> usize {
    loop {
        let used: usize = columns.iter().map(ListColumn::width).sum();
        let room = width.saturating_sub(used);
        let least = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.dispensable.is_some_and(|number| number > 0))
            .max_by_key(|(_, column)| column.dispensable)
            .map(|(index, _)| index);
        match least {
            Some(index) if room < wanted => drop(columns.remove(index)),
            _ => return room,
        }
    }
}

fn cell_style(heading: &str, cell: &str) -> Style {
    match heading {
        "STATE" => output::state_style(cell),
        "ASKS" if cell != "-" => output::WARNING,
        _ => Style::new(),
    }
}

/// From its start until now, or until it ended.
fn elapsed(agent: &HostAgent, now: Time) -> Option<String> {
    let managed = agent.managed.as_ref();
    let is_over = matches!(
        agent.state,
        HostAgentState::Done | HostAgentState::Stopped | HostAgentState::Error
    );
    let ended = managed
        .and_then(|managed| managed.ended_at)
        .filter(|_| is_over);
    Some(duration::age(ended.unwrap_or(now), agent.started_at?))
}

/// The name, with the id where the name alone would not do.
fn name(agent: &HostAgent, agents: &[&HostAgent]) -> String {
    let same = agents
        .iter()
        .filter(|other| other.name == agent.name)
        .count();
    let name = escape::line(&agent.name);
    if same == 1 {
        name.into_owned()
    } else {
        format!("{name} [{}]", escape::line(&agent.id))
    }
}

/// The kind, that it leads others, if it does, and its labels.
fn kind(agent: &HostAgent) -> String {
    let role = agent_lookup::is_orchestrator(agent).then(|| "orchestrator".to_owned());
    let managed = agent.managed.iter();
    let labels = managed.flat_map(|managed| &managed.labels);
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let parts: Vec<String> = std::iter::once(agent.kind.clone())
        .chain(role)
        .chain(labels)
        .map(|part| escape::line(&part).into_owned())
        .collect();
    parts.join(", ")
}

/// The state, that it may settle asks of others, and that its own are not held, if they are not.
fn state_text(agent: &HostAgent, now: Time) -> String {
    let state = match agent.state {
        HostAgentState::Unknown => agent.status.as_str(),
        known => known.as_str(),
    };
    let managed = agent.managed.as_ref();
    let queued = managed.map_or(0, |managed| managed.queued);
    let ceiling = managed.and_then(|managed| managed.ceiling.as_ref());
    let ceiling = ceiling.filter(|ceiling| ceiling.until.is_none_or(|until| until > now));
    let bypass = agent.bypass_until.filter(|until| *until > now);
    let parts = [
        Some(escape::line(state).into_owned()),
        (queued > 0).then(|| format!("{queued} queued")),
        agent_lookup::is_archived(agent).then(|| "archived".to_owned()),
        ceiling.map(|_| "has a ceiling".to_owned()),
        bypass.map(|until| format!("BYPASS ends {}", duration::until(now, until))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn asks(agent: &HostAgent) -> Option<String> {
    match (agent.open_approvals, agent.open_questions) {
        (0, 0) => None,
        (asks, 0) => Some(asks.to_string()),
        (0, 1) => Some("1 question".into()),
        (0, questions) => Some(format!("{questions} questions")),
        (asks, questions) => Some(format!("{asks} + {questions} questions")),
    }
}

/// Where it works and on what. The folder is cut in the middle and leaves a third of the room to the
/// rest.
fn place(agent: &HostAgent, home: &str, room: usize) -> String {
    let managed = agent.managed.as_ref();
    let folder = managed
        .map(|managed| managed.cwd.as_str())
        .or(agent.project.as_deref());
    let work = agent
        .current_task
        .as_deref()
        .or(managed.and_then(|managed| managed.title.as_deref()))
        .or(managed.and_then(|managed| managed.message.as_deref()));
    let work = work.map(escape::line);
    let folder = folder.map(|folder| escape::line(&output::short_path(folder, home)).into_owned());
    match (folder, work) {
        (Some(folder), Some(work)) => {
            let left = room.saturating_sub(work.width() + 2).max(room / 3 * 2);
            format!("{}: {work}", fit::truncate_middle(&folder, left))
        }
        (Some(folder), None) => fit::truncate_middle(&folder, room),
        (None, work) => work.unwrap_or_default().into_owned(),
    }
}

/// Tokens it used; those in its context where it says no more.
fn tokens(usage: UsageRow) -> Option<u64> {
    match (usage.tokens_in, usage.tokens_out) {
        (None, None) => usage.context_used,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    }
}

/// A number in at most four characters and a unit.
fn amount(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Millionths of a dollar, in dollars and cents; never less than was spent.
fn cost(micro: u64) -> String {
    let cents = micro.div_ceil(10_000);
    format!("${}.{:02}", cents / 100, cents % 100)
}

fn totals(agents: &[&HostAgent], hidden: usize) -> String {
    let managed = agents.iter().filter_map(|agent| agent.managed.as_ref());
    let usages: Vec<UsageRow> = managed.map(|row| row.usage).collect();
    let needing = agents.iter().filter(|agent| needs_person(agent)).count();
    let mut parts = vec![output::plural(agents.len(), "agent")];
    match needing {
        0 => {}
        1 => parts.push("1 needs you".into()),
        count => parts.push(format!("{count} need you")),
    }
    let all_tokens = usages.iter().copied().filter_map(tokens);
    if let Some(tokens) = all_tokens.reduce(u64::saturating_add) {
        parts.push(format!("{} tokens", amount(tokens)));
    }
    let costs = usages.iter().filter_map(|usage| usage.cost_micro_usd);
    parts.extend(costs.reduce(u64::saturating_add).map(cost));
    if hidden > 0 {
        parts.push(format!("{hidden} ended or archived not shown (--all)"));
    }
    parts.join(", ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use countersign_protocol::ManagedRow;

    fn managed(name: &str, state: &str, seconds: u64) -> HostAgent {
        HostAgent {
            id: format!("agent-{name}"),
            name: name.into(),
            kind: "claude".into(),
            state: state.into(),
            open_approvals: 0,
            current_task: None,
            managed: Some(ManagedRow {
                last_activity: Time(seconds * 1_000_000),
                usage: UsageRow {
                    tokens_in: Some(12_000),
                    tokens_out: Some(345),
                    cost_micro_usd: Some(120_001),
                    ..UsageRow::default()
                },
                ..test_rows::managed()
            }),
            ..test_rows::agent()
        }
    }

    fn around(width: usize) -> ListSurroundings {
        ListSurroundings {
            now: Time(180_000_000),
            width,
            home: "/home/ada".into(),
            changes: BTreeMap::from([("agent-new".to_owned(), (120, 4))]),
            hidden: 0,
        }
    }

    fn list(agents: Vec<HostAgent>, around: &ListSurroundings) -> String {
        let text = agent_list(&agent_tree::arrange_by_parent(agents), around);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn what_needs_a_person_stands_on_top_and_the_sum_below() {
        let mut agents = vec![
            managed("gone", "stopped", 5),
            managed("old", "running", 10),
            managed("new", "running", 20),
            test_rows::agent(),
        ];
        agents.sort_by_key(|agent| (rank(agent), std::cmp::Reverse(last_seen(agent))));
        assert_eq!(
            list(agents, &around(100)),
            "NAME     KIND    STATE                SEEN  ASKS  CHANGES  TOKENS  COST   WHERE\n\
             builder  demo    awaiting_permission  3m    2     -        -       -      Fix the build\n\
             new      claude  running              2m    -     +120 -4  12.3k   $0.13  /srv/app\n\
             old      claude  running              2m    -     -        12.3k   $0.13  /srv/app\n\
             gone     claude  stopped              2m    -     -        12.3k   $0.13  /srv/app\n\
             4 agents, 1 needs you, 37.0k tokens, $0.37\n"
        );
    }

    #[test]
    fn where_is_readable_on_a_terminal_of_100_and_of_80_columns() {
        let worktree = countersign_protocol::WorktreeRow {
            base: "c0ffee".into(),
            branch: "countersign/new".into(),
            path: "/home/ada/src/clockwork.worktrees/new".into(),
            repository: "/home/ada/src/clockwork".into(),
        };
        let mut agent = managed("new", "awaiting_permission", 20);
        agent.started_at = Some(Time(60_000_000));
        agent.open_approvals = 1;
        agent.managed = agent.managed.map(|row| ManagedRow {
            cwd: "/home/ada/src/clockwork.worktrees/new/crates/core".into(),
            title: Some("Fix the failing test".into()),
            worktree: Some(worktree),
            ..row
        });
        let rows = |width| list(vec![agent.clone()], &around(width));
        assert_eq!(
            rows(100),
            "NAME  KIND    STATE                ELAPSED  ASKS  CHANGES  BRANCH           WHERE\n\
             new   claude  awaiting_permission  2m       1     +120 -4  countersign/new  ~/src/c…tes/core: Fix t…\n\
             1 agent, 1 needs you, 12.3k tokens, $0.13\n"
        );
        assert_eq!(
            rows(80),
            "NAME  KIND    STATE                ELAPSED  ASKS  WHERE\n\
             new   claude  awaiting_permission  2m       1     ~/src/clo…rates/core: Fix the…\n\
             1 agent, 1 needs you, 12.3k tokens, $0.13\n"
        );
    }

    #[test]
    fn agents_that_ended_are_listed_only_on_request_and_failed_ones_always() {
        let listed = ["running", "idle", "error", "done", "stopped"]
            .map(|state| is_listed(&managed("x", state, 0)));
        assert_eq!(listed, [true, true, true, false, false]);
        let asks = HostAgent {
            open_approvals: 1,
            ..managed("x", "stopped", 0)
        };
        assert!(is_listed(&asks));
        assert_eq!(
            empty_text(2),
            "no agent runs; 2 ended or archived: `countersign ls --all`"
        );
    }

    #[test]
    fn agents_stand_under_their_orchestrator() {
        let with = |agent: HostAgent, row: ManagedRow| HostAgent {
            managed: Some(row),
            ..agent
        };
        let boss = ManagedRow {
            role: Some("orchestrator".into()),
            ceiling: Some(countersign_protocol::CeilingRow {
                rules: vec!["Bash(ls:*)".into()],
                until: None,
            }),
            ..test_rows::managed()
        };
        let below = ManagedRow {
            parent: Some("agent-boss".into()),
            ..test_rows::managed()
        };
        let agents = vec![
            with(managed("ann", "waiting", 0), below),
            managed("old", "running", 10),
            with(managed("boss", "idle", 0), boss),
        ];
        let around = ListSurroundings {
            hidden: 3,
            ..around(100)
        };
        assert_eq!(
            list(agents, &around),
            "NAME   KIND                  STATE                SEEN  TOKENS  COST   WHERE\n\
             boss   claude, orchestrator  idle, has a ceiling  3m    -       -      /srv/app\n  \
             ann  claude                waiting              3m    -       -      /srv/app\n\
             old    claude                running              2m    12.3k   $0.13  /srv/app\n\
             3 agents, 12.3k tokens, $0.13, 3 ended or archived not shown (--all)\n"
        );
    }

    #[test]
    fn numbers_are_short_and_costs_never_too_low() {
        let amounts = [0, 999, 1_000, 999_999, 12_345_678].map(amount);
        assert_eq!(amounts, ["0", "999", "1.0k", "999.9k", "12.3M"]);
        assert_eq!(
            [0, 1, 10_000, 1_234_567].map(cost),
            ["$0.00", "$0.01", "$0.01", "$1.24"]
        );
    }
}
