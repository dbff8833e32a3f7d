//! Searching the transcripts that a caller may read.

use countersign_core::limits::{SEARCH_HITS_MAX, SEARCH_TEXT_BYTES_MAX};
use countersign_core::{Agent, AgentId, Caller, Rejection, Seq, WordQuery};
use countersign_store::{SearchPage, SearchQuery};

use super::{Service, ServiceResult};

/// What somebody looks for.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    pub words: WordQuery,
    /// Only in the transcript of this agent.
    pub agent: Option<AgentId>,
    /// Only in parts older than this event.
    pub before: Option<Seq>,
    /// At most this many hits.
    pub limit: usize,
}

impl SearchRequest {
    /// Reads what was typed; `None` if there is no word in it.
    pub fn parse_words(text: &str) -> Result<Option<WordQuery>, Rejection> {
        if text.len() > SEARCH_TEXT_BYTES_MAX {
            return Err(Rejection::TooLarge {
                what: "the text to search for",
                limit: SEARCH_TEXT_BYTES_MAX,
            });
        }
        Ok(WordQuery::parse(text))
    }
}

impl Service {
    /// Entries of transcripts with all words of the request, newest first. An agent finds only what it may read: its
    /// own transcript, and those of its descendants.
    pub async fn search(
        &self,
        caller: &Caller,
        request: SearchRequest,
    ) -> ServiceResult<SearchPage> {
        let query = SearchQuery {
            agents: self.searched_agents(caller, request.agent).await?,
            words: request.words,
            before: request.before,
            limit: request.limit.clamp(1, SEARCH_HITS_MAX),
        };
        self.history(move |history| history.search(&query)).await
    }

    /// The agents whose transcripts are searched; `None` for all.
    async fn searched_agents(
        &self,
        caller: &Caller,
        wanted: Option<AgentId>,
    ) -> ServiceResult<Option<Vec<AgentId>>> {
        if let Some(wanted) = wanted {
            self.check_reach(caller, &wanted).await?;
            return Ok(Some(vec![wanted]));
        }
        let Some(bound) = caller.principal.agent().cloned() else {
            return Ok(None);
        };
        self.read(move |view| {
            // Each as for reading its transcript: only orchestrators reach others.
            let below = view.state.descendants_of(&bound).into_iter();
            let below = below
                .map(Agent::id)
                .filter(|agent| view.state.is_ancestor(&bound, agent));
            Some(below.chain([&bound]).cloned().collect())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign_core::event::{
        AgentProfile, AgentRole, AgentSpawned, SpawnOptions, TranscriptAdded, TranscriptEntry,
    };
    use countersign_core::{
        CommittedEvent, Event, Principal, PrincipalKey, RecordedActor, Role, State, Timestamp,
    };
    use countersign_store::{EventLog as _, open};
    use tempfile::TempDir;

    use super::super::tests::host;
    use super::*;

    fn caller(role: Role) -> Caller {
        Caller {
            principal: Arc::new(Principal {
                role,
                name: "caller".into(),
                key: PrincipalKey::new("caller"),
            }),
            client: None,
            door: None,
        }
    }

    /// An agent that said something.
    fn events_of(agent: &str, parent: Option<&str>, role: Option<AgentRole>) -> [Event; 2] {
        let profile = AgentProfile::new(AgentId::new(agent), agent.to_owned());
        let spawned = AgentSpawned {
            agent: Arc::new(profile),
            options: Arc::new(SpawnOptions {
                command: vec!["agent".to_owned()],
                cwd: "/".to_owned(),
                parent: parent.map(AgentId::new),
                role,
                ..SpawnOptions::default()
            }),
            by: RecordedActor::from(&caller(Role::Operator)),
        };
        let said = TranscriptAdded {
            agent: AgentId::new(agent),
            turn: 1,
            entries: vec![TranscriptEntry::Assistant {
                text: format!("a word of {agent}"),
            }],
        };
        [spawned.into(), said.into()]
    }

    fn record(folder: &TempDir, events: impl IntoIterator<Item = Event>) {
        let (mut log, _history) = open(&folder.path().join("log.db")).unwrap();
        let mut state = State::default();
        for event in events {
            let (seq, at) = (state.head().next(), Timestamp(1));
            let ask = state.apply(seq, at, &event);
            let entry = CommittedEvent {
                seq,
                at,
                event,
                ask,
            };
            log.append(&[entry], &state.take_changes()).unwrap();
        }
    }

    async fn found(service: &Service, role: Role, agent: Option<&str>) -> Vec<String> {
        let request = SearchRequest {
            words: WordQuery::parse("word").unwrap(),
            agent: agent.map(AgentId::new),
            before: None,
            limit: 10,
        };
        match service.search(&caller(role), request).await {
            Ok(page) => page.hits.iter().map(|hit| hit.agent.to_string()).collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    #[tokio::test]
    async fn an_agent_finds_what_it_and_its_descendants_said_and_people_find_all() {
        let folder = tempfile::tempdir().unwrap();
        let leads = Some(AgentRole::Orchestrator);
        let agents = [
            ("boss", None, leads),
            ("child", Some("boss"), leads),
            ("grandchild", Some("child"), None),
            ("other", Some("grandchild"), None),
        ];
        let events = agents.map(|(agent, parent, role)| events_of(agent, parent, role));
        record(&folder, events.into_iter().flatten());
        let (service, _stopped) = host(&folder, &[]).await;
        let all = ["other", "grandchild", "child", "boss"];
        let agent = |name: &str| Role::Agent(AgentId::new(name));
        for role in [Role::Operator, Role::Observer] {
            assert_eq!(found(&service, role.clone(), None).await, all);
            assert_eq!(found(&service, role, Some("child")).await, ["child"]);
        }
        assert_eq!(found(&service, agent("boss"), None).await, all);
        assert_eq!(found(&service, agent("child"), None).await, all[..3]);
        // Nobody is below an agent that is no orchestrator.
        let alone = found(&service, agent("grandchild"), None).await;
        assert_eq!(alone, ["grandchild"]);
        assert_eq!(found(&service, agent("other"), None).await, ["other"]);
        assert_eq!(found(&service, agent("stranger"), None).await, [""; 0]);
        assert_eq!(
            found(&service, agent("boss"), Some("grandchild")).await,
            ["grandchild"]
        );
        let refused = "agent 'other' may ask, notify and report, and nothing else";
        assert_eq!(
            found(&service, agent("other"), Some("child")).await,
            [refused]
        );
    }
}
