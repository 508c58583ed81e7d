//! What came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
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
        self.print_for_page();
    }

    /// The least and the median, wrong beliefs in bold, as `docs/guarantees.md` has them.
    fn print_for_page(&self) {
        println!("\n{}\n", heading());
        println!("| trouble | `T` | here | a lease that reads renew | Curator's latch |");
        println!("| --- | --- | --- | --- | --- |");
        let rows: BTreeSet<_> =
            self.0.keys().map(|(scenario, _, timeout)| (*scenario, *timeout)).collect();
        for (scenario, timeout) in rows {
            let cells = [Kind::Ours, Kind::ReadProbe, Kind::CuratorLatch].map(|kind| {
                self.0.get(&(scenario, kind, timeout)).map_or(String::new(), |all| cell(all))
            });
            println!("| {scenario} | {} | {} |", timeout.as_secs(), cells.join(" | "));
        }
    }
}

fn cell(outcomes: &[Outcome]) -> String {
    let margin = |outcome: &Outcome| match outcome {
        Outcome::Margin(seconds) => Some(*seconds),
        Outcome::NeverTold | Outcome::Kept => None,
    };
    let mut margins: Vec<f64> = outcomes.iter().filter_map(margin).collect();
    margins.sort_by(f64::total_cmp);
    let mut parts = Vec::new();
    if let (Some(least), Some(median)) = (margins.first(), margins.get(margins.len() / 2)) {
        let mark = if *least < 0.0 { "**" } else { "" };
        parts.push(format!("{mark}{least:+.2}, {median:+.2}{mark}"));
    }
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    for (count, what) in
        [(count(Outcome::Kept), "sessions outlive it"), (count(Outcome::NeverTold), "never told")]
    {
        if count > 0 {
            parts.push(format!("{count} of {} {what}", outcomes.len()));
        }
    }
    parts.join("; ")
}

/// When, of what, and where.
fn heading() -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    };
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let information = file("/proc/cpuinfo");
    let model = information.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown");
    format!(
        "{}, commit {}, {cpus} x {model}, load average at the end {}",
        said("date", &["-u", "+%F"]),
        said("git", &["describe", "--always", "--dirty"]),
        file("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
