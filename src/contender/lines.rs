//! All own contenders of one epoch: their [lines](super::line), and which lock paths are remembered.
//!
//! A path is remembered while a watch on it is kept for the [gap rule](super::gap), and each takes some of the
//! epoch's room for watches. So they are few, and the one that was not used for longest makes room for another,
//! but not before it was idle for a session timeout: whoever goes round many more paths than fit shall not set and
//! remove a watch for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::mpsc;

use super::care::{Attended, look_after};
use super::line::Line;
use super::shortcuts::Shortcuts;
use crate::admission::Family;
use crate::lock_path::LockPath;
use crate::session::Session;
use crate::session::clock::Moment;
use crate::session::epoch::Epoch;

/// How many lock paths are remembered.
const REMEMBERED: usize = 256;

/// How many bytes their paths may have in all: a quarter of the room for watches.
const REMEMBERED_BYTES: usize = 24 * 1024;

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) session: Arc<Session>,
    pub(super) epoch: Arc<Epoch>,
    rules: Shortcuts,
    lines: Mutex<Known>,
    remembered: Mutex<Remembered>,
    pub(super) care: mpsc::UnboundedSender<Attended>,
}

impl Lines {
    /// Starts to look after what will be in them.
    pub(super) fn new(session: &Arc<Session>, epoch: &Arc<Epoch>, rules: Shortcuts) -> Arc<Self> {
        let (care, attended) = mpsc::unbounded_channel();
        let lines = Arc::new(Self {
            session: session.clone(),
            epoch: epoch.clone(),
            rules,
            lines: Mutex::default(),
            remembered: Mutex::default(),
            care,
        });
        session.spawn(look_after(lines.clone(), attended));
        lines
    }

    /// The line at `path`; remembers the path if there is room.
    pub(super) fn line(&self, path: &LockPath, family: &Family) -> Arc<Line> {
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.sweep();
            let here = lines.of.entry(path.clone()).or_default();
            let found = here.iter().filter_map(Weak::upgrade).find(|line| line.family == *family);
            found.unwrap_or_else(|| {
                let line = Arc::new(Line::new(path.clone(), family.clone(), self.rules));
                here.push(Arc::downgrade(&line));
                line
            })
        };
        if self.rules.gap && line.remembered().is_none() {
            self.remember(&line);
        }
        line
    }

    /// The lines there are.
    pub(super) fn all(&self) -> Vec<Arc<Line>> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.of.values().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Lets go of the watches on lock paths.
    pub(super) fn forget(&self) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut remembered.lines);
        remembered.bytes = 0;
        drop(remembered);
        lines.iter().for_each(|line| line.forget());
    }

    fn remember(&self, line: &Arc<Line>) {
        let bytes = |line: &Line| self.epoch.watched_bytes(line.path.as_str());
        let now = Moment::now();
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if now < remembered.full_until.unwrap_or(now)
            || remembered.lines.iter().any(|other| Arc::ptr_eq(other, line))
        {
            return;
        }
        let is_full = |remembered: &Remembered| {
            remembered.lines.len() >= REMEMBERED
                || remembered.bytes + bytes(line) > REMEMBERED_BYTES
        };
        while is_full(&remembered) {
            let lines = remembered.lines.iter().enumerate();
            let oldest = lines.min_by_key(|(_, line)| line.remembered());
            let Some((place, used)) = oldest.map(|(place, line)| (place, line.remembered())) else {
                return; // its path alone is too long
            };
            let idle_at = used.unwrap_or(now).after(self.epoch.timeout());
            if now < idle_at {
                remembered.full_until = Some(idle_at);
                return;
            }
            let forgotten = remembered.lines.swap_remove(place);
            remembered.bytes -= bytes(&forgotten);
            forgotten.forget();
        }
        if let Some(room) = self.epoch.room_at_once(line.path.as_str()) {
            line.remember(room);
            remembered.bytes += bytes(line);
            remembered.lines.push(line.clone());
        }
    }
}

/// The lines there are, in the order of their paths.
#[derive(Debug, Default)]
struct Known {
    of: BTreeMap<LockPath, Vec<Weak<Line>>>,
    sweep_at: usize,
}

impl Known {
    /// Drops what nobody uses any more, whenever there may be twice as much as the last time.
    fn sweep(&mut self) {
        if self.of.len() < self.sweep_at {
            return;
        }
        self.of.retain(|_, lines| {
            lines.retain(|line| line.strong_count() > 0);
            !lines.is_empty()
        });
        self.sweep_at = 2 * (self.of.len() + 1);
    }
}

#[derive(Debug, Default)]
struct Remembered {
    lines: Vec<Arc<Line>>,
    bytes: usize,
    /// Before that none of them can have been idle for long enough.
    full_until: Option<Moment>,
}
