//! What the arguments ask for.

use std::time::Duration;
use tools::Failure;

use crate::tables::Table;
use crate::works::{GROWTH, WORKS, Work};

#[derive(Debug)]
pub(crate) struct Settings {
    /// Each work once, for a moment, and nothing is written.
    pub(crate) smoke: bool,
    /// Measures nothing and draws the charts of the tables that the page has.
    pub(crate) charts: bool,
    pub(crate) rounds: usize,
    /// How long one turn of one peer lasts.
    pub(crate) turn: Duration,
    /// Before the first round; a JVM compiles while it runs.
    pub(crate) warm_up: Duration,
    /// Names of works; none means all but those of growth.
    names: Vec<String>,
}

impl Settings {
    pub(crate) fn from_arguments(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Self, Failure> {
        let (mut is_bench, mut smoke, mut rounds, mut seconds) = (false, false, 7, 2.0);
        let mut charts = false;
        let mut names = Vec::new();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => is_bench = true,
                "--smoke" => smoke = true,
                "charts" => charts = true,
                "--rounds" => rounds = value()?.parse::<usize>()?.max(1),
                "--seconds" => seconds = value()?.parse::<f64>()?.max(0.01),
                name if all().any(|work| is_called(work, name)) => names.push(argument),
                // What is meant for the harness of the standard library.
                flag if flag.starts_with('-') => {}
                unknown => {
                    let mut names: Vec<_> = all().map(|work| work.name).collect();
                    names.dedup();
                    let names = names.join(", ");
                    return Err(format!("no work is called {unknown}; there are {names}").into());
                }
            }
        }
        let smoke = smoke || !is_bench;
        let turn = Duration::from_secs_f64(seconds);
        Ok(if smoke {
            let turn = Duration::from_millis(150);
            Self { smoke, charts, rounds: 1, turn, warm_up: turn, names }
        } else {
            Self { smoke, charts, rounds, turn, warm_up: turn.max(Duration::from_secs(2)), names }
        })
    }

    pub(crate) fn works(&self) -> Vec<&'static Work> {
        if self.names.is_empty() {
            return WORKS.iter().collect();
        }
        all().filter(|work| self.names.iter().any(|name| is_called(work, name))).collect()
    }

    /// Returns the table of the documentation that the figures may replace.
    pub(crate) fn table(&self) -> Option<Table> {
        if self.smoke || self.rounds < 5 {
            return None;
        }
        if self.names.is_empty() {
            return Some(Table::Comparison);
        }
        let works = self.works();
        let is_there = |work: &Work| works.iter().any(|other| other.name == work.name);
        GROWTH.iter().all(is_there).then_some(Table::Growth)
    }
}

fn all() -> impl Iterator<Item = &'static Work> {
    WORKS.iter().chain(GROWTH)
}

/// By its name, or by the name without the number at its end.
fn is_called(work: &Work, name: &str) -> bool {
    work.name == name || work.name.trim_end_matches(|digit: char| digit.is_ascii_digit()) == name
}
