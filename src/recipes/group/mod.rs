//! Groups: which processes are alive.
//!
//! A [`GroupMember`] joins a group, and a [`Membership`] keeps its znode. A [`GroupObserver`] reports all [`Members`].

mod member;
mod observer;

pub use self::member::{GroupMember, Membership};
pub use self::observer::{GroupObserver, Member, Members};
