//! Rounds: the same load on two hosts in turn, several times, and the medians of each.
//!
//! Turns, because a noisy moment of the machine should not hit only one of the two; medians, because the best of
//! several rounds shows what is possible rather than what is usual.

use super::report::{Metric, Row};

/// Which of a row's numbers is its rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateMetric(pub(super) Metric);

/// The median of each number over the rounds, with the lowest and the highest rate beside it.
pub(super) fn median_row(rounds: &[Row], rate: RateMetric) -> Row {
    let Some(first) = rounds.first() else {
        return Row::new("none", "no rounds");
    };
    let mut row = Row::new(&first.scenario, &first.case);
    for metric in first.metrics.keys() {
        row.set(*metric, median(&sorted_values(rounds, *metric)));
    }
    let rates = sorted_values(rounds, rate.0);
    if let (Some(lowest), Some(highest)) = (rates.first(), rates.last()) {
        row.set(Metric::LowestRate, *lowest);
        row.set(Metric::HighestRate, *highest);
    }
    row.notes = rounds.iter().flat_map(|row| row.notes.clone()).collect();
    row
}

/// Compares the rates of two median rows, as the ratio of the second to the first.
pub(super) fn set_rate_ratio(base: &Row, compared: &mut Row, rate: RateMetric) {
    let rates = (base.metrics.get(&rate.0), compared.metrics.get(&rate.0));
    if let (Some(base), Some(ours)) = rates {
        compared.set(Metric::RateRatio, ours / base);
    }
}

/// The rows, each but the first with the ratio of its rate to the first one's.
pub(super) fn compared_rows(mut rows: Vec<Row>, rate: RateMetric) -> Vec<Row> {
    if let Some((base, others)) = rows.split_first_mut() {
        for other in others {
            set_rate_ratio(base, other, rate);
        }
    }
    rows
}

/// The values of the rounds that have one, lowest first.
fn sorted_values(rounds: &[Row], metric: Metric) -> Vec<f64> {
    let mut values: Vec<f64> = rounds
        .iter()
        .filter_map(|row| row.metrics.get(&metric).copied())
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len().is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rate: f64, note: Option<&str>) -> Row {
        let mut row = Row::new("round-trips", "1 worker");
        row.set(Metric::RatePerS, rate);
        row.set(Metric::P50Ms, 1000.0 / rate);
        row.notes.extend(note.map(str::to_owned));
        row
    }

    #[test]
    fn medians_come_with_the_spread_of_the_rate() {
        let rounds = [
            round(100.0, None),
            round(500.0, Some("late")),
            round(200.0, None),
        ];
        let mut expected = round(200.0, Some("late"));
        expected.set(Metric::LowestRate, 100.0);
        expected.set(Metric::HighestRate, 500.0);
        assert_eq!(median_row(&rounds, RateMetric(Metric::RatePerS)), expected);
    }

    #[test]
    fn an_even_number_of_rounds_has_the_mean_of_its_middle_two() {
        assert!((median(&[1.0, 2.0, 4.0, 9.0]) - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_ratio_is_that_of_the_second_to_the_first() {
        let mut ours = round(300.0, None);
        set_rate_ratio(&round(200.0, None), &mut ours, RateMetric(Metric::RatePerS));
        assert_eq!(ours.metrics.get(&Metric::RateRatio), Some(&1.5));
    }
}
