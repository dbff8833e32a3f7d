//! Spans of time as people write and read them.

use std::time::Duration;

use countersign_protocol::Time;

/// Reads `90s`, `30m`, `1h`, `2d`.
pub fn parse(text: &str) -> Result<Duration, String> {
    seconds(text)
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
        .ok_or_else(|| format!("`{text}` is no duration like 90s, 30m, 1h or 2d"))
}

fn seconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A time limit that may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    None,
    After(Duration),
}

impl std::str::FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            Ok(Self::None)
        } else {
            parse(text).map(Self::After)
        }
    }
}

impl TimeLimit {
    pub fn as_ms(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::After(span) => Some(millis(span)),
        }
    }
}

pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago, in one unit: `3m`.
pub fn age(now: Time, then: Time) -> String {
    // The clock of the host may be ahead of this one: that is no age of centuries.
    span(now.0.saturating_sub(then.0))
}

/// How long until then: `in 3m`, or `now` when it has come.
pub fn until(now: Time, then: Time) -> String {
    if then > now {
        // Rounded up: an hour from now is an hour, not 59 minutes.
        format!("in {}", span((then.0 - now.0).next_multiple_of(1_000_000)))
    } else {
        "now".into()
    }
}

/// A span in whole words: `30 minutes`.
pub fn in_words(ms: u64) -> String {
    match ms / 1_000 {
        1 => "1 second".to_owned(),
        seconds @ 0..60 => format!("{seconds} seconds"),
        60..120 => "1 minute".to_owned(),
        seconds => format!("{} minutes", seconds / 60),
    }
}

/// `once`, or `N times`.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

fn span(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_make_a_duration() {
        let read: Vec<_> = ["90s", "30m", "1h", "2d"]
            .into_iter()
            .map(|text| parse(text).unwrap().as_secs())
            .collect();
        assert_eq!(read, [90, 1_800, 3_600, 172_800]);
        for wrong in [
            "",
            "s",
            "5",
            "0s",
            "1w",
            "1.5h",
            "-1s",
            "99999999999999999999d",
            "é",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!("none".parse(), Ok(TimeLimit::None));
    }

    #[test]
    fn an_age_has_one_unit() {
        let ages: Vec<_> = [0, 59, 60, 3_599, 3_600, 172_799, 172_800]
            .into_iter()
            .map(|seconds| age(Time(seconds * 1_000_000), Time(0)))
            .collect();
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "47h", "2d"]);
        assert_eq!(age(Time(0), Time(5_000_000)), "0s");
        assert_eq!(until(Time(0), Time(65_000_000)), "in 1m");
    }
}
