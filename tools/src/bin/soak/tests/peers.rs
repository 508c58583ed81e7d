//! In a mixed fleet a finding is of the library that was wrong. Times are in milliseconds.

use super::script::{PEER, evidence, logs, verdict};
use crate::checker::{Kind, judge};

/// How often this crate was wrong, and how often the peer was.
fn wrong(text: &str) -> [usize; 2] {
    let verdict = verdict(&logs(text), &[]);
    let [ours, peers] = [None, Some(PEER)].map(|peer| verdict.of(peer).findings.len());
    assert_eq!(verdict.count(Kind::Double), ours, "{text}");
    assert_eq!(verdict.is_clean(), ours == 0, "{text}");
    [ours, peers]
}

#[test]
fn an_overlap_is_of_the_side_that_believed_wrongly() {
    for (text, expected) in [
        ("0 10-30#5 | 1 curator 31-40#6", [0, 0]),
        // The node of the older hold was deleted when the younger one was admitted.
        ("0 10-50#5 | 1 curator 20-40#6", [1, 0]),
        ("0 curator 10-50#5 | 1 20-40#6", [0, 1]),
        ("0 curator 10-50#5 | 1 20#6 b20#6@4 c21-40#6", [0, 1]),
        ("0 curator 10-50#5 | 1 curator 20-40#6", [0, 1]),
        // It was there.
        ("0 curator 10-50#5 | 1 20#6 b20#6@5 c21-40#6", [1, 0]),
        ("0 10-50#5 | 1 curator 20#6 b20#6@5 c21-40#6", [0, 1]),
        // The older one claims after the younger one did.
        ("0 curator 30-40#5 | 1 10-20#6", [0, 1]),
        ("0 curator 30-40#5 | 1 10#6 b10#6@5 c11-20#6", [1, 0]),
        // A yes after a no.
        ("0 curator 10#5 y10#5 n20#5 y30#5", [0, 1]),
    ] {
        assert_eq!(wrong(text), expected, "{text}");
    }
}

#[test]
fn a_node_that_a_peer_left_is_an_orphan_of_the_peer() {
    let mut evidence = evidence(&logs("0 10-20#5 | 1 curator 21-30#6"), &[]);
    evidence.left = vec![("/7".to_owned(), Some(PEER.to_owned()))];
    let verdict = judge(&evidence);
    assert!(verdict.is_clean(), "{:?}", verdict.findings);
    assert_eq!(verdict.of(Some(PEER)).findings[0].kind, Kind::Orphan);
}
