//! What a hostile client can put under a lock path: names, sequence numbers, and what they do to the queue. The crate's
//! own pure files are compiled in; no server is needed.
//!
//! A node's *data* does nothing to the queue: it is handed on as bytes (`Participant::data`), and compared with one word
//! (`Participant::revocation_requested`).
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run lock_path --fuzz-dir fuzz -- -max_total_time=60
//! ```
#![no_main]
#![allow(dead_code, unused_imports)] // the files have more than is used here

#[path = "../src/admission.rs"]
mod admission;
#[path = "../src/contender_filter.rs"]
mod contender_filter;
#[path = "../src/contender_name.rs"]
mod contender_name;

use libfuzzer_sys::fuzz_target;

use admission::{Decision, Family, decide, standings};
use contender_filter::ContenderFilter;
use contender_name::{Kind, is_safe_sequence, kind_of, last_number, sequence_of};

/// A name that comes close to one that counts, or does not.
#[derive(Debug, arbitrary::Arbitrary)]
enum Name {
    Any(String),
    Contender { before: String, sequence: i32 },
    Nearly { before: String, behind: String },
    ManyDigits { digit: u8, count: u16 },
}

impl Name {
    fn text(self) -> String {
        match self {
            Name::Any(text) => text,
            Name::Contender { before, sequence } => format!("{before}lock-{sequence:010}"),
            Name::Nearly { before, behind } => format!("{before}lock-{behind}"),
            Name::ManyDigits { digit, count } => {
                format!("lock-{}", char::from(b'0' + digit % 10).to_string().repeat(count.into()))
            }
        }
    }
}

fuzz_target!(|input: (Vec<Name>, u8)| {
    let (names, mine) = input;
    let children: Vec<String> = names.into_iter().map(Name::text).collect();
    for child in &children {
        if let Some(sequence) = sequence_of(child, Kind::Lock) {
            let printed = i32::try_from(sequence).map(|sequence| format!("lock-{sequence:010}"));
            assert!(printed.is_ok_and(|printed| child.ends_with(&printed)), "{child:?}");
            assert_eq!(last_number(child), Some(sequence));
            let _ = is_safe_sequence(sequence);
        }
        let _ = kind_of(child);
    }
    let mutex = Family::Exclusive(ContenderFilter::Curator);
    for family in [Family::ReadWrite, Family::Leases, Family::Exclusive(ContenderFilter::Inclusive)] {
        let _ = (family.other_recipe(&children), standings(&children, &family));
    }
    let queue: Vec<_> = standings(&children, &mutex).into_iter().map(|(name, _)| name).collect();
    assert!(queue.is_sorted());
    let Some(mine) = children.get(usize::from(mine)) else {
        return;
    };
    let place = queue.iter().position(|contender| contender.as_str() == mine);
    match (decide(&children, mine, &mutex), place) {
        (Decision::Gone, None) | (Decision::Admitted, Some(0)) => {}
        (Decision::WaitFor { predecessor, head, .. }, Some(place)) => {
            assert_eq!((&predecessor, &head), (&queue[place - 1], &queue[0]));
        }
        other => panic!("{mine:?} in {children:?}: {other:?}"),
    }
});
