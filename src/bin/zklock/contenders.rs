//! Who holds a lock and who waits, of whatever recipe.

use futures_util::try_join;
use zookeeper_recipes::{
    AcquireError, ContenderFilter, Curator, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, LeaderLatch, Participant,
};

use crate::exit::Failure;
use crate::text;

/// What a contender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Read,
    Write,
    Lease,
    Leader,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
            Self::Lease => "lease",
            Self::Leader => "leader",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// From 1, in the queue of its recipe.
    pub(crate) place: usize,
    pub(crate) kind: Kind,
    pub(crate) participant: Participant,
}

/// What a request to give it back leaves in place of an identity.
const REVOKED: &[u8] = b"__REVOKE__";

impl Contender {
    /// The name of its node.
    pub(crate) fn node(&self) -> &str {
        self.participant.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether somebody has asked it to give the lock back.
    pub(crate) fn is_revoked(&self) -> bool {
        self.participant.data == REVOKED
    }

    /// Who it says it is, safe for a terminal; nothing once that was replaced.
    pub(crate) fn identity(&self) -> Option<String> {
        match &self.participant.data[..] {
            b"" | REVOKED => None,
            data => Some(text::shown(data)),
        }
    }

    /// The same, or what else tells it.
    pub(crate) fn who(&self) -> String {
        let session = || format!("session {}", text::session(self.participant.session));
        self.identity().unwrap_or_else(session)
    }

    /// How long its node has been there, as far as the clocks agree.
    pub(crate) fn age(&self) -> String {
        text::age(text::since(self.participant.since))
    }

    /// Whether this is what is meant: the name of the node, or as much of its path as one likes.
    pub(crate) fn is_called(&self, node: &str) -> bool {
        is_end_of(&self.participant.path, node)
    }
}

/// Whether `end` is the last segments of the path, or all of it.
fn is_end_of(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// All who hold `path` or wait for it, in their order; by their recipes, where there are several.
///
/// What the recipe is, is told by the names of the nodes. Of a semaphore nobody tells the limit: who stands first in
/// its queue and has made a lease counts as waiting, all other leases are held.
pub(crate) async fn contenders(curator: &Curator, path: &str) -> Result<Vec<Contender>, Failure> {
    let mutex = InterProcessMutex::new(curator, path)?.with_filter(ContenderFilter::Inclusive)?;
    let lock = InterProcessReadWriteLock::new(curator, path)?;
    // As if there was one lease, so that who waits is told from who holds.
    let semaphore = InterProcessSemaphore::new(curator, path, 1)?;
    let latch = LeaderLatch::new(curator, path)?;
    let (mut mutex, lock, semaphore, latch) = try_join!(
        mutex.participants(),
        lock.participants(),
        semaphore.participants(),
        latch.participants()
    )
    .map_err(|error| failure(path, error))?;
    let kazoo_kinds = kazoo(&mut mutex);
    let kinds = |participants: &[Participant]| participants.iter().map(kind_of).collect();
    let families: [(Vec<Participant>, Vec<Kind>); 4] = [
        (mutex, kazoo_kinds),
        {
            let kinds = kinds(&lock);
            (lock, kinds)
        },
        {
            let kinds = vec![Kind::Lease; semaphore.len()];
            (semaphore, kinds)
        },
        {
            let kinds = vec![Kind::Leader; latch.len()];
            (latch, kinds)
        },
    ];
    let all = families.into_iter().flat_map(|(participants, kinds)| {
        let placed = participants.into_iter().zip(kinds).enumerate();
        placed.map(|(before, (participant, kind))| Contender {
            place: before + 1,
            kind,
            participant,
        })
    });
    Ok(all.collect())
}

fn failure(path: &str, error: AcquireError) -> Failure {
    match error {
        AcquireError::NoAuth { path, operation, .. } => {
            Failure::unavailable(format!("no permission to {operation} {path}"))
        }
        AcquireError::Session { source, .. } => {
            Failure::unavailable(format!("cannot read {path}: {}", crate::exit::chain(&source)))
        }
        error => error.into(),
    }
}

fn kind_of(participant: &Participant) -> Kind {
    let name = participant.path.rsplit('/').next().unwrap_or_default();
    if name.contains("__READ__") || name.contains("__rlock__") {
        Kind::Read
    } else if name.contains("__WRIT__") {
        Kind::Write
    } else {
        Kind::Mutex
    }
}

/// kazoo's readers stand in the queue of its mutexes, and hold together when nobody else is before them.
fn kazoo(queue: &mut [Participant]) -> Vec<Kind> {
    let kinds: Vec<_> = queue.iter().map(kind_of).collect();
    let readers = kinds.iter().take_while(|kind| **kind == Kind::Read).count();
    for reader in &mut queue[..readers] {
        reader.holds = true;
    }
    kinds
}

/// `held by host:123 for 3m 2s`; `held by 3, the first host:123 for 3m 2s`.
pub(crate) fn held_by(contenders: &[Contender]) -> String {
    let mut holders = contenders.iter().filter(|contender| contender.participant.holds);
    let Some(first) = holders.next() else { return "nobody holds it now".to_owned() };
    let who = format!("{} for {}", first.who(), first.age());
    match holders.count() {
        0 => format!("held by {who}"),
        more => format!("held by {}, the first {who}", more + 1),
    }
}

/// Those who are meant: that one, or all who hold.
pub(crate) fn chosen(contenders: Vec<Contender>, node: Option<&str>) -> Vec<Contender> {
    let is_meant = |contender: &Contender| match node {
        Some(node) => contender.is_called(node),
        None => contender.participant.holds,
    };
    contenders.into_iter().filter(is_meant).collect()
}

/// Refuses what cannot be the name of a contender's node, which is never there.
pub(crate) fn check_name(node: Option<&str>) -> Result<(), Failure> {
    match node.filter(|node| !ends_in_sequence(node)) {
        None => Ok(()),
        Some(node) => {
            let node = text::visible(node.as_bytes());
            Err(Failure::usage(format!(
                "--node {node}: no name of a contender's node; see zklock ls"
            )))
        }
    }
}

/// Ten digits, or nine behind the sign of a counter that has wrapped; it may be that more of them stand before.
fn ends_in_sequence(node: &str) -> bool {
    node.bytes().rev().take_while(u8::is_ascii_digit).count() >= 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_called_by_its_name_or_more_of_its_path() {
        let path = "/limits/import/leases/x-lease-0000000007";
        for end in [path, "x-lease-0000000007", "leases/x-lease-0000000007"] {
            assert!(is_end_of(path, end), "{end}");
        }
        for end in
            ["0000000007", "lease-0000000007", "es/x-lease-0000000007", "/y/x-lease-0000000007"]
        {
            assert!(!is_end_of(path, end), "{end}");
        }
    }

    #[test]
    fn what_cannot_be_a_contenders_name_is_refused() {
        for name in ["x-lock-0000000007", "x-lock--000000007", "/jobs/a/x-lock-0000000007"] {
            assert!(check_name(Some(name)).is_ok(), "{name}");
        }
        for name in ["", "nightly", "host:123", "x-lock-"] {
            assert_eq!(check_name(Some(name)).unwrap_err().code(), crate::exit::USAGE, "{name}");
        }
        assert!(check_name(None).is_ok());
    }
}
