//! The tables of `docs/scaling.md`, between its two marks.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Failure;
use crate::figures::{Figures, QUANTITIES, Quantity, text};
use crate::plan::Kind;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scaling.md");
const BEGIN: &str = "<!-- growth: begin -->\n";
const END: &str = "<!-- growth: end -->";

const KINDS: [(Kind, &str); 4] = [
    (Kind::Waiters, "Waiters on one lock"),
    (Kind::Holds, "Held locks"),
    (Kind::Clients, "Clients"),
    (Kind::Children, "Children that are no contenders"),
];

pub(crate) fn write(figures: &Figures) -> Result<(), Failure> {
    let page = std::fs::read_to_string(PAGE)?;
    let marks = "docs/scaling.md has lost its marks";
    let (before, rest) = page.split_once(BEGIN).ok_or(marks)?;
    let (_, after) = rest.split_once(END).ok_or(marks)?;
    Ok(std::fs::write(PAGE, format!("{before}{BEGIN}{}{END}{after}", tables(figures)?))?)
}

fn tables(figures: &Figures) -> Result<String, Failure> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<_> = load.split(' ').collect();
    let load = load.get(2).copied().unwrap_or("?");
    let mut page = format!(
        "Measured on {cores} cores; the mean load of the last quarter of an hour was {load}, this program's own included. Ours / Curator's.\n"
    );
    for (kind, title) in KINDS {
        writeln!(page, "\n### {title}")?;
        for (on, servers) in [("single", "One server"), ("ensemble", "An ensemble of three")] {
            let of_kind =
                |quantity: &&Quantity| quantity.is_of(kind) && !figures.of(quantity, on).is_empty();
            let columns: Vec<_> = QUANTITIES.iter().filter(of_kind).collect();
            if columns.is_empty() {
                continue;
            }
            writeln!(page, "\n{servers}:\n")?;
            write!(page, "| {kind} |")?;
            for column in &columns {
                write!(page, " {}, {} |", column.title, column.unit)?;
            }
            writeln!(page, "\n| ---: |{}", " ---: |".repeat(columns.len()))?;
            let sizes: BTreeSet<_> =
                columns.iter().flat_map(|column| figures.of(column, on)).map(|(n, _)| n).collect();
            for n in sizes {
                write!(page, "| {n} |")?;
                for column in &columns {
                    let found = figures.of(column, on).into_iter().find(|(size, _)| *size == n);
                    match found {
                        Some((_, pair)) => {
                            write!(page, " {} / {} |", text(pair.ours), text(pair.curator))?;
                        }
                        None => page.push_str(" |"),
                    }
                }
                writeln!(page)?;
            }
        }
    }
    writeln!(page)?;
    Ok(page)
}
