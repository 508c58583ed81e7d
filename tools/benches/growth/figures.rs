//! What was measured.

use std::collections::BTreeMap;

use crate::peer::Peer;
use crate::plan::Kind;
use crate::steps::Measured;

/// What is plotted and told in tables.
pub(crate) struct Quantity {
    /// Its kind, a slash, and its name on the lines.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
}

const fn quantity(name: &'static str, title: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, title, unit }
}

pub(crate) const QUANTITIES: &[Quantity] = &[
    quantity("waiters/enqueue-ms", "enter the queue", "ms each"),
    quantity("waiters/enqueue-requests", "requests to enter", "each"),
    quantity("waiters/hand-over-ms", "hand-over", "ms"),
    quantity("waiters/hand-over-requests", "requests", "a hand-over"),
    quantity("waiters/events", "events", "a hand-over"),
    quantity("waiters/client-bytes", "client, in use", "bytes a waiter"),
    quantity("waiters/client-resident", "client, resident", "bytes a waiter"),
    quantity("waiters/server-bytes", "servers' heaps", "bytes a waiter"),
    quantity("waiters/server-watches", "watches", "a waiter"),
    quantity("holds/acquire-ms", "acquire", "ms each"),
    quantity("holds/acquire-requests", "requests to acquire", "each"),
    quantity("holds/release-ms", "release", "ms each"),
    quantity("holds/idle-requests", "requests while held", "a second and session"),
    quantity("holds/client-bytes", "client, in use", "bytes a hold"),
    quantity("holds/client-resident", "client, resident", "bytes a hold"),
    quantity("holds/server-bytes", "servers' heaps", "bytes a hold"),
    quantity("holds/server-watches", "watches", "a hold"),
    quantity("clients/one-rate", "one lock: holds", "a second"),
    quantity("clients/one-requests", "one lock: requests", "a hold"),
    quantity("clients/own-rate", "each its own: holds", "a second"),
    quantity("clients/own-requests", "each its own: requests", "a hold"),
    quantity("children/first-ms", "first acquire of a session", "ms"),
    quantity("children/cycle-ms", "acquire and release again", "ms"),
    quantity("children/cycle-requests", "requests", "an acquire and release"),
];

impl Quantity {
    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        self.name.starts_with(&format!("{kind}/"))
    }
}

/// By quantity and servers, then by size.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(&'static str, &'static str), BTreeMap<usize, Pair>>);

/// Ours, and Curator's where it could follow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pair {
    pub(crate) ours: Option<f64>,
    pub(crate) curator: Option<f64>,
}

impl Figures {
    pub(crate) fn add(&mut self, on: &'static str, peer: Peer, n: usize, measured: Measured) {
        for (name, value) in measured {
            let pair = self.0.entry((name, on)).or_default().entry(n).or_default();
            match peer {
                Peer::Ours => pair.ours = Some(value),
                Peer::Curator => pair.curator = Some(value),
            }
        }
    }

    pub(crate) fn of(&self, quantity: &Quantity, on: &str) -> Vec<(usize, Pair)> {
        let found =
            self.0.iter().find(|((name, servers), _)| *name == quantity.name && *servers == on);
        found
            .map(|(_, sizes)| sizes.iter().map(|(n, pair)| (*n, *pair)).collect())
            .unwrap_or_default()
    }

    /// The lines of one step.
    pub(crate) fn print(&self, on: &str, kind: Kind, n: usize) {
        for quantity in QUANTITIES.iter().filter(|quantity| quantity.is_of(kind)) {
            if let Some((_, pair)) = self.of(quantity, on).iter().find(|(size, _)| *size == n) {
                let (ours, curator) = (text(pair.ours), text(pair.curator));
                println!("growth: {} {n} on={on} ours={ours} curator={curator}", quantity.name);
            }
        }
    }
}

/// Three digits that count.
pub(crate) fn text(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}
