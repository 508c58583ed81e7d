//! Everything that the candidates told, as it came.

use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::Failure;
use crate::event::{Event, What};

/// Whose latch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Curator,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Ours => "this crate's latch",
            Kind::Curator => "Curator's latch",
        })
    }
}

pub(crate) type Entry = (Kind, Event);

#[derive(Debug)]
pub(crate) struct Log {
    incoming: UnboundedReceiver<Entry>,
    entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn new() -> (UnboundedSender<Entry>, Self) {
        let (sender, incoming) = unbounded_channel();
        (sender, Self { incoming, entries: Vec::new() })
    }

    pub(crate) fn add(&mut self, kind: Kind, event: Event) {
        self.entries.push((kind, event));
    }

    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.entries.iter().any(|(other, _)| *other == kind)
    }

    /// Of one kind, in the order of their time.
    pub(crate) fn of(&mut self, kind: Kind) -> Vec<Event> {
        while let Ok(entry) = self.incoming.try_recv() {
            self.entries.push(entry);
        }
        let ours = self.entries.iter().filter(|(other, _)| *other == kind);
        let mut events: Vec<_> = ours.map(|(_, event)| *event).collect();
        events.sort_by_key(|event| event.at);
        events
    }

    /// Waits until somebody of `kind` leads, told after `since`.
    pub(crate) async fn leader(
        &mut self,
        kind: Kind,
        since: Duration,
        patience: Duration,
    ) -> Result<Event, Failure> {
        let leads = |event: &Event| event.what == What::Leads && event.at >= since;
        let found = self.wait_for(kind, patience, |events| events.iter().copied().find(leads));
        found.await.ok_or_else(|| format!("{kind}: nobody leads within {patience:?}").into())
    }

    /// Waits until each candidate of `kind` that ever was disconnected is connected again, and one leads.
    pub(crate) async fn calm(&mut self, kind: Kind, patience: Duration) -> Result<(), Failure> {
        let calm = |events: &[Event]| {
            let last = |wanted: &dyn Fn(&Event) -> bool| events.iter().rev().find(|e| wanted(e));
            let connected = events.iter().all(|event| {
                let same = |e: &Event| e.candidate == event.candidate;
                let link = |e: &Event| matches!(e.what, What::Suspended | What::Connected);
                last(&|e| same(e) && link(e)).is_none_or(|e| e.what == What::Connected)
            });
            let term = last(&|e| matches!(e.what, What::Leads | What::Lost));
            (connected && term.is_some_and(|e| e.what == What::Leads)).then_some(())
        };
        let found = self.wait_for(kind, patience, calm).await;
        found.ok_or_else(|| format!("{kind}: not led, or not connected, after {patience:?}").into())
    }

    async fn wait_for<T>(
        &mut self,
        kind: Kind,
        patience: Duration,
        wanted: impl Fn(&[Event]) -> Option<T> + Send + Sync,
    ) -> Option<T> {
        let search = async {
            loop {
                if let Some(found) = wanted(&self.of(kind)) {
                    return Some(found);
                }
                let entry = self.incoming.recv().await?;
                self.entries.push(entry);
            }
        };
        timeout(patience, search).await.ok().flatten()
    }
}
