//! What the functions under fault share: the fixture that each is given, and the cases.

pub(crate) mod case;
pub(crate) mod fixture;
