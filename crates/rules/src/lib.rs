//! The rule language and its verdicts: allow, deny or ask, with the rule that decided and why.
//!
//! Nothing here touches the world: what the file system says is handed in as [`Facts`].
//! [`assess`] takes a request apart without looking at any rule, [`judge`] holds the parts against
//! the rules. Invariants: what is not understood asks; a deny is matched against more than what may
//! happen, an allow against less; no limit skips a deny.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod assess;
mod corpus;
mod expand;
mod explain;
mod facts;
mod file;
mod floor;
mod foreign;
mod glob;
mod host;
mod judge;
mod language;
mod locate;
mod path;
mod remade;
mod request;
mod ruleset;
mod shell;
mod spawn;
mod suggest;
mod tree;

pub use assess::{Assessment, assess};
pub use corpus::{Case, CaseError, CaseRules};
pub use countersign_core::event::{Effect, PartKind, RuleRef, Verdict, VerdictPart};
pub use explain::{deciding, explain, explain_part, name_rule};
pub use facts::{EntryKind, Facts, FolderEntry, NoFacts};
pub use file::{FileKind, FileProblem, FileProblems, Others, RuleFile, anchor_rule, parse_file};
pub use floor::Floor;
pub use foreign::{
    Dropped, ForeignFile, ForeignPolicy, ForeignScope, ForeignTool, Imported, import, read_foreign,
};
pub use judge::{Allows, Layer, judge};
pub use language::{Rule, RuleError};
pub use request::{Action, Place, Request};
pub use ruleset::{Entry, EntryKey, Origin, RuleSet};
pub use suggest::{Candidate, suggest};
