//! The implementation without the feature `metrics`: no type has a size, and no function does anything.

use super::{Operation, Recipe};
use crate::error::{Error, Loss};

pub(crate) type PathLabel = ();

#[derive(Clone, Debug, Default)]
pub(crate) struct LockLabels(());

impl LockLabels {
    pub(crate) fn new(_: Recipe, (): &PathLabel, _: &str) -> Self {
        Self(())
    }

    pub(crate) fn as_of(&self, _: Recipe) -> Self {
        Self(())
    }

    pub(crate) fn acquiring(&self) -> Acquiring {
        Counted
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holds(());

impl Holds {
    pub(crate) fn begin(&self, _: &LockLabels) -> Holding {
        Counted
    }

    pub(crate) fn ended(&self, _: Loss) {}
}

#[derive(Debug)]
pub(crate) struct Counted;

pub(crate) type Acquiring = Counted;
pub(crate) type Holding = Counted;

impl Counted {
    pub(crate) fn answered<T>(&mut self, _: &Result<T, Error>) {}
    pub(crate) fn ended(&self, _: Option<Loss>) {}
    pub(crate) fn set(&mut self, _: usize) {}
}

#[derive(Debug, Default)]
pub(crate) struct Connection(());

impl Connection {
    pub(crate) fn set_state(&self, _: Option<&'static str>) {}
}

pub(crate) fn watch_budget(_: usize) -> (Counted, Counted) {
    (Counted, Counted)
}

pub(crate) fn cleaning_up() -> Counted {
    Counted
}

pub(crate) fn describe() {}
pub(crate) fn session_opened() {}
pub(crate) fn session_lost() {}
pub(crate) fn retried(_: Operation) {}
pub(crate) fn unknown(_: Operation) {}
pub(crate) fn lease_left(_: f64) {}

/// Asserts that the types cost nothing: they add no size to a value that contains them, and no work to its drop.
const _: () = {
    type All = (PathLabel, LockLabels, Holds, Counted, Connection);
    assert!(size_of::<All>() == 0 && align_of::<All>() == 1 && !std::mem::needs_drop::<All>());
};
