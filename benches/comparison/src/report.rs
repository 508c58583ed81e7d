//! The tables: on standard output, in files, and in the documentation between its two markers.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::Failure;
use crate::finding::{Finding, Question};
use crate::machine::Machine;
use crate::run::Results;
use crate::settings::Settings;
use crate::ways::WayName;

const BEGIN: &str = "<!-- written by `make comparison`: begin -->";
const END: &str = "<!-- written by `make comparison`: end -->";

#[derive(Serialize)]
struct Json<'a> {
    machine: &'a Machine,
    lease_ms: u128,
    findings: &'a [Finding],
    failures: &'a [String],
}

/// `target/comparison/report.md` and `.json`.
pub(crate) fn write(
    results: &Results,
    machine: &Machine,
    settings: &Settings,
) -> Result<PathBuf, Failure> {
    let folder = target().join("comparison");
    fs::create_dir_all(&folder)?;
    let Results { findings, failures, .. } = results;
    let json = Json { machine, lease_ms: settings.lease().as_millis(), findings, failures };
    fs::write(folder.join("report.json"), serde_json::to_string_pretty(&json)?)?;
    let file = folder.join("report.md");
    fs::write(&file, markdown(results, machine, settings)?)?;
    Ok(file)
}

pub(crate) fn write_into_the_documentation(
    results: &Results,
    machine: &Machine,
    settings: &Settings,
) -> Result<PathBuf, Failure> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/comparison.md");
    let page = fs::read_to_string(&file)?;
    let written = between(&page, &markdown(results, machine, settings)?)
        .ok_or_else(|| format!("{} has lost its markers `{BEGIN}`, `{END}`", file.display()))?;
    fs::write(&file, written)?;
    Ok(file)
}

fn between(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
}

/// Cargo's folder for what is built: this program is in a profile's folder in it.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

/// For a reader at a terminal.
pub(crate) fn print(results: &Results, machine: &Machine) {
    for fact in machine.facts() {
        println!("machine: {fact}");
    }
    for question in Question::ALL {
        let found: Vec<_> = of(results, question).collect();
        if found.is_empty() {
            continue;
        }
        println!("\n{}", question.title());
        for finding in found {
            let title = finding.way.title().replace('`', "");
            let circumstances =
                finding.circumstances.map_or(String::new(), |text| format!("[{text}] "));
            println!("  {title:22} {circumstances}{}", finding.seen);
        }
    }
    for (kind, reason) in &results.missing {
        println!("\nmissing: {}: {reason}", kind.name());
    }
    for failure in &results.failures {
        println!("\nnot answered: {failure}");
    }
}

fn of(results: &Results, question: Question) -> impl Iterator<Item = &Finding> {
    results.findings.iter().filter(move |finding| finding.question == question)
}

fn markdown(results: &Results, machine: &Machine, settings: &Settings) -> Result<String, Failure> {
    let mut text = String::new();
    writeln!(text, "Leases and sessions of {:?}. The machine:\n", settings.lease())?;
    for fact in machine.facts() {
        writeln!(text, "* {fact}")?;
    }
    for (kind, reason) in &results.missing {
        writeln!(text, "* {} was not asked: {reason}", kind.name())?;
    }
    for failure in &results.failures {
        writeln!(text, "* not answered: {failure}")?;
    }
    let asked: Vec<_> = Question::ALL
        .into_iter()
        .filter(|question| of(results, *question).any(|finding| finding.brief.is_some()))
        .filter(|question| *question != Question::Besides)
        .collect();
    writeln!(text)?;
    let headings: Vec<_> = asked.iter().map(|question| question.heading()).collect();
    writeln!(text, "| | {} |", headings.join(" | "))?;
    writeln!(text, "| --- |{}", " --- |".repeat(asked.len()))?;
    for way in WayName::value_variants() {
        let brief = |question: &Question| {
            let mut found = of(results, *question).filter(|finding| finding.way == *way);
            found.find_map(|finding| finding.brief.clone()).unwrap_or_else(|| "-".to_owned())
        };
        if results.findings.iter().any(|finding| finding.way == *way) {
            let cells: Vec<_> = asked.iter().map(brief).collect();
            writeln!(text, "| {} | {} |", way.title(), cells.join(" | "))?;
        }
    }
    for question in Question::ALL {
        writeln!(text, "{}", list(results, question)?)?;
    }
    Ok(format!("{}\n", text.trim_end()))
}

/// Everything that was seen of one question.
fn list(results: &Results, question: Question) -> Result<String, Failure> {
    let mut text = String::new();
    for (number, finding) in of(results, question).enumerate() {
        if number == 0 {
            let title = question.title();
            let title = title[..1].to_uppercase() + &title[1..];
            writeln!(text, "\n### {title}\n\n| | what was seen |\n| --- | --- |")?;
        }
        let circumstances = finding.circumstances.map_or(String::new(), |text| format!("; {text}"));
        // A bar would end the cell.
        let seen = finding.seen.replace('|', "\\|");
        writeln!(text, "| {}{circumstances} | {seen} |", finding.way.title())?;
    }
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_is_written_anew() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let expected = format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n");
        assert_eq!(between(&page, "new\n"), Some(expected));
        assert_eq!(between("no markers", "new\n"), None);
    }

    #[test]
    fn a_list_has_a_row_for_each_finding() {
        let finding = |circumstances| {
            Finding::new(Question::Cost, WayName::Etcd, "1 ms", "a|b".to_owned())
                .under(circumstances)
        };
        let findings = vec![finding("disk"), finding("memory")];
        let results = Results { findings, ..Results::default() };
        let text = list(&results, Question::Cost).expect("text");
        assert!(text.starts_with("\n### A cycle"), "{text}");
        assert_eq!(text.matches("\n| etcd lock and lease; ").count(), 2, "{text}");
        assert!(text.contains("a\\|b"), "{text}");
        assert_eq!(list(&results, Question::Death).expect("text"), "");
    }
}
