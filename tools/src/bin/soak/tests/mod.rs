//! The checker's rules need nothing; the runs with a lock that is broken on purpose need servers, and are ignored unless asked for.
#![allow(clippy::unwrap_used)] // a test fails by it

mod leaders;
mod rules;
mod sabotaged;
mod script;
mod shared;
