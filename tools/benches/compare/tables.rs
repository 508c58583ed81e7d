//! The tables, on standard output and in `docs/internals/benchmarks.md`, where each replaces the text between two markers.
//! The charts are drawn from the tables in the page.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use tools::{Failure, chart};

use crate::comparison::{Comparison, Results, with_spread};
use crate::machine::Machine;
use crate::settings::Settings;
use crate::statistics::Summary;

/// A table of the page, and its chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// All works but those of growth.
    Comparison,
    Growth,
}

impl Table {
    pub(crate) const ALL: [Self; 2] = [Self::Comparison, Self::Growth];

    fn markers(self) -> (&'static str, &'static str) {
        match self {
            Self::Comparison => {
                ("<!-- written by `make bench`: begin -->", "<!-- written by `make bench`: end -->")
            }
            Self::Growth => (
                "<!-- written by `make bench`, growth: begin -->",
                "<!-- written by `make bench`, growth: end -->",
            ),
        }
    }

    fn image(self) -> &'static str {
        match self {
            Self::Comparison => "images/benchmarks.svg",
            Self::Growth => "images/growth.svg",
        }
    }

    /// Replaces the table in the page.
    pub(crate) fn write(self, tables: &str) -> Result<PathBuf, Failure> {
        let file = docs("internals/benchmarks.md");
        let page = std::fs::read_to_string(&file)?;
        let (before, _, after) = self.parts(&page)?;
        let (begin, end) = self.markers();
        std::fs::write(&file, format!("{before}{begin}\n\n{tables}\n{end}{after}"))?;
        Ok(file)
    }

    /// Draws the table that the page has.
    pub(crate) fn draw(self) -> Result<PathBuf, Failure> {
        let page = std::fs::read_to_string(docs("internals/benchmarks.md"))?;
        let (_, tables, _) = self.parts(&page)?;
        let file = docs(self.image());
        std::fs::write(&file, chart::ratios(tables)?)?;
        Ok(file)
    }

    /// The page before the table, the table, and the page after it.
    fn parts(self, page: &str) -> Result<(&str, &str, &str), Failure> {
        let (begin, end) = self.markers();
        let parts = page.split_once(begin).and_then(|(before, rest)| {
            let (tables, after) = rest.split_once(end)?;
            Some((before, tables, after))
        });
        parts.ok_or_else(|| format!("the page has lost its markers `{begin}`, `{end}`").into())
    }
}

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file)
}

pub(crate) fn tables(
    results: &Results,
    machine: &Machine,
    settings: &Settings,
) -> Result<String, Failure> {
    let mut text = String::new();
    let (rounds, turn) = (settings.rounds, settings.turn.as_secs_f64());
    writeln!(text, "{rounds} rounds, turns of {turn} s. The machine:\n")?;
    for fact in machine.facts().into_iter().chain([machine.verdict()]) {
        writeln!(text, "* {fact}")?;
    }
    for link in results.trips.keys() {
        if let Some(trip) = results.trip(*link) {
            writeln!(text, "* a trip on the link {link}: {}", with_spread(trip, " ms"))?;
        }
    }
    for (peer, reason) in &results.missing {
        writeln!(text, "* {peer} was not measured: {reason}")?;
    }
    writeln!(text, "\n{}", chart::HEADER)?;
    writeln!(text, "| --- | --- | --: | --- | --: | --: | --- | --- |")?;
    for comparison in results.comparisons() {
        writeln!(text, "{}", row(&comparison))?;
    }
    Ok(text)
}

fn row(comparison: &Comparison) -> String {
    let Comparison { work, peer, ours, theirs, ratio, goal, .. } = comparison;
    let unit = format!(" {}", work.kind.unit());
    let value = |summary: &Option<Summary>| {
        summary.map_or("-".to_owned(), |summary| with_spread(summary, &unit))
    };
    let ratio = match ratio {
        // The chart inverts it.
        Some(ratio) if 0.0 < *ratio && *ratio < 0.1 => format!("{ratio:.4}"),
        Some(ratio) => format!("{ratio:.2}"),
        None => "-".to_owned(),
    };
    let goal = goal.map_or("-".to_owned(), |goal| goal.to_string());
    let verdict = match comparison.verdict() {
        "missed" => "**missed**",
        "no goal" => "",
        verdict => verdict,
    };
    let (ours, theirs) = (value(ours), value(theirs));
    let (name, link) = (work.name, work.link);
    format!("| `{name}` | {link} | {ours} | {peer} | {theirs} | {ratio} | {goal} | {verdict} |")
}
