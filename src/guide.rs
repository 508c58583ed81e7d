//! The guide for users: what recipes have in common, what each adds, and how to run, test and watch them.
//!
//! The pages are the files of `docs/guide`, including one for the program `zklock`.

/// Makes a module of each page. The pages are also read as plain files and define their links at their end. The
/// definitions here come before the text, so rustdoc prefers them, and they point to the modules.
macro_rules! pages {
    ($($page:ident = $file:literal,)*) => {$(
        #[doc = "[recipes]: crate::guide::recipes"]
        #[doc = "[owner scopes]: crate::guide::recipes#owner-scopes"]
        #[doc = "[curator]: crate::guide::coming_from_curator"]
        #[doc = "[steps]: crate::guide::coming_from_curator#one-service-step-by-step"]
        #[doc = "[fleets]: crate::guide::mixed_fleets"]
        #[doc = "[by version]: crate::guide::mixed_fleets#curator-by-version"]
        #[doc = "[zklock]: crate::guide::zklock"]
        #[doc = "[testing]: crate::guide::testing_your_code"]
        #[doc = "[session]: crate::guide::session_and_security"]
        #[doc = "[timeouts]: crate::guide::session_and_security#timeouts"]
        #[doc = "[limits]: crate::guide::session_and_security#limits"]
        #[doc = "[guarantees]: crate::guide::guarantees"]
        #[doc = "[not guaranteed]: crate::guide::guarantees#what-is-not-guaranteed"]
        #[doc = "[fencing]: crate::guide::guarantees#4-fencing-tokens-increase"]
        #[doc = "[session lease]: crate::guide::guarantees#the-session-lease"]
        #[doc = "[loss policies]: crate::guide::guarantees#loss-policies"]
        #[doc = "[fenced writes]: crate::guide::guarantees#fenced-writes"]
        #[doc = "[service]: crate::guide::in_a_service"]
        #[doc = "[beside]: crate::guide::beside_the_locks"]
        #[doc = "[own trait]: crate::guide::behind_your_own_trait"]
        #[doc = "[observability]: crate::guide::observability"]
        #[doc = "[stability]: crate::guide::stability"]
        #[doc = "[versions]: crate::guide::versions"]
        #[doc = ""]
        #[doc = include_str!(concat!("../docs/guide/", $file, ".md"))]
        pub mod $page {}
    )*};
}

pages! {
    recipes = "recipes",
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
