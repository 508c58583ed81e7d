//! Without the feature `metrics`: nothing.

use super::{Operation, Outcome, Recipe};
use crate::error::Loss;

#[derive(Clone, Debug, Default)]
pub(crate) struct PathLabel(());

#[derive(Clone, Debug, Default)]
pub(crate) struct Lock(());

impl Lock {
    #[inline(always)]
    pub(crate) fn new(_: Recipe, _: &PathLabel, _: &str) -> Self {
        Self(())
    }

    #[inline(always)]
    pub(crate) fn as_of(&self, _: Recipe) -> Self {
        Self(())
    }

    #[inline(always)]
    pub(crate) fn acquiring(&self) -> Acquiring {
        Acquiring
    }
}

#[derive(Debug)]
pub(crate) struct Acquiring;

impl Acquiring {
    #[inline(always)]
    pub(crate) fn ended(&mut self, _: Outcome) {}
}

#[derive(Debug, Default)]
pub(crate) struct Holds(());

impl Holds {
    #[inline(always)]
    pub(crate) fn begin(&self, _: &Lock) -> Holding {
        Holding
    }

    #[inline(always)]
    pub(crate) fn ended(&self, _: Loss) {}
}

#[derive(Debug)]
pub(crate) struct Holding;

impl Holding {
    #[inline(always)]
    pub(crate) fn ended(&self, _: Option<Loss>) {}
}

#[derive(Debug)]
pub(crate) struct CleanUp;

impl CleanUp {
    #[inline(always)]
    pub(crate) fn outstanding() -> Self {
        Self
    }
}

#[derive(Debug)]
pub(crate) struct WatchBudget;

impl WatchBudget {
    #[inline(always)]
    pub(crate) fn of(_: usize) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn left(&mut self, _: impl FnOnce() -> usize) {}
}

#[derive(Debug)]
pub(crate) struct Connection;

impl Connection {
    #[inline(always)]
    pub(crate) fn new(_: Option<&'static str>) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn is(&self, _: Option<&'static str>) {}
}

#[inline(always)]
pub(crate) fn describe() {}

#[inline(always)]
pub(crate) fn session_opened() {}

#[inline(always)]
pub(crate) fn session_lost() {}

#[inline(always)]
pub(crate) fn retried(_: Operation) {}

#[inline(always)]
pub(crate) fn unknown(_: Operation) {}

#[derive(Debug)]
pub(crate) struct LeaseLeft;

impl LeaseLeft {
    #[inline(always)]
    pub(crate) fn look(_: impl FnOnce() -> Option<f64>) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn tell(self) {}
}

/// No cost: what keeps one of these is as large as without, and dropping it is nothing to do.
const _: () = {
    const fn is_nothing<T>() -> bool {
        size_of::<T>() == 0 && align_of::<T>() == 1 && !std::mem::needs_drop::<T>()
    }
    assert!(is_nothing::<PathLabel>() && is_nothing::<Lock>() && is_nothing::<Acquiring>());
    assert!(is_nothing::<Holds>() && is_nothing::<Holding>() && is_nothing::<CleanUp>());
    assert!(is_nothing::<WatchBudget>() && is_nothing::<Connection>() && is_nothing::<LeaseLeft>());
};
