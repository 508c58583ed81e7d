//! Shows, from the rounds of a bench, whether a ratio meets its goal, and whether the rounds agree on that.
//!
//! The sides take their turns one after the other within a round, so each round gives a ratio of its own. A load that lasts
//! longer than a round slows both sides of it, and a load that is shorter disturbs one round of many.
//!
//! A row is noisy if the quartiles of its rounds lie on both sides of its goal, because another run may then give another verdict. A
//! goal that is far from the ratio is certain at any spread. A row without a goal is noisy if its quartiles are further apart than
//! [`WIDEST`] of the median: the median of seven rounds is off by about a third of that distance, a sixth of the ratio, so its first
//! digit is in doubt. Quartiles, because one disturbed round of seven moves the least or the most as far as it likes, and the
//! quartiles hardly.

use std::fmt;

/// The distance of the quartiles from which on a row without a goal is noisy, as a share of the median.
pub const WIDEST: f64 = 0.5;

/// The values of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, clippy::exhaustive_structs)]
pub struct Summary {
    pub least: f64,
    pub lower_quartile: f64,
    pub median: f64,
    pub upper_quartile: f64,
    pub most: f64,
}

impl Summary {
    /// Returns `None` for no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        // A place between two values takes its share of both.
        let at_quarter = |quarters: usize| {
            let place = (sorted.len() - 1) * quarters;
            let below = sorted[place / 4];
            let above = sorted[place.div_ceil(4)];
            below + (above - below) * (place % 4) as f64 / 4.0
        };
        Some(Self {
            least,
            lower_quartile: at_quarter(1),
            median: at_quarter(2),
            upper_quartile: at_quarter(3),
            most,
        })
    }

    /// Returns the ratios of the rounds, each of our value and theirs. A round in which theirs is zero has none.
    pub fn of_ratios(rounds: &[(f64, f64)]) -> Option<Self> {
        let rounds = rounds.iter().filter(|(_, theirs)| *theirs > 0.0);
        let ratios: Vec<_> = rounds.map(|(ours, theirs)| ours / theirs).collect();
        Self::of(&ratios)
    }

    fn is_wide(&self) -> bool {
        self.upper_quartile - self.lower_quartile > WIDEST * self.median
    }
}

impl fmt::Display for Summary {
    /// Writes the median, and in parentheses the least and the most.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, least, most] = [self.median, self.least, self.most].map(figure);
        write!(f, "{median} ({least}..{most})")
    }
}

/// Formats a value with three significant digits, or all digits before the point.
pub fn figure(value: f64) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (2.0 - magnitude).max(0.0) as usize;
    format!("{value:.decimals$}")
}

/// What is to be shown of ours beside a peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums)]
pub enum Goal {
    /// The ratio is at most this.
    Times(f64),
    /// The ratio is at least this.
    AtLeastTimes(f64),
    /// Ours alone is at most this, in the row's unit. For whole trips the goal is 5 % more: a server's own time is no trip.
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Goal::Times(most) | Goal::AtMost(most) => value <= most,
            Goal::AtLeastTimes(least) => value >= least,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Times(most) => write!(f, "<={most}x"),
            Goal::AtLeastTimes(least) => write!(f, ">={least}x"),
            Goal::AtMost(most) => write!(f, "<={most}"),
        }
    }
}

/// The last cell of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, clippy::exhaustive_enums)]
pub enum Verdict {
    NoGoal,
    NotMeasured,
    Met,
    Missed,
    /// The rounds do not agree: measure the row again.
    Noisy,
}

