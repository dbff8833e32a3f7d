//! What a picture and a key cost without a terminal and a host: they are pure.

use std::time::Instant;

use countersign_tui::crowded_screen::CrowdedScreen;

use super::{AGENTS, ASKS};
use crate::bench::measure::Latencies;
use crate::bench::report::Row;

/// Times that are measured, after some that fill caches.
const TIMES: usize = 300;
const WARM_UP: usize = 20;
const LINES: u64 = 100_000;
const LINES_FEW: u64 = 1_000;
/// Fewer than there are in the transcript.
const PAGES: usize = 100;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (asks, agents) in [(10, 10), (ASKS, AGENTS)] {
        let case = format!("{asks} asks, {agents} agents");
        let mut screen = CrowdedScreen::new(asks, agents);
        rows.push(measure(&format!("{case}: a picture"), TIMES, || {
            screen.draw();
        }));
        rows.push(measure(
            &format!("{case}: j, without its picture"),
            TIMES,
            || {
                screen.press("j");
            },
        ));
    }
    for lines in [LINES_FEW, LINES] {
        let mut screen = CrowdedScreen::new(1, 1);
        let began = Instant::now();
        screen.take_transcript(lines);
        screen.draw();
        let taken = began.elapsed();
        let mut row = Row::new(
            "tui, drawing",
            format!("{lines} lines: read and drawn once"),
        );
        row.set_spread_ms(&Latencies::from_iter([taken]));
        rows.push(row);
        rows.push(measure(&format!("{lines} lines: a picture"), TIMES, || {
            screen.draw();
        }));
    }
    let mut screen = CrowdedScreen::new(1, 1);
    screen.take_transcript(LINES);
    screen.press("g t");
    screen.draw();
    rows.push(measure(
        &format!("{LINES} lines: one page back"),
        PAGES,
        || {
            screen.press("PgUp");
            screen.draw();
        },
    ));
    rows
}

fn measure(case: &str, times: usize, mut run: impl FnMut()) -> Row {
    let mut latencies = Latencies::default();
    for time in 0..WARM_UP + times {
        let began = Instant::now();
        run();
        if time >= WARM_UP {
            latencies.record(began.elapsed());
        }
    }
    let mut row = Row::new("tui, drawing", case);
    row.set_spread_ms(&latencies);
    row
}
