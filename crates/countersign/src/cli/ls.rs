//! `ls`: the agents, those that need a person on top.

use clap::Args;
use countersign_protocol::{HostAgent, HostAgentState, NoParams, Time, UsageRow, method};

use super::{CommonArgs, agent_lookup, agent_tree};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign ls
  countersign ls --all --json | jq -r '.[].id'

Order: agents that need you, then running, idle, failed and ended ones; the most recent first.
Agents that an orchestrator started are listed under it. Tokens and cost are reported by the agents
themselves; some report only the size of their context.")]
pub(crate) struct LsArgs {
    /// Include archived agents
    #[arg(long, short)]
    all: bool,
}

pub(super) async fn ls(common: &CommonArgs, args: LsArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let mut agents = client.call::<method::Agents>(&NoParams {}).await?;
    agents.retain(|agent| args.all || !agent_lookup::is_archived(agent));
    agents.sort_by_key(|agent| (rank(agent), std::cmp::Reverse(last_seen(agent))));
    let placed = agent_tree::arrange_by_parent(agents);
    if common.json {
        let agents: Vec<&HostAgent> = placed.iter().map(|(_, agent)| agent).collect();
        output::print_json(&agents)?;
        return Ok(CliExit::Ok);
    }
    if placed.is_empty() {
        output::print_message("no agents; start one with `countersign spawn`");
        return Ok(CliExit::Ok);
    }
    output::print(&agent_list(&placed, duration::now(), output::list_width()))?;
    Ok(CliExit::Ok)
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

fn agent_list(placed: &[(usize, HostAgent)], now: Time, width: usize) -> String {
    let agents: Vec<&HostAgent> = placed.iter().map(|(_, agent)| agent).collect();
    let row = |(depth, agent): &(usize, HostAgent)| {
        let usage = agent.managed.as_ref().map(|managed| managed.usage);
        vec![
            "  ".repeat(*depth) + &name(agent, &agents),
            kind(agent),
            state_text(agent, now),
            duration::age(now, last_seen(agent)),
            asks(agent),
            usage.and_then(tokens).map_or_else(|| "-".into(), amount),
            usage
                .and_then(|usage| usage.cost_micro_usd)
                .map_or_else(|| "-".into(), cost),
            escape::line(&task(agent)).into_owned(),
        ]
    };
    let rows: Vec<_> = placed.iter().map(row).collect();
    let heading = [
        "NAME", "KIND", "STATE", "SEEN", "ASKS", "TOKENS", "COST", "WHERE",
    ];
    output::columns(&heading, &rows, width) + &totals(&agents)
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

/// The kind, and that it leads others, if it does.
fn kind(agent: &HostAgent) -> String {
    let kind = escape::line(&agent.kind);
    if agent_lookup::is_orchestrator(agent) {
        format!("{kind}, orchestrator")
    } else {
        kind.into_owned()
    }
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

fn asks(agent: &HostAgent) -> String {
    match (agent.open_approvals, agent.open_questions) {
        (0, 0) => "-".into(),
        (asks, 0) => asks.to_string(),
        (0, 1) => "1 question".into(),
        (0, questions) => format!("{questions} questions"),
        (asks, questions) => format!("{asks} + {questions} questions"),
    }
}

/// Where it works and on what.
fn task(agent: &HostAgent) -> String {
    let managed = agent.managed.as_ref();
    let place = managed
        .map(|managed| managed.cwd.as_str())
        .or(agent.project.as_deref());
    let work = agent
        .current_task
        .as_deref()
        .or(managed.and_then(|managed| managed.title.as_deref()))
        .or(managed.and_then(|managed| managed.message.as_deref()));
    let parts: Vec<&str> = [place, work].into_iter().flatten().collect();
    parts.join(": ")
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

fn totals(agents: &[&HostAgent]) -> String {
    let usages = || {
        agents
            .iter()
            .filter_map(|agent| agent.managed.as_ref())
            .map(|row| row.usage)
    };
    let needing = agents.iter().filter(|agent| needs_person(agent)).count();
    let mut parts = vec![match agents.len() {
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    }];
    match needing {
        0 => {}
        1 => parts.push("1 needs you".into()),
        count => parts.push(format!("{count} need you")),
    }
    if let Some(tokens) = usages().filter_map(tokens).reduce(u64::saturating_add) {
        parts.push(format!("{} tokens", amount(tokens)));
    }
    let costs = usages().filter_map(|usage| usage.cost_micro_usd);
    parts.extend(costs.reduce(u64::saturating_add).map(cost));
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

    #[test]
    fn what_needs_a_person_stands_on_top_and_the_sum_below() {
        let mut agents = vec![
            managed("gone", "stopped", 5),
            managed("old", "running", 10),
            managed("new", "running", 20),
            test_rows::agent(),
        ];
        agents.sort_by_key(|agent| (rank(agent), std::cmp::Reverse(last_seen(agent))));
        let text = agent_list(
            &agent_tree::arrange_by_parent(agents),
            Time(180_000_000),
            100,
        );
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "NAME     KIND    STATE                SEEN  ASKS  TOKENS  COST   WHERE\n\
             builder  demo    awaiting_permission  3m    2     -       -      Fix the build\n\
             new      claude  running              2m    -     12.3k   $0.13  /srv/app\n\
             old      claude  running              2m    -     12.3k   $0.13  /srv/app\n\
             gone     claude  stopped              2m    -     12.3k   $0.13  /srv/app\n\
             4 agents, 1 needs you, 37.0k tokens, $0.37\n"
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
        let text = agent_list(
            &agent_tree::arrange_by_parent(agents),
            Time(180_000_000),
            100,
        );
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "NAME   KIND                  STATE                SEEN  ASKS  TOKENS  COST   WHERE\n\
             boss   claude, orchestrator  idle, has a ceiling  3m    -     -       -      /srv/app\n  \
             ann  claude                waiting              3m    -     -       -      /srv/app\n\
             old    claude                running              2m    -     12.3k   $0.13  /srv/app\n\
             3 agents, 12.3k tokens, $0.13\n"
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
