//! `target/bench/report.html`: one file, that needs no other and no network.

use std::fmt::Write;
use std::path::PathBuf;

use crate::Failure;
use crate::comparison::{Comparison, Results, with_spread};
use crate::machine::Machine;
use crate::plot::plot;
use crate::settings::{Settings, target};
use crate::statistics::Summary;

pub(crate) fn write(
    results: &Results,
    machine: &Machine,
    settings: &Settings,
) -> Result<PathBuf, Failure> {
    let mut plots = String::new();
    for measured in &results.measured {
        writeln!(plots, "{}", plot(measured))?;
    }
    let mut rows = String::new();
    for comparison in results.comparisons() {
        writeln!(rows, "{}", row(&comparison))?;
    }
    let page = include_str!("page.html")
        .replace("%SUMMARY%", &summary(results, settings))
        .replace("%FACTS%", &facts(results, machine))
        .replace("%PLOTS%", &plots)
        .replace("%ROWS%", &rows);
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("report.html");
    std::fs::write(&file, page)?;
    Ok(file)
}

/// Text, as it may stand in a page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn summary(results: &Results, settings: &Settings) -> String {
    let verdicts: Vec<_> = results.comparisons().map(|comparison| comparison.verdict()).collect();
    let count = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    let (met, missed, unknown) = (count("met"), count("missed"), count("not measured"));
    let (rounds, turn) = (settings.rounds, settings.turn.as_secs_f64());
    format!(
        "{met} goals met, {missed} missed, {unknown} not measured; {rounds} rounds with turns of {turn} s."
    )
}

fn facts(results: &Results, machine: &Machine) -> String {
    let noisy = if machine.noise().is_empty() { "quiet" } else { "noisy" };
    let facts = machine.facts().into_iter().map(|fact| ("quiet", fact));
    let verdict = [(noisy, machine.verdict())];
    let missing = results
        .missing
        .iter()
        .map(|(peer, reason)| ("noisy", format!("{peer} was not measured: {reason}")));
    let trips = results.trips.keys().filter_map(|link| {
        let trip = with_spread(results.trip(*link)?, " ms");
        Some(("quiet", format!("there and back on the link {link}: {trip}")))
    });
    let paragraph =
        |(class, text): (&str, String)| format!("<p class=\"{class}\">{}</p>\n", escape(&text));
    facts.chain(trips).chain(verdict).chain(missing).map(paragraph).collect()
}

fn row(comparison: &Comparison) -> String {
    let Comparison { work, peer, ours, theirs, ratio, goal, .. } = comparison;
    let unit = format!(" {}", work.kind.unit());
    let value = |summary: &Option<Summary>| {
        summary.map_or("-".to_owned(), |summary| with_spread(summary, &unit))
    };
    let cells = [
        ("", work.name.to_owned()),
        ("", work.link.to_string()),
        ("number", value(ours)),
        ("", peer.to_string()),
        ("number", value(theirs)),
        ("number", ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
        ("", goal.map_or("-".to_owned(), |goal| goal.to_string())),
        (comparison.verdict(), comparison.verdict().to_owned()),
    ];
    let cells = cells.map(|(class, text)| format!("<td class=\"{class}\">{}", escape(&text)));
    format!("<tr>{}</tr>", cells.concat())
}
