//! Peers in processes of their own, the commands that they answer, and the lock path where they meet.

pub(crate) mod commands;
pub(crate) mod mixed_path;
pub(crate) mod our_leaders;
pub(crate) mod our_process;
pub(crate) mod our_recipes;
pub(crate) mod peer_process;
pub(crate) mod peers;
pub(crate) mod role;
