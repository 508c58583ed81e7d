//! What is known of a lock path's creates, and the watch that tells when it is not true any more: the I/O of
//! the [gap rule](super::rules::gap).

use super::rules::gap::{Creates, Gap};
use crate::client::{LinkWatch, Listing, NodeWatch, WatchPermit};
use crate::clock::Moment;

#[derive(Debug)]
pub(super) struct Parent {
    gap: Gap,
    watch: ParentWatch,
    /// Set while the path is remembered.
    room: Option<WatchPermit>,
    used: Moment,
}

/// The watch on the parent's data.
#[derive(Debug)]
enum ParentWatch {
    None,
    /// A task waits for the answer.
    Asked,
    Armed {
        watch: NodeWatch,
        /// From before it was asked for.
        link: LinkWatch,
    },
}

impl Parent {
    pub(super) fn new() -> Self {
        let (gap, watch) = (Gap::default(), ParentWatch::None);
        Self { gap, watch, room: None, used: Moment::now() }
    }

    /// Whether something is known, and true still.
    pub(super) fn knows(&mut self) -> bool {
        self.used = Moment::now();
        let lasts = self.lasts();
        if lasts.is_none() || self.gap.incarnation() != lasts {
            self.gap.forget();
            return false;
        }
        true
    }

    /// The incarnation of the parent, if it is certain that it is the same still.
    fn lasts(&mut self) -> Option<i64> {
        let ParentWatch::Armed { watch, link } = &mut self.watch else {
            return None;
        };
        if watch.fired().is_none() && !link.has_changed() {
            return Some(watch.czxid());
        }
        self.watch = ParentWatch::None;
        None
    }

    /// Whether the next task that lists has to watch it. The caller must then set the watch.
    pub(super) fn asks(&mut self) -> bool {
        let asks = self.lasts().is_none()
            && self.room.is_some()
            && matches!(self.watch, ParentWatch::None);
        if asks {
            self.watch = ParentWatch::Asked;
        }
        asks
    }

    /// The answer, after [`asks`](Self::asks).
    pub(super) fn watched(&mut self, armed: Option<(NodeWatch, LinkWatch)>) {
        if matches!(self.watch, ParentWatch::Asked) {
            self.watch = match armed {
                Some((watch, link)) => ParentWatch::Armed { watch, link },
                None => ParentWatch::None,
            };
        }
    }

    /// Whether a listing is of the incarnation that is watched.
    pub(super) fn can_learn(&mut self, listing: &Listing) -> bool {
        self.lasts() == Some(listing.czxid)
    }

    /// Such a listing showed only ours, or this many leases. Whether it tells more than is known.
    pub(super) fn learn(&mut self, listing: &Listing) -> bool {
        let creates = Creates::of(listing.cversion, listing.num_children);
        self.gap.learn(listing.czxid, creates)
    }

    /// Counts an own create. The incarnation, if only ours can be before it.
    pub(super) fn created(&mut self, sequence: i64, czxid: i64) -> Option<i64> {
        self.knows();
        let sequence = i32::try_from(sequence).unwrap_or(-1);
        if self.gap.created(sequence, czxid) { self.gap.incarnation() } else { None }
    }

    /// A create has no known outcome.
    pub(super) fn forget(&mut self) {
        self.gap.forget();
    }

    pub(super) fn remember(&mut self, room: WatchPermit) {
        self.room = Some(room);
    }

    /// Whether it is remembered, and since when it was not used.
    pub(super) fn remembered(&self) -> Option<Moment> {
        self.room.as_ref().map(|_| self.used)
    }

    pub(super) fn unwatch(&mut self) {
        self.gap.forget();
        self.room = None;
        self.watch = ParentWatch::None;
    }
}
