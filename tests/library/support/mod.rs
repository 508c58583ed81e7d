//! Helpers that several test files share: contenders of any recipe, recipes whose course a test steers, and clients whose
//! messages are counted.

pub(crate) mod contenders;
pub(crate) mod counted_client;
pub(crate) mod latches;
pub(crate) mod leases;
pub(crate) mod scrape;
pub(crate) mod selectors;
pub(crate) mod stopped;
