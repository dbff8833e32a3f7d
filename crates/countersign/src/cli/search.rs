//! `search`: words in the transcripts of agents.

use clap::Args;
use countersign_protocol::{SearchHitRow, SearchParams, SearchResult, Time, method};

use super::CommonArgs;
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::render::search_hits::kind_mark;
use crate::{duration, output};

/// Default number of hits.
const HITS: u64 = 50;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign search flaky test
  countersign search --agent builder parse.rs
  countersign search migration --json | jq -r '.hits[].agent_name' | sort | uniq -c

Finds what was written to agents, what they said and thought, their plans, and what tools they called
for; not what the tools gave. An entry must have all words; upper case and accents do not matter, and
the last word may be the beginning of a word. Words without a space between them stand next to each
other. The newest comes first. `countersign logs AGENT --after NUMBER` prints what follows an entry.

Marks: `>` a message to the agent, `|` text of the agent, `~` its thoughts, `*` a tool call, `-` its
plan, `!` a notice.")]
pub(crate) struct SearchArgs {
    /// The words
    #[arg(required = true)]
    text: Vec<String>,
    /// Only in the transcript of this agent, by name or id
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Print at most this many entries (default: 50)
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    /// Only entries before this number
    #[arg(long, value_name = "N")]
    before: Option<u64>,
}

pub(super) async fn search(common: &CommonArgs, args: SearchArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let found = read_hits(&mut client, args).await?;
    if common.json {
        output::print_json(&found)?;
    } else if found.hits.is_empty() {
        output::print_message("nothing was found");
    } else {
        let now = duration::now();
        output::print(&hit_list(&found.hits, now, output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

/// Reads pages until there are enough hits: the host may end a page early, when it read much for it.
async fn read_hits(client: &mut HostClient, args: SearchArgs) -> Result<SearchResult, CallError> {
    let limit = args.limit.unwrap_or(HITS).max(1);
    let mut found = SearchResult {
        hits: Vec::new(),
        next: args.before,
    };
    loop {
        let params = SearchParams {
            text: args.text.join(" "),
            agent_id: args.agent.clone(),
            limit: Some(limit - found.hits.len() as u64),
            before: found.next,
        };
        let page = client.call::<method::Search>(&params).await?;
        found.hits.extend(page.hits);
        found.next = page.next;
        if found.next.is_none() || found.hits.len() as u64 >= limit {
            return Ok(found);
        }
    }
}

fn hit_list(hits: &[SearchHitRow], now: Time, width: usize) -> String {
    let rows = hits.iter().map(|hit| {
        let agent = hit.agent_name.as_deref().unwrap_or(&hit.agent_id);
        let text: String = hit
            .excerpt
            .iter()
            .map(|piece| piece.text.as_str())
            .collect();
        vec![
            hit.sequence.to_string(),
            duration::age(now, hit.timestamp),
            escape::line(agent).into_owned(),
            format!("{} {}", kind_mark(hit.kind), escape::line(&text)),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::columns(&["NUMBER", "AGE", "AGENT", "TEXT"], &rows, width)
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{ExcerptRow, SearchHitKind};

    use super::*;

    #[test]
    fn hits_are_listed_with_their_place_and_escaped() {
        let hit = |sequence, name: Option<&str>, kind, texts: &[&str]| SearchHitRow {
            agent_id: "agent-1".to_owned(),
            agent_name: name.map(str::to_owned),
            entry: 0,
            excerpt: texts
                .iter()
                .enumerate()
                .map(|(index, text)| ExcerptRow {
                    hit: index == 1,
                    text: (*text).to_owned(),
                })
                .collect(),
            kind,
            sequence,
            timestamp: Time(1_000_000),
            turn: 1,
        };
        let hits = [
            hit(
                1042,
                Some("fix\u{1b}[2J"),
                SearchHitKind::Assistant,
                &["the ", "parser", "\u{202e} x"],
            ),
            hit(7, None, SearchHitKind::User, &["", "parser"]),
        ];
        let listed = hit_list(&hits, Time(61_000_000), 80);
        let expected = "NUMBER  AGE  AGENT         TEXT\n\
             1042    1m   fix\\u{1b}[2J  | the parser\\u{202e} x\n\
             7       1m   agent-1       > parser\n";
        assert_eq!(anstream::adapter::strip_str(&listed).to_string(), expected);
    }
}
