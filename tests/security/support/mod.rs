//! The holder that several tests share.

pub(crate) mod holder;
