//! What the run prints at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checker::{Finding, Hold, Kind, Leaders, Verdict};
use crate::log::{Event, MILLISECOND, Mode, What};
use crate::settings::Settings;

/// Of each kind of finding.
const SHOWN: usize = 10;

pub(crate) fn print(faults: &[Event], verdict: &Verdict) {
    println!();
    for (kind, count) in by_kind(faults) {
        println!("{kind:<22} {count:>5}");
    }
    println!();
    for (mode, count) in by_mode(&verdict.holds) {
        println!("{:<28} {count:>5}", format!("holds: {}", mode.name()));
    }
    let kills = &verdict.after_kills;
    println!(
        "holder killed to next hold   {} times: median {:.2} T, longest {:.2} T",
        kills.len(),
        kills.get(kills.len() / 2).copied().unwrap_or_default(),
        kills.last().copied().unwrap_or_default(),
    );
    let healing: Vec<_> = verdict.after_healing.iter().map(|time| time / MILLISECOND).collect();
    println!("healing to hold, each worker {healing:?} ms");
    if let Some(leaders) = &verdict.leaders {
        print_leaders(leaders);
    }
    let longest = verdict.excused.iter().map(|excused| excused.long).max().unwrap_or(0);
    println!(
        "excused overlaps             {}, the longest {:.1} ms (a holder's node deleted or its session closed from elsewhere)",
        verdict.excused.len(),
        Duration::from_nanos(longest).as_secs_f64() * 1e3,
    );
    println!("strikes of unknown outcome   {}", verdict.unknown_strikes);
    for text in verdict.went_back.iter().take(SHOWN) {
        println!("the servers lost what they had confirmed: {text}");
    }
    print_findings(verdict);
}

fn print_leaders(leaders: &Leaders) {
    let Leaders { after_healing, again, observed } = leaders;
    let healing =
        after_healing.map_or("never".to_owned(), |time| format!("{} ms", time / MILLISECOND));
    println!("healing to a leader          {healing}");
    println!("led again by the same node   {again} times");
    println!("leaders observed             {observed}");
}

/// The last line, for people and for scripts.
pub(crate) fn line(settings: &Settings, verdict: &Verdict) -> String {
    format!(
        "soak: recipe={} seed={} faults={} holds={} lost={} double={} stale_writes={} orphans={} hung={}",
        settings.recipe.name(),
        settings.seed,
        verdict.faults,
        verdict.holds.len(),
        verdict.lost(),
        verdict.count(Kind::Double),
        verdict.count(Kind::StaleWrite),
        verdict.count(Kind::Orphan),
        verdict.count(Kind::Hung),
    )
}

fn by_kind(faults: &[Event]) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for event in faults {
        if let What::Begins { kind, .. } = &event.1 {
            *kinds.entry(kind.as_str()).or_default() += 1;
        }
    }
    kinds
}

fn by_mode(holds: &[Hold]) -> BTreeMap<Mode, usize> {
    let mut modes = BTreeMap::new();
    for hold in holds {
        *modes.entry(hold.mode).or_default() += 1;
    }
    modes
}

fn print_findings(verdict: &Verdict) {
    for kind in [Kind::Double, Kind::StaleWrite, Kind::Orphan, Kind::Hung] {
        let of_kind: Vec<&Finding> =
            verdict.findings.iter().filter(|finding| finding.kind == kind).collect();
        for finding in of_kind.iter().take(SHOWN) {
            println!("{kind:?} at {} ns: {}", finding.at, finding.text);
        }
        if of_kind.len() > SHOWN {
            println!("{kind:?}: {} more", of_kind.len() - SHOWN);
        }
    }
}
