//! The tables, on standard output and in `docs/internals/benchmarks.md`, where each replaces the text between two markers.
//! The charts are drawn from the tables in the page.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use tools::verdict::{Summary, Verdict, figure};
use tools::{Failure, chart};

use crate::comparison::{Comparison, Results};
use crate::settings::Settings;

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
    facts: &[String],
    settings: &Settings,
) -> Result<String, Failure> {
    let mut text = String::new();
    let (rounds, turn) = (settings.rounds, settings.turn.as_secs_f64());
    writeln!(text, "{rounds} rounds, turns of {turn} s. The machine:\n")?;
    for fact in facts {
        writeln!(text, "* {fact}")?;
    }
    for (link, trips) in &results.trips {
        if let Some(trip) = Summary::of(trips) {
            writeln!(text, "* milliseconds of a trip on the link {link}: {trip}")?;
        }
    }
    for (peer, reason) in &results.missing {
        writeln!(text, "* {peer} was not measured: {reason}")?;
    }
    let rows: Vec<_> = results.comparisons().collect();
    let noisy = rows.iter().filter(|row| row.verdict == Verdict::Noisy).count();
    writeln!(text, "* {noisy} of {} rows are noisy", rows.len())?;
    writeln!(text, "\n{}", chart::HEADER)?;
    writeln!(text, "| --- | --- | --: | --- | --: | --: | --- | --- |")?;
    for comparison in &rows {
        writeln!(text, "{}", row(comparison))?;
    }
    Ok(text)
}

fn row(comparison: &Comparison) -> String {
    let Comparison { work, peer, ours, theirs, ratio, goal, verdict } = comparison;
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let unit = work.kind.unit();
    let value =
        |side: &Option<Summary>| cell(side.map(|all| format!("{} {unit}", figure(all.median))));
    let (ours, theirs) = (value(ours), value(theirs));
    let ratio = cell(ratio.map(|ratio| ratio.to_string()));
    let goal = cell(goal.map(|goal| goal.to_string()));
    let (name, link) = (work.name, work.link);
    format!("| `{name}` | {link} | {ours} | {peer} | {theirs} | {ratio} | {goal} | {verdict} |")
}
