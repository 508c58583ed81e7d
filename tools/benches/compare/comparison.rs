//! Ours beside each peer's, and whether the goal is met.

use std::collections::BTreeMap;

use crate::bench_server::Link;
use crate::crew::Peer;
use crate::statistics::Summary;
use crate::works::{Goal, Work};

/// What the rounds gave, in the work's unit.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) work: &'static Work,
    pub(crate) rounds: BTreeMap<Peer, Vec<f64>>,
}

#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) measured: Vec<Measured>,
    /// The time of a request there and back, in milliseconds.
    pub(crate) trips: BTreeMap<Link, Vec<f64>>,
    pub(crate) missing: BTreeMap<Peer, String>,
}

#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) work: &'static Work,
    pub(crate) peer: Peer,
    pub(crate) ours: Option<Summary>,
    pub(crate) theirs: Option<Summary>,
    /// Ours by theirs.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Option<Goal>,
    /// `None` without a goal, or without a figure.
    pub(crate) is_met: Option<bool>,
}

impl Measured {
    pub(crate) fn summary(&self, peer: Peer) -> Option<Summary> {
        Summary::of(self.rounds.get(&peer)?)
    }

    pub(crate) fn comparisons(&self) -> impl Iterator<Item = Comparison> {
        let ours = self.summary(Peer::Ours);
        self.work.peers.iter().map(move |(peer, goal)| {
            let theirs = self.summary(*peer);
            let medians = ours.zip(theirs).map(|(ours, theirs)| (ours.median, theirs.median));
            let ratio = medians.filter(|both| both.1 > 0.0).map(|(ours, theirs)| ours / theirs);
            let is_met = ours.zip(*goal).and_then(|(ours, goal)| goal.is_met(ours.median, ratio));
            Comparison { work: self.work, peer: *peer, ours, theirs, ratio, goal: *goal, is_met }
        })
    }
}

impl Results {
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = Comparison> {
        self.measured.iter().flat_map(Measured::comparisons)
    }

    /// How long the work's trips were.
    pub(crate) fn trip(&self, link: Link) -> Option<Summary> {
        Summary::of(self.trips.get(&link)?)
    }
}

impl Comparison {
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.goal, self.is_met) {
            (None, _) => "no goal",
            (Some(_), None) => "not measured",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "missed",
        }
    }
}

/// With as many digits as tell something.
pub(crate) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        small if small < 10.0 => 2,
        medium if medium < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// `MEDIANunit (LEAST..MOST)`.
pub(crate) fn with_spread(summary: Summary, unit: &str) -> String {
    let Summary { median, least, most } = summary;
    format!("{}{unit} ({}..{})", figure(median), figure(least), figure(most))
}
