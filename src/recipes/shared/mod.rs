//! Parts that several recipes use.

pub(crate) mod contender;
pub(crate) mod fenced;
pub(crate) mod guards;
pub(crate) mod hold;
pub(crate) mod lock;
pub(crate) mod observation;
pub(crate) mod owner;
pub(crate) mod participants;
pub(crate) mod recipe;
pub(crate) mod revocation;
pub(crate) mod runs;
#[cfg(feature = "simulation")]
pub(crate) mod simulated_guard;
pub(crate) mod task_state;
pub(crate) mod waiting;
