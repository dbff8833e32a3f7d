//! Quiet hours: a part of each day in which nothing is told.

use std::str::FromStr;

use countersign_core::Timestamp;

use super::planner::NotifyFacts;

const DAY_MINUTES: u64 = 24 * 60;

/// From one minute of the day to another, by local time; over midnight if the first is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from_minute: u64,
    to_minute: u64,
}

impl FromStr for QuietHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a time span like `22:00-07:00`");
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let from_minute = parse_minute(from).ok_or_else(wrong)?;
        let to_minute = parse_minute(to).ok_or_else(wrong)?;
        if from_minute == to_minute {
            return Err(format!("`{text}` has no length"));
        }
        Ok(Self {
            from_minute,
            to_minute,
        })
    }
}

fn parse_minute(text: &str) -> Option<u64> {
    let (hour, minute) = text.trim().split_once(':')?;
    let (hour, minute) = (parse_two_digits(hour)?, parse_two_digits(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

fn parse_two_digits(text: &str) -> Option<u64> {
    // `parse` alone takes `+7` and `7` too.
    let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

impl QuietHours {
    /// When the quiet hours end that it is now; `None` outside of them.
    pub(super) fn end_after(self, facts: &NotifyFacts<'_>) -> Option<Timestamp> {
        let utc_s = i64::try_from(facts.now.0 / 1_000_000).ok()?;
        let local_minute = utc_s.saturating_add(facts.utc_offset_s).div_euclid(60);
        let minute = u64::try_from(local_minute.rem_euclid(24 * 60)).ok()?;
        let since_from = (minute + DAY_MINUTES - self.from_minute) % DAY_MINUTES;
        let length = (self.to_minute + DAY_MINUTES - self.from_minute) % DAY_MINUTES;
        if since_from >= length {
            return None;
        }
        let minute_began = Timestamp(facts.now.0 - facts.now.0 % 60_000_000);
        Some(minute_began.plus_ms((length - since_from) * 60_000))
    }
}

#[cfg(test)]
mod tests {
    use super::super::screens::ScreenFocus;
    use super::*;

    fn end_after(quiet: &str, now_s: u64, utc_offset_s: i64) -> Option<u64> {
        let facts = NotifyFacts {
            now: Timestamp(now_s * 1_000_000),
            utc_offset_s,
            screens: &ScreenFocus::default(),
            holds: &|_| true,
        };
        let quiet: QuietHours = quiet.parse().unwrap();
        quiet.end_after(&facts).map(|end| end.0 / 1_000_000)
    }

    const HOUR: u64 = 3600;

    #[test]
    fn quiet_hours_reach_over_midnight() {
        let night = "22:00-07:00";
        assert_eq!(end_after(night, 21 * HOUR + 3599, 0), None);
        assert_eq!(end_after(night, 22 * HOUR, 0), Some(31 * HOUR));
        assert_eq!(end_after(night, 24 * HOUR + 61, 0), Some(31 * HOUR));
        assert_eq!(end_after(night, 31 * HOUR - 1, 0), Some(31 * HOUR));
        assert_eq!(end_after(night, 31 * HOUR, 0), None);
        assert_eq!(
            end_after("12:00-13:30", 12 * HOUR + 1, 0),
            Some(13 * HOUR + 1800)
        );
        assert_eq!(end_after("12:00-13:30", 14 * HOUR, 0), None);
    }

    #[test]
    fn quiet_hours_are_local() {
        let night = "22:00-07:00";
        assert_eq!(end_after(night, 20 * HOUR, 7200), Some(29 * HOUR));
        assert_eq!(end_after(night, 24 * HOUR, -5 * 3600), None);
        assert_eq!(end_after(night, 0, -3600), Some(8 * HOUR));
    }

    #[test]
    fn only_spans_of_a_day_are_read() {
        for wrong in [
            "",
            "22:00",
            "22:00-25:00",
            "22:60-07:00",
            "9:00-10:00",
            "+1:00-02:00",
            "x-y",
        ] {
            let expected = format!("`{wrong}` is not a time span like `22:00-07:00`");
            assert_eq!(wrong.parse::<QuietHours>(), Err(expected));
        }
        let empty = "07:00-07:00".parse::<QuietHours>();
        assert_eq!(empty, Err("`07:00-07:00` has no length".to_owned()));
    }
}