impl Verdict {
    /// Judges a row by our values, in the row's unit, and by the ratios.
    pub fn of(goal: Option<Goal>, ours: Option<Summary>, ratio: Option<Summary>) -> Self {
        let Some(goal) = goal else {
            let is_wide = ratio.is_some_and(|ratio| ratio.is_wide());
            return if is_wide { Self::Noisy } else { Self::NoGoal };
        };
        let judged = if matches!(goal, Goal::AtMost(_)) { ours } else { ratio };
        let Some(judged) = judged else { return Self::NotMeasured };
        match [judged.lower_quartile, judged.upper_quartile].map(|value| goal.is_met(value)) {
            [true, true] => Self::Met,
            [false, false] => Self::Missed,
            _ => Self::Noisy,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoGoal => "",
            Self::NotMeasured => "not measured",
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Noisy => "noisy",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: &[f64]) -> Option<Summary> {
        Summary::of(values)
    }

    #[test]
    fn quartiles_lie_between_the_values() {
        let of = |values: &[f64]| {
            let all = summary(values).unwrap();
            [all.least, all.lower_quartile, all.median, all.upper_quartile, all.most]
        };
        assert_eq!(of(&[3.0]), [3.0; 5]);
        assert_eq!(of(&[4.0, 1.0]), [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(of(&[6.0, 0.0, 1.0, 5.0, 2.0, 4.0, 3.0]), [0.0, 1.5, 3.0, 4.5, 6.0]);
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn a_load_that_slows_both_sides_of_a_round_changes_no_ratio() {
        let quiet = Summary::of_ratios(&[(2.0, 4.0), (2.0, 4.0), (2.0, 4.0)]);
        let loaded = Summary::of_ratios(&[(2.0, 4.0), (10.0, 20.0), (3.0, 6.0)]);
        assert_eq!(quiet, loaded);
        // The medians of both sides, 2 and 6, are of different rounds.
        let crossed = Summary::of_ratios(&[(2.0, 4.0), (1.0, 6.0), (5.0, 10.0)]);
        assert_eq!(crossed.unwrap().median, 0.5);
        assert_eq!(Summary::of_ratios(&[(1.0, 0.0), (3.0, 1.0)]).unwrap().median, 3.0);
        assert_eq!(Summary::of_ratios(&[(1.0, 0.0)]), None);
    }

    #[test]
    fn a_ratio_is_met_or_missed_if_the_quartiles_agree() {
        let row = |goal, ratios: &[f64]| Verdict::of(Some(goal), None, summary(ratios));
        let seven = [0.60, 0.61, 0.62, 0.63, 0.64, 0.65, 0.66];
        assert_eq!(row(Goal::Times(0.66), &seven), Verdict::Met);
        assert_eq!(row(Goal::Times(0.50), &seven), Verdict::Missed);
        assert_eq!(row(Goal::AtLeastTimes(0.60), &seven), Verdict::Met);
        assert_eq!(row(Goal::AtLeastTimes(0.70), &seven), Verdict::Missed);
        // A goal between the quartiles. The next run may give the other verdict.
        assert_eq!(row(Goal::Times(0.63), &seven), Verdict::Noisy);
        assert_eq!(row(Goal::AtLeastTimes(0.63), &seven), Verdict::Noisy);
        // The ratio counts as measured, not as it is printed.
        assert_eq!(row(Goal::Times(0.66), &[0.664; 7]), Verdict::Missed);
        assert_eq!(row(Goal::Times(0.66), &[]), Verdict::NotMeasured);
    }

    #[test]
    fn one_disturbed_round_of_seven_makes_no_row_noisy() {
        let row = |ratios: &[f64]| Verdict::of(Some(Goal::Times(0.7)), None, summary(ratios));
        assert_eq!(row(&[0.60, 0.61, 0.62, 0.62, 0.63, 0.64, 9.0]), Verdict::Met);
        assert_eq!(row(&[0.01, 0.75, 0.76, 0.76, 0.77, 0.78, 0.79]), Verdict::Missed);
        assert_eq!(row(&[0.60, 0.61, 0.62, 0.62, 0.95, 0.96, 0.97]), Verdict::Noisy);
    }

    #[test]
    fn quartiles_that_are_far_apart_are_noisy_without_a_goal() {
        let ratios = |spread: f64| summary(&[100.0 - spread, 100.0, 100.0 + spread]);
        // The quartiles are in the middle between these.
        assert_eq!(Verdict::of(None, None, ratios(50.0)), Verdict::NoGoal);
        assert_eq!(Verdict::of(None, None, ratios(51.0)), Verdict::Noisy);
        assert_eq!(Verdict::of(None, None, None), Verdict::NoGoal);
        // All rounds are far from this goal.
        let goal = Some(Goal::AtLeastTimes(10.0));
        assert_eq!(Verdict::of(goal, None, ratios(80.0)), Verdict::Met);
    }

    #[test]
    fn a_goal_of_ours_alone_is_judged_by_ours() {
        let row = |ours: &[f64], ratio: &[f64]| {
            Verdict::of(Some(Goal::AtMost(1.1)), summary(ours), summary(ratio))
        };
        assert_eq!(row(&[1.0, 1.01, 1.02], &[2.0, 2.0, 2.0]), Verdict::Met);
        assert_eq!(row(&[1.2, 1.3, 1.4], &[0.5, 0.5, 0.5]), Verdict::Missed);
        assert_eq!(row(&[1.0, 1.1, 1.3], &[0.5, 0.5, 0.5]), Verdict::Noisy);
        assert_eq!(row(&[1.0, 1.0, 1.0], &[0.1, 1.0, 1.5]), Verdict::Met);
        // The peer is missing. Ours needs no request.
        assert_eq!(row(&[1.0], &[]), Verdict::Met);
        assert_eq!(row(&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.0]), Verdict::Met);
        assert_eq!(row(&[], &[]), Verdict::NotMeasured);
    }

    #[test]
    fn figures_have_three_digits_at_least() {
        let figures = [0.0, 0.003_734, 0.0103, 0.6666, 1.0, 9.999, 17.84, 268.4, 7556.53];
        let expected =
            ["0.00", "0.00373", "0.0103", "0.667", "1.00", "10.00", "17.8", "268", "7557"];
        assert_eq!(figures.map(figure), expected);
        let text = summary(&[0.5, 0.25, 100.0]).unwrap().to_string();
        assert_eq!(text, "0.500 (0.250..100)");
    }
}
