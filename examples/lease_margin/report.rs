//! What came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Failure;
use crate::holders::Kind;
use crate::scenario::{Measured, Outcome, Scenario, Stage};

/// By scenario, kind and session timeout.
#[derive(Default)]
pub(crate) struct Report(BTreeMap<(Scenario, Kind, Duration), Vec<Outcome>>);

impl Report {
    pub(crate) async fn measure(
        &mut self,
        stage: &mut Stage,
        scenario: Scenario,
        rounds: usize,
    ) -> Result<(), Failure> {
        for round in 0..rounds {
            for Measured { kind, timeout, outcome } in stage.round(scenario, round).await? {
                self.0.entry((scenario, kind, timeout)).or_default().push(outcome);
            }
            println!("{scenario}: round {} of {rounds}", round + 1);
        }
        Ok(())
    }

    /// Whether none of ours believed to hold when its node was gone.
    pub(crate) fn is_safe(&self) -> bool {
        let ours = self.0.iter().filter(|((_, kind, _), _)| *kind == Kind::Ours);
        ours.flat_map(|(_, outcomes)| outcomes).all(|outcome| match outcome {
            Outcome::Margin(seconds) => *seconds >= 0.0,
            Outcome::NeverTold => false,
            Outcome::Kept => true,
        })
    }

    pub(crate) fn print(&self) {
        println!(
            "\nseconds from the end of the belief to the end of the node; negative: believed too long"
        );
        println!(
            "{:<22} {:<27} {:>3} {:>7} {:>8} {:>8} {:>8} {:>10} {:>5}",
            "scenario",
            "holder",
            "T",
            "rounds",
            "minimum",
            "median",
            "maximum",
            "never told",
            "kept"
        );
        for ((scenario, kind, timeout), outcomes) in &self.0 {
            let mut margins: Vec<f64> = outcomes
                .iter()
                .filter_map(|outcome| match outcome {
                    Outcome::Margin(seconds) => Some(*seconds),
                    Outcome::NeverTold | Outcome::Kept => None,
                })
                .collect();
            margins.sort_by(f64::total_cmp);
            let at = |index: Option<usize>| {
                index
                    .and_then(|index| margins.get(index))
                    .map_or("-".to_owned(), |m| format!("{m:+.2}"))
            };
            let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
            println!(
                "{scenario:<22} {kind:<27} {:>3} {:>7} {:>8} {:>8} {:>8} {:>10} {:>5}",
                timeout.as_secs(),
                outcomes.len(),
                at(Some(0)),
                at(Some(margins.len() / 2)),
                at(margins.len().checked_sub(1)),
                count(Outcome::NeverTold),
                count(Outcome::Kept),
            );
        }
    }
}
