//! How the cost of a picture and of a key grows: as ratios within one run, since machines differ.

use std::time::{Duration, Instant};

use crate::crowded_screen::CrowdedScreen;
use crate::draw::buffer_text;
use crate::message::Effect;

/// The shortest of some tries: what else the machine does only makes a try longer.
#[expect(
    clippy::disallowed_methods,
    reason = "time is what is measured here; nothing else is decided by it"
)]
fn shortest(mut run: impl FnMut()) -> Duration {
    let tries = (0..20).map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed()
    });
    tries.min().unwrap_or_default()
}

fn transcript(lines: u64) -> CrowdedScreen {
    let mut screen = CrowdedScreen::new(1, 1);
    screen.take_transcript(lines);
    screen.draw();
    screen
}

#[test]
fn a_full_inbox_costs_little_more_than_a_small_one() {
    let (mut small, mut full) = (CrowdedScreen::new(60, 60), CrowdedScreen::new(1_000, 500));
    let one = shortest(|| {
        small.draw();
    });
    let other = shortest(|| {
        full.draw();
    });
    // Sixty rows fill the screen: the rest is counted and sorted, and not drawn.
    assert!(
        other < one * 12,
        "{one:?} with 60 asks and agents, {other:?} with 1,000 and 500"
    );
}

#[test]
fn a_key_in_a_full_inbox_costs_little_more_than_in_a_small_one() {
    let (mut small, mut full) = (CrowdedScreen::new(60, 60), CrowdedScreen::new(1_000, 500));
    let one = shortest(|| small.press("j"));
    let other = shortest(|| full.press("j"));
    // Sixteen times as many rows are looked through at most.
    assert!(
        other < one * 32,
        "{one:?} with 60 asks and agents, {other:?} with 1,000 and 500"
    );
}

#[test]
fn a_long_transcript_costs_what_is_on_the_screen() {
    let (mut short, mut long) = (transcript(1_000), transcript(100_000));
    let one = shortest(|| {
        short.draw();
    });
    let other = shortest(|| {
        long.draw();
    });
    assert!(
        other < one * 2,
        "{one:?} with 1,000 lines, {other:?} with 100,000"
    );
}

#[test]
fn a_page_back_in_a_long_transcript_costs_what_is_on_the_screen() {
    let (mut short, mut long) = (transcript(10_000), transcript(100_000));
    for screen in [&mut short, &mut long] {
        screen.press("g t");
        screen.draw();
    }
    let page_back = |screen: &mut CrowdedScreen| {
        let before = buffer_text(screen.draw());
        screen.press("PgUp");
        let after = buffer_text(screen.draw());
        assert_ne!(before, after);
    };
    let one = shortest(|| page_back(&mut short));
    let other = shortest(|| page_back(&mut long));
    assert!(
        other < one * 3,
        "{one:?} with 10,000 lines, {other:?} with 100,000"
    );
}

#[test]
fn a_second_in_which_nothing_happens_changes_no_cell_and_asks_for_little() {
    let mut screen = CrowdedScreen::new(1_000, 500);
    // In the first second the ask that is shown becomes one that can be decided.
    screen.tick();
    let before = screen.draw().clone();
    let mut calls = Vec::new();
    for _ in 0..10 {
        for effect in screen.tick() {
            match effect {
                Effect::Call(call) => calls.push(call.method),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(*screen.draw(), before);
    }
    // How the host is, every other second.
    assert_eq!(calls, ["host.status"; 5]);
}
