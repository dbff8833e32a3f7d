//! Where the hosts are killed.

use std::time::Duration;

use countersign_daemon::CRASH_POINTS;

use crate::random::Random;

/// Passes at which a point kills, in an order that gives early and late ones even to a short run.
const PASSES: [u64; 12] = [8, 34, 1, 89, 3, 144, 21, 2, 55, 5, 233, 13];
/// Hosts stand still at their point this long before they end, but for every third round.
const PAUSE_MS: u64 = 15;
const AT_ONCE: usize = 3;
const STARTED: &str = "host_started";
const SETTLING: &str = "before_settling";
/// Of so many kills at random one falls into the start of the host.
const AT_START: u64 = 4;

/// Which kills a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// At every crash point of the host.
    Points,
    /// At any moment.
    Random,
    /// Half of the kills each.
    Both,
}

/// One kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kill {
    /// The host ends itself at the `pass`-th pass of a point, at once or after a pause.
    Point {
        name: &'static str,
        pass: u64,
        pause_ms: u64,
    },
    /// This long after it was started, ready or not.
    AfterStart(Duration),
    /// This long after it was ready.
    AfterReady(Duration),
}

impl Kill {
    /// What the host reads from its environment.
    pub(super) fn to_environment(self) -> Option<(&'static str, String)> {
        match self {
            Self::Point {
                name,
                pass,
                pause_ms,
            } => Some(("COUNTERSIGN_CRASH_AT", format!("{name}:{pass}:{pause_ms}"))),
            Self::AfterStart(_) | Self::AfterReady(_) => None,
        }
    }

    /// What the table calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Point { name, .. } => name,
            Self::AfterStart(_) => "random, starting",
            Self::AfterReady(_) => "random",
        }
    }
}

/// Gives one kill after the other.
pub(super) struct Schedule {
    random: Random,
    points_left: usize,
    random_left: usize,
    given: usize,
    settled: usize,
}

impl Schedule {
    pub(super) fn new(mode: Mode, kills: usize, seed: u64) -> Self {
        let points_left = match mode {
            Mode::Points => kills,
            Mode::Random => 0,
            Mode::Both => kills / 2,
        };
        Self {
            random: Random::new(seed),
            points_left,
            random_left: kills - points_left,
            given: 0,
            settled: 0,
        }
    }

    /// The next kill. A host settles answers only if the one before it left `undelivered`.
    pub(super) fn next(&mut self, undelivered: usize) -> Option<Kill> {
        if self.points_left > 0 {
            self.points_left -= 1;
            return Some(self.next_point(undelivered));
        }
        self.random_left = self.random_left.checked_sub(1)?;
        let random = &mut self.random;
        Some(if random.within(1..=AT_START) == 1 {
            Kill::AfterStart(Duration::from_millis(random.within(1..=60)))
        } else {
            Kill::AfterReady(Duration::from_millis(random.within(20..=500)))
        })
    }

    fn next_point(&mut self, undelivered: usize) -> Kill {
        if undelivered > 0 && self.settled <= self.round() {
            self.settled += 1;
            let pass = self.random.within(1..=undelivered as u64);
            return self.at(SETTLING, pass);
        }
        loop {
            let name = CRASH_POINTS[self.given % CRASH_POINTS.len()];
            let pass = if name == STARTED { 1 } else { self.pass() };
            let kill = self.at(name, pass);
            self.given += 1;
            if name != SETTLING {
                return kill;
            }
        }
    }

    fn round(&self) -> usize {
        self.given / CRASH_POINTS.len()
    }

    fn at(&self, name: &'static str, pass: u64) -> Kill {
        let at_once = self.round() % AT_ONCE == AT_ONCE - 1;
        let pause_ms = if at_once { 0 } else { PAUSE_MS };
        Kill::Point {
            name,
            pass,
            pause_ms,
        }
    }

    fn pass(&mut self) -> u64 {
        match PASSES.get(self.round()) {
            Some(pass) => *pass,
            None => self.random.within(1..=300),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn one_round_visits_every_point() {
        let mut schedule = Schedule::new(Mode::Points, CRASH_POINTS.len(), 1);
        let mut visited = HashSet::new();
        while let Some(kill) = schedule.next(1) {
            visited.insert(kill.name());
        }
        assert_eq!(visited, HashSet::from(CRASH_POINTS));
    }

    #[test]
    fn both_halves_make_the_whole() {
        let mut schedule = Schedule::new(Mode::Both, 41, 1);
        let mut kills = Vec::new();
        while let Some(kill) = schedule.next(0) {
            kills.push(kill.to_environment().is_some());
        }
        let points = kills.iter().filter(|at_point| **at_point).count();
        assert_eq!((kills.len(), points), (41, 20));
    }
}
