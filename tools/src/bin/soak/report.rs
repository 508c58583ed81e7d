//! What the run prints at its end.

use std::collections::BTreeMap;

use crate::checker::{Finding, Kind, Verdict};
use crate::log::{Event, MILLISECOND, What};
use crate::settings::Settings;

/// Of each kind of finding.
const SHOWN: usize = 10;

pub(crate) fn print(faults: &[Event], verdict: &Verdict) {
    println!();
    let kinds = faults.iter().filter_map(|event| match &event.1 {
        What::Begins { kind, .. } => Some(kind),
        _ => None,
    });
    for (kind, count) in counts(kinds) {
        println!("{kind:<22} {count:>5}");
    }
    println!();
    for (mode, count) in counts(verdict.holds.iter().map(|hold| hold.mode)) {
        println!("{:<28} {count:>5}", format!("holds: {mode:?}"));
    }
    let healing: Vec<_> = verdict.after_healing.iter().map(|time| time / MILLISECOND).collect();
    println!("healing to hold, each worker {healing:?} ms");
    for text in verdict.went_back.iter().take(SHOWN) {
        println!("the servers lost what they had confirmed: {text}");
    }
    print_findings(verdict);
}

/// What became of the holds of each peer, and how often it was wrong.
pub(crate) fn print_peers(settings: &Settings, verdict: &Verdict) {
    for peer in &settings.peers {
        let part = verdict.of(Some(&peer.name));
        println!(
            "{:<28} holds={} lost={} findings={}",
            peer.name,
            part.holds.len(),
            part.lost(),
            part.findings.len()
        );
    }
}

/// The last line, for people and for scripts.
pub(crate) fn line(settings: &Settings, verdict: &Verdict) -> String {
    format!(
        "soak: recipe={} seed={} faults={} holds={} lost={} double={} orphans={} hung={}",
        settings.recipe.name(),
        settings.seed,
        verdict.faults,
        verdict.of(None).holds.len(),
        verdict.lost(),
        verdict.count(Kind::Double),
        verdict.count(Kind::Orphan),
        verdict.count(Kind::Hung),
    )
}

/// How often each is there.
fn counts<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}

fn print_findings(verdict: &Verdict) {
    for kind in [Kind::Double, Kind::Orphan, Kind::Hung] {
        let of_kind: Vec<&Finding> =
            verdict.findings.iter().filter(|finding| finding.kind == kind).collect();
        for finding in of_kind.iter().take(SHOWN) {
            let peer = finding.peer.as_ref().map(|peer| format!(" of {peer}")).unwrap_or_default();
            println!("{kind:?}{peer} at {} ns: {}", finding.at, finding.text);
        }
        if of_kind.len() > SHOWN {
            println!("{kind:?}: {} more", of_kind.len() - SHOWN);
        }
    }
}
