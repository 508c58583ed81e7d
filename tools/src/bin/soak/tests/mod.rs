//! The checker's rules need nothing; the runs with a lock that is broken on purpose need servers, and are ignored unless asked for.
#![allow(clippy::unwrap_used)] // a test fails by it

/// One test for each rule: the logs that keep or break it, and how often two held at one moment.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident: $([$text:expr, $doubles:expr])*)*) => {$(
        $(#[$doc])*
        #[test]
        fn $rule() {
            for (text, expected) in [$(($text, $doubles)),*] {
                assert_eq!(super::script::doubles(text), expected, "{text}");
            }
        }
    )*};
}

mod peers;
mod rules;
mod sabotaged;
mod script;
mod shared;
