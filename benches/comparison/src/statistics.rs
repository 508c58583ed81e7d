//! Medians, spreads and orders.

use std::time::Duration;

#[path = "../../../tools/benches/compare/statistics/summary.rs"]
mod summary;

pub(crate) use summary::Summary;

/// In milliseconds.
impl Summary {
    /// `None` of no values.
    pub(crate) fn of_times(values: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let values: Vec<_> = values.into_iter().map(|value| value.as_secs_f64() * 1e3).collect();
        Self::of(&values)
    }

    /// `MEDIAN (LEAST..MOST)` with a unit; the median alone if it is of one value.
    pub(crate) fn text(&self) -> String {
        let Self { median, least, most } = *self;
        if least == most {
            return time(median);
        }
        format!("{} ({}..{})", time(median), time(least), time(most))
    }

    pub(crate) fn short(&self) -> String {
        time(self.median)
    }
}

/// Of milliseconds, with as many digits as tell something.
pub(crate) fn time(milliseconds: f64) -> String {
    let size = milliseconds.abs();
    if size >= 995.0 {
        format!("{:.1} s", milliseconds / 1e3)
    } else if size >= 10.0 {
        format!("{milliseconds:.0} ms")
    } else if size >= 0.995 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{:.0} µs", milliseconds * 1e3)
    }
}

pub(crate) fn duration(time_taken: Duration) -> String {
    time(time_taken.as_secs_f64() * 1e3)
}

/// In how many pairs who came later was served first. `served` has the numbers of the arrivals, in the order of service.
pub(crate) fn overtakings(served: &[usize]) -> usize {
    let after = |index: usize| served[index + 1..].iter();
    (0..served.len()).map(|i| after(i).filter(|later| **later < served[i]).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let of =
            |values: &[u64]| Summary::of_times(values.iter().copied().map(Duration::from_millis));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3, 1, 2]), Some(Summary { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(of(&[4, 1, 2, 3]).map(|summary| summary.median), Some(2.5));
    }

    #[test]
    fn units_fit_the_size() {
        for (value, text) in [
            (2_950.0, "3.0 s"),
            (123.4, "123 ms"),
            (1.26, "1.3 ms"),
            (0.0471, "47 µs"),
            (0.998, "1.0 ms"),
        ] {
            assert_eq!(time(value), text);
        }
    }

    #[test]
    fn overtakings_are_inversions() {
        for (served, count) in
            [(vec![0, 1, 2, 3], 0), (vec![1, 0, 2, 3], 1), (vec![3, 2, 1, 0], 6), (vec![], 0)]
        {
            assert_eq!(overtakings(&served), count, "{served:?}");
        }
    }
}
