//! One contract, every backend; and what a file on a disk can suffer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod audit;
mod conformance;
mod crash;
mod file;
mod fixture;
mod lost_files;
mod recovery;
mod search;

use countersign_store::memory::open_memory;
use fixture::Script;

/// Runs each case of the conformance suite against each backend.
macro_rules! conformance {
    ($($case:ident,)*) => {
        mod sqlite_keeps_the_contract {
            $(#[test]
            fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let (log, history) = countersign_store::open(&folder.path().join("log.db")).unwrap();
                crate::conformance::$case(crate::Script::new(Box::new(log), history));
            })*
        }

        mod memory_keeps_the_contract {
            $(#[test]
            fn $case() {
                let (log, history) = crate::open_memory();
                crate::conformance::$case(crate::Script::new(Box::new(log), history));
            })*
        }
    };
}

conformance! {
    empty_log_loads_as_nothing,
    what_was_appended_is_read_back_whole,
    load_gives_everything_that_lives_in_memory,
    things_change_and_go,
    checkpoints_are_committed_with_events_and_without,
    documents_of_the_notifier_are_committed_and_dropped,
    opened_and_ended_in_one_append,
    load_lists_the_newest_ended_by_their_end,
    numbers_with_a_gap_are_refused,
    failed_append_leaves_nothing,
    events_are_paged_both_ways,
    events_are_filtered_by_kind_and_agent,
    rare_events_are_found_far_apart,
    approvals_are_paged_newest_first,
    approvals_are_filtered,
    approvals_are_found_by_prefix,
    approvals_are_found_by_key,
    dismissed_approvals_are_shown_on_request,
    questions_are_listed_and_found,
    erased_ask_is_left_out,
    erased_end_does_not_read_as_open,
    erased_key_can_be_used_again,
    key_is_free_in_the_append_that_erases_it,
    answers_and_dismissals_change_what_ended,
    first_event_since_an_instant_is_found,
    open_ask_cannot_be_erased,
    record_of_an_erasure_cannot_be_erased,
    pruned_history_is_gone,
    open_ask_is_not_pruned,
    bounds_beyond_the_log_are_harmless,
    transcripts_are_searched_newest_first,
    all_words_are_found_in_old_and_new_parts,
    hits_are_paged,
    a_page_of_long_parts_ends_early,
    erased_text_is_not_found,
}
