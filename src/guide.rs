//! The guide for users: what recipes have in common, what each adds, and how to run, test and watch them.
//!
#![doc = include_str!("guide/links.txt")]
#![doc = include_str!("../docs/guide/README.md")]

/// Makes a module of each page. The pages are also read as plain files and define their links at their end. Those of
/// `guide/links.txt` come before the text, so rustdoc prefers them, and they point to the modules.
macro_rules! pages {
    ($($page:ident = $file:literal,)*) => {$(
        #[doc = include_str!("guide/links.txt")]
        #[doc = include_str!(concat!("../docs/guide/", $file, ".md"))]
        pub mod $page {}
    )*};
}

pages! {
    start = "start",
    recipes = "recipes",
    concepts = "concepts",
    in_a_service = "in-a-service",
    coming_from_curator = "coming-from-curator",
    mixed_fleets = "mixed-fleets",
    zklock = "zklock",
    beside_the_locks = "beside-the-locks",
    testing_your_code = "testing-your-code",
    behind_your_own_trait = "behind-your-own-trait",
    session_and_security = "session-and-security",
    guarantees = "guarantees",
    observability = "observability",
    stability = "stability",
    versions = "versions",
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../docs/internals/scaling.md")]
mod scaling {}
