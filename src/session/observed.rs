//! Waits and holds, as those see them that observe the library: the metrics count and time them, and the picture of a
//! simulated run shows them. The only place that reports either.

use std::fmt::Debug;

use crate::clock::BootInstant;
use crate::error::{Error, Loss};
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::metrics::{self, LockLabels};
#[cfg(feature = "simulation")]
use crate::simulation::{RecordedHold, ReportedHold, ReportedTerm, ReportedWait};

/// A caller that wants a lock. If it is dropped before the answer, the caller has given up.
#[derive(Debug)]
pub(crate) struct Wait {
    counted: metrics::Acquiring,
    #[cfg(feature = "simulation")]
    reported: ReportedWait,
}

impl Wait {
    /// `requester` is the task or thread that asks, `curator` the number of its connection.
    #[cfg_attr(not(feature = "simulation"), allow(unused_variables))]
    pub(crate) fn begin(
        labels: &LockLabels,
        curator: u64,
        requester: impl Debug,
        path: &str,
    ) -> Self {
        Self {
            counted: labels.acquiring(),
            #[cfg(feature = "simulation")]
            reported: ReportedWait::begin(curator, &requester, path),
        }
    }

    pub(crate) fn answered<T>(&mut self, answer: &Result<T, Error>) {
        self.counted.answered(answer);
        #[cfg(feature = "simulation")]
        self.reported.answered(answer);
    }
}

/// The lock of a hold.
#[cfg_attr(not(feature = "simulation"), allow(dead_code))]
pub(crate) struct HeldLock<'a> {
    pub(crate) path: &'a LockPath,
    /// The text before the sequence number in the names of contenders.
    pub(crate) kind: &'static str,
    pub(crate) counted: &'a LockLabels,
}

/// The holds in one term of a session lease. They end with the term at the latest.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    counted: metrics::Holds,
    #[cfg(feature = "simulation")]
    reported: ReportedTerm,
}

impl Holds {
    /// `requester` is the task or thread that asked for the hold.
    #[cfg_attr(not(feature = "simulation"), allow(unused_variables))]
    pub(crate) fn begin(
        &self,
        lock: &HeldLock<'_>,
        requester: impl Debug,
        token: FencingToken,
        session: i64,
    ) -> Holding {
        Holding {
            counted: self.counted.begin(lock.counted),
            #[cfg(feature = "simulation")]
            reported: self.reported.begin(|| RecordedHold {
                task: format!("{requester:?}"),
                path: lock.path.to_string(),
                kind: lock.kind,
                token: token.value(),
                session,
            }),
        }
    }

    /// Ends all holds, and each hold that begins later. The term ended at `since`, or just now.
    #[cfg_attr(not(feature = "simulation"), allow(unused_variables))]
    pub(crate) fn ended(&self, loss: Loss, since: Option<BootInstant>) {
        self.counted.ended(loss);
        #[cfg(feature = "simulation")]
        self.reported.ended(loss, since.map(BootInstant::elapsed).unwrap_or_default());
    }
}

/// One hold, which ends once, either by itself or with its term.
#[derive(Debug)]
pub(crate) struct Holding {
    counted: metrics::Holding,
    #[cfg(feature = "simulation")]
    reported: ReportedHold,
}

impl Holding {
    pub(crate) fn ended(&self, loss: Option<Loss>) {
        self.counted.ended(loss);
        #[cfg(feature = "simulation")]
        self.reported.ended(loss);
    }
}
