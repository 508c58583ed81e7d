//! What the arguments ask for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;
use crate::works::WORKS;

#[derive(Debug)]
pub(crate) struct Settings {
    /// Each work once, for a moment, and nothing is written.
    pub(crate) smoke: bool,
    pub(crate) rounds: usize,
    /// How long one turn of one peer lasts.
    pub(crate) turn: Duration,
    /// Before the first round; a JVM compiles while it runs.
    pub(crate) warm_up: Duration,
    /// Names of works; none means all.
    works: Vec<String>,
}

impl Settings {
    pub(crate) fn from_arguments(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Self, Failure> {
        let (mut is_bench, mut smoke, mut rounds, mut seconds) = (false, false, 7, 2.0);
        let mut works = Vec::new();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => is_bench = true,
                "--smoke" => smoke = true,
                "--rounds" => rounds = value()?.parse::<usize>()?.max(1),
                "--seconds" => seconds = value()?.parse::<f64>()?.max(0.01),
                name if WORKS.iter().any(|work| work.name == name) => works.push(argument),
                // What is meant for the harness of the standard library.
                flag if flag.starts_with('-') => {}
                unknown => {
                    let mut names: Vec<_> = WORKS.iter().map(|work| work.name).collect();
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
            Self { smoke, rounds: 1, turn, warm_up: turn, works }
        } else {
            Self { smoke, rounds, turn, warm_up: turn.max(Duration::from_secs(2)), works }
        })
    }

    pub(crate) fn wants(&self, work: &str) -> bool {
        self.works.is_empty() || self.works.iter().any(|wanted| wanted == work)
    }

    /// Whether the figures may stand in the documentation.
    pub(crate) fn is_complete(&self) -> bool {
        !self.smoke && self.works.is_empty() && self.rounds >= 5
    }
}

/// Cargo's folder for what is built.
pub(crate) fn target() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().unwrap_or(scratch).to_owned()
}
