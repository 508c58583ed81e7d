//! What no client can have done: the servers lost what they had confirmed.
//!
//! A node that follows another in the order of transactions has a greater number, if their parent is never made again.
//! If it has not, then the transactions in between are gone, and with them whatever was written there: what else is found
//! is then found of the servers first (ZOOKEEPER-4646 and ZOOKEEPER-4712 are such errors of theirs).

use super::holds::Hold;
use crate::log::{Mode, sequence_number};

/// What tells of it. `holds` are in the order of their tokens.
pub(super) fn went_back(holds: &[Hold]) -> Vec<String> {
    // The parent of leases is deleted and made again.
    let own = holds.iter().filter(|hold| hold.mode != Mode::Lease);
    let numbers: Vec<_> =
        own.filter_map(|hold| Some((sequence_number(&hold.node)?, hold))).collect();
    let back = numbers.windows(2).filter(|pair| pair[1].0 <= pair[0].0);
    back.map(|pair| {
        let ((before, one), (number, other)) = (pair[0], pair[1]);
        format!("number {number} for {} came after {before} for {}", other.name(), one.name())
    })
    .collect()
}
