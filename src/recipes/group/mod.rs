//! Groups: which processes are alive.
//!
//! A [`GroupMember`] joins a group, and a [`Membership`] keeps its znode.

mod member;

pub use self::member::{GroupMember, Membership};
