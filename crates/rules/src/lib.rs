//! The rule language and its verdicts: allow, deny or ask, with the rule that decided and why.
//!
//! Nothing here touches the world: what the file system says is handed in as [`Facts`].
//! [`assess`] takes a request apart without looking at any rule, [`judge`] holds the parts against
//! the rules. Invariants: what is not understood asks; a deny is matched against more than what may
//! happen, an allow against less; no limit skips a deny.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod assess;
mod confinement;
mod corpus;
mod expand;
mod explain;
mod facts;
mod file;
mod floor;
mod folder_tree;
mod foreign;
mod git_repository;
mod glob;
mod host;
mod judge;
mod language;
mod locate;
mod network;
mod path;
mod replaced_path;
mod request;
mod ruleset;
mod shell;
mod spawn;
mod starter;
mod suggest;

pub use assess::{Assessment, assess};
pub use corpus::{CaseError, CaseRules, CorpusCase};
pub use countersign_core::event::{Effect, PartKind, RuleRef, Verdict, VerdictPart};
pub use explain::{deciding, explain, explain_part, name_rule};
pub use facts::{EntryKind, FileFacts, FileText, FolderEntry, NoFacts};
pub use file::{
    FileKind, FileProblem, FileProblems, ForeignSwitches, RuleFile, anchor_rule, parse_file,
};
pub use floor::Floor;
pub use foreign::{
    DroppedRule, ForeignFile, ForeignPolicy, ForeignScope, ForeignTool, ImportedRules, import,
    read_foreign,
};
pub use judge::{LayerAllows, LayerView, judge};
pub use language::{Rule, RuleError};
pub use network::NetworkHost;
pub use request::{RequestPlace, ToolAction, ToolRequest};
pub use ruleset::{EntryKey, RuleArea, RuleEntry, RuleOrigin, RuleSet};
pub use starter::StarterSet;
pub use suggest::{SuggestedRule, suggest};
