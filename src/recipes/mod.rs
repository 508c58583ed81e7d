//! The recipes: the locks and elections that callers use.

pub mod group;
pub mod leader;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod persistent_node;
pub(crate) mod read_write_lock;
pub(crate) mod revoker;
pub(crate) mod semaphore;
pub(crate) mod shared;
pub(crate) mod shared_count;
pub(crate) mod slots;
