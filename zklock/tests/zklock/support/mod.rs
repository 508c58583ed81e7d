//! `zklock` as a process, the scripts that it runs and their reports, and the scene of a test.

pub(crate) mod lifeline;
pub(crate) mod processes;
pub(crate) mod scene;
pub(crate) mod scripts;
pub(crate) mod terminal;
pub(crate) mod tool;
