//! Random inputs against the promises: whatever arrives, in whatever order, these hold.
//!
//! A world runs two states side by side: one folded from the first event, and one restored, at
//! every commit, from read models that know nothing but the changes handed to them.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test, in helpers too"
)]

mod check;
mod family;
mod managed;
mod models;
mod steps;
mod world;

use proptest::prelude::*;
use proptest::test_runner::Config;

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_promise_holds_after_every_input(steps in prop::collection::vec(steps::any_step(), 1..=200)) {
        let mut world = world::World::new();
        for step in steps {
            world.take(step);
        }
        world.end_of_time();
    }
}
