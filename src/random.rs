//! The source of every random number of the library.

use uuid::Uuid;

/// A new id, which makes a node's name unique.
pub(crate) fn guid() -> Uuid {
    #[cfg(feature = "simulation")]
    if let Some(guid) = crate::simulation::guid() {
        return guid;
    }
    Uuid::new_v4()
}

/// The seed for the jitter of pauses; `None` for a random one.
pub(crate) fn seed() -> Option<u64> {
    #[cfg(feature = "simulation")]
    if let Some(seed) = crate::simulation::seed() {
        return Some(seed);
    }
    None
}
