//! The fixture that each function under fault is given, and the cases.

pub(crate) mod case;
pub(crate) mod fixture;
