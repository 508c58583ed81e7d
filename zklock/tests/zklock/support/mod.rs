//! `zklock` as a process, the commands that it runs, what they report, and the scene of a test.

pub(crate) mod lifeline;
pub(crate) mod processes;
pub(crate) mod scene;
pub(crate) mod scripts;
pub(crate) mod terminal;
pub(crate) mod tool;
