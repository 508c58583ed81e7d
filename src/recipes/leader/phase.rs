//! What the task of a [run](super::run) shares with its handle.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use tokio::sync::watch;

use super::closing::Closing;
use super::term::TermError;
use crate::lock::Mutex;
use crate::recipes::shared::hold::Hold;

/// How many reports are kept for a caller that does not ask for them.
const REPORTS: usize = 64;

#[derive(Debug)]
pub(super) enum Phase {
    Candidate,
    Leader(Hold),
    /// A term has ended, and no other is wanted.
    Between,
    Over,
}

impl Phase {
    /// The term that lasts at this instant.
    pub(super) fn leadership(&self) -> Option<&Hold> {
        match self {
            Self::Leader(leadership) if leadership.is_held() => Some(leadership),
            _ => None,
        }
    }
}

pub(super) struct Shared<T> {
    pub(super) path: String,
    /// Changes with each report.
    pub(super) phase: watch::Sender<Phase>,
    reports: Mutex<VecDeque<Result<T, TermError<T>>>>,
    pub(super) closing: Closing,
    /// It closes with its first term.
    pub(super) once: AtomicBool,
}

impl<T> Shared<T> {
    pub(super) fn new(path: String) -> Self {
        Self {
            path,
            phase: watch::Sender::new(Phase::Candidate),
            reports: Mutex::default(),
            closing: Closing::default(),
            once: AtomicBool::new(false),
        }
    }

    pub(super) fn next_report(&self) -> Option<Result<T, TermError<T>>> {
        self.reports.lock().pop_front()
    }

    /// Tells how a term ended, and in the same moment what follows: a caller that has the report finds that.
    pub(super) fn report(&self, report: Result<T, TermError<T>>, next: Phase) {
        let mut forgotten = None;
        self.phase.send_modify(|phase| {
            let mut reports = self.reports.lock();
            reports.push_back(report);
            if reports.len() > REPORTS {
                forgotten = reports.pop_front();
            }
            *phase = next;
        });
        if forgotten.is_some() {
            tracing::debug!(path = self.path, "a report was not asked for, and is forgotten");
        }
    }
}
