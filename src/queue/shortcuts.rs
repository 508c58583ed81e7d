//! Which of the rules that save round trips are used.

use crate::queue::rules::admission::Family;

/// The rules that save round trips; all are used, and each can be switched off for the test that shows its
/// effect. What they do and why they are safe: `docs/internals/round-trips.md`.
///
/// [`CuratorBuilder::shortcuts`](crate::CuratorBuilder::shortcuts) sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, clippy::struct_excessive_bools)] // one switch for each rule
pub struct Shortcuts {
    /// The deletion of a predecessor that was the head admits without a listing.
    pub head: bool,
    /// The second in line before us is watched too, so that the head is known when it matters.
    pub stand_by: bool,
    /// Queues of one session hand over among themselves, without waiting for the server.
    pub local: bool,
    /// A create with the number that was expected needs no listing.
    pub gap: bool,
    /// `try_acquire` lists before it creates.
    pub look_first: bool,
}

impl Shortcuts {
    /// Every rule.
    pub const ALL: Self =
        Self { head: true, stand_by: true, local: true, gap: true, look_first: true };
    /// No rule: each hold has a node; its entry lists, and waits for events of the server.
    pub const NONE: Self =
        Self { head: false, stand_by: false, local: false, gap: false, look_first: false };

    /// Those that are safe in a family; the proofs are in the modules of the rules.
    pub(super) fn of(self, family: &Family) -> Self {
        let exclusive = family.is_exclusive();
        let head = self.head && !matches!(family, Family::Leases);
        let (stand_by, local) = (self.stand_by && exclusive, self.local && exclusive);
        Self { head, stand_by, local, ..self }
    }
}

impl Default for Shortcuts {
    fn default() -> Self {
        Self::ALL
    }
}
