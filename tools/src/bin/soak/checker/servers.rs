//! What no client can have done: the servers lost what they had confirmed.
//!
//! A node that follows another in the order of transactions has a greater number, if their parent is never made again.
//! If it has not, then the transactions in between are gone, and with them whatever was written there: what else is found
//! is then found of the servers first (ZOOKEEPER-4646 and ZOOKEEPER-4712 are such errors of theirs).

use super::holds::Hold;
use crate::log::{Mode, Node};

/// What tells of it. `holds` are in the order of their tokens.
pub(super) fn went_back(holds: &[Hold]) -> Vec<String> {
    // A read beside a write has the number of that.
    let own = holds.iter().filter(|hold| hold.mode != Mode::Beside);
    let mut numbers: Vec<_> =
        own.filter_map(|hold| Some((number(hold.nodes.first()?)?, hold))).collect();
    numbers.dedup_by(|(_, next), (_, one)| next.is_again(one));
    let back = numbers.windows(2).filter(|pair| pair[1].0 <= pair[0].0);
    back.map(|pair| {
        let ((before, one), (number, other)) = (pair[0], pair[1]);
        format!("number {number} for {} came after {before} for {}", other.name(), one.name())
    })
    .collect()
}

/// Right under the path of the lock, which stays. Others are under parents that come and go.
fn number(node: &Node) -> Option<i32> {
    let name = node.path.as_ref()?.strip_prefix(&node.lock)?.strip_prefix('/')?;
    if name.contains('/') {
        return None;
    }
    name.get(name.len().checked_sub(10)?..)?.parse().ok()
}
