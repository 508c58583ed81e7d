//! What the rounds of each work gave, and ours beside each peer's.

use std::collections::BTreeMap;

use tools::verdict::{Goal, Summary, Verdict};

use crate::bench_server::Link;
use crate::crew::Peer;
use crate::works::Work;

/// The values of each round, in the work's unit. A missing peer has none.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) work: &'static Work,
    pub(crate) rounds: Vec<BTreeMap<Peer, f64>>,
}

#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) measured: Vec<Measured>,
    /// The time of a request there and back, in milliseconds.
    pub(crate) trips: BTreeMap<Link, Vec<f64>>,
    pub(crate) missing: BTreeMap<Peer, String>,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) work: &'static Work,
    pub(crate) peer: Peer,
    pub(crate) ours: Option<Summary>,
    pub(crate) theirs: Option<Summary>,
    /// Ours by theirs, of each round.
    pub(crate) ratio: Option<Summary>,
    pub(crate) goal: Option<Goal>,
    pub(crate) verdict: Verdict,
}

impl Measured {
    fn values(&self, peer: Peer) -> Option<Summary> {
        let values = self.rounds.iter().filter_map(|round| round.get(&peer).copied());
        Summary::of(&values.collect::<Vec<_>>())
    }

    fn ratios(&self, peer: Peer) -> Option<Summary> {
        let both = |round: &BTreeMap<Peer, f64>| {
            round.get(&Peer::Ours).copied().zip(round.get(&peer).copied())
        };
        Summary::of_ratios(&self.rounds.iter().filter_map(both).collect::<Vec<_>>())
    }

    fn comparisons(&self) -> impl Iterator<Item = Comparison> {
        let ours = self.values(Peer::Ours);
        self.work.peers.iter().map(move |&(peer, goal)| {
            let theirs = self.values(peer);
            let ratio = self.ratios(peer);
            let verdict = Verdict::of(goal, ours, ratio);
            Comparison { work: self.work, peer, ours, theirs, ratio, goal, verdict }
        })
    }
}

impl Results {
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = Comparison> {
        self.measured.iter().flat_map(Measured::comparisons)
    }
}
