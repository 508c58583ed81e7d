//! Where every random number of the library comes from.

use uuid::Uuid;

/// What makes a node's name its own.
pub(crate) fn guid() -> Uuid {
    #[cfg(feature = "simulation")]
    if let Some(guid) = crate::simulation::guid() {
        return guid;
    }
    Uuid::new_v4()
}

/// Seeds the jitter of pauses; `None` leaves that to chance.
pub(crate) fn seed() -> Option<u64> {
    #[cfg(feature = "simulation")]
    if let Some(seed) = crate::simulation::seed() {
        return Some(seed);
    }
    None
}
