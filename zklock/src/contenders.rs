//! The holders and the waiters of a lock of any recipe.

use std::ops::Deref;
use std::time::SystemTime;

use futures_util::try_join;
use serde::Serialize;
use zookeeper_recipes::interop::{ContenderFilter, ContenderKind};
use zookeeper_recipes::{Curator, Error, FencingToken, InterProcessMutex, Participant};

use crate::exit::Failure;
use crate::records;
use crate::text;
use crate::tree;

/// The kind of hold that a contender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Read,
    Write,
    Lease,
    Leader,
}

impl Kind {
    /// Derives the kind from the name of the contender's node alone.
    pub(crate) fn of(participant: &Participant) -> Self {
        match participant.kind() {
            Some(ContenderKind::Read | ContenderKind::KazooRead) => Self::Read,
            Some(ContenderKind::Write) => Self::Write,
            _ => Self::Mutex,
        }
    }

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the kind that stands for all kinds of its queue.
    pub(crate) fn queue(self) -> Self {
        if self == Self::Read { Self::Write } else { self }
    }

    /// Returns the recipe, as a noun.
    pub(crate) fn recipe(self) -> &'static str {
        match self {
            Self::Mutex => "a mutex",
            Self::Read => "a read lock",
            Self::Write => "a write lock",
            Self::Lease => "a semaphore",
            Self::Leader => "an election",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// The place in the queue of the contender's recipe, from 1.
    pub(crate) place: usize,
    pub(crate) kind: Kind,
    pub(crate) participant: Participant,
}

impl Deref for Contender {
    type Target = Participant;

    fn deref(&self) -> &Participant {
        &self.participant
    }
}

impl Contender {
    /// Returns the contender's identity, or else its session.
    pub(crate) fn who(&self) -> String {
        who(self)
    }

    /// Returns true if kazoo's recipes count the contender.
    pub(crate) fn is_of_kazoo(&self) -> bool {
        use ContenderKind::{KazooLock, KazooRead};
        matches!(self.kind(), Some(KazooLock | KazooRead))
    }

    /// Identifies the contender's queue among those of a path; kazoo has its own.
    pub(crate) fn queue(&self) -> (Kind, bool) {
        let is_of_kazoo = self.is_of_kazoo();
        let kind = match self.kind {
            Kind::Read if is_of_kazoo => Kind::Mutex,
            kind => kind.queue(),
        };
        (kind, is_of_kazoo)
    }

    /// Returns the same node as it is in `all`, or unchanged if it no longer exists.
    pub(crate) fn among(&self, all: &[Self]) -> Self {
        let is_it =
            |other: &&Self| other.node == self.node && other.fencing_token == self.fencing_token;
        all.iter().find(is_it).unwrap_or(self).clone()
    }

    /// Returns the time since the contender queued by the clock of this machine, which is not the time since it holds: no server
    /// knows that.
    pub(crate) fn queued(&self) -> String {
        let since = self.since.map(|since| text::between(since, SystemTime::now()));
        since.map_or_else(|| "an unknown time".to_owned(), text::age)
    }
}

/// Returns the participant's identity, or else its session.
pub(crate) fn who(participant: &Participant) -> String {
    let session = || format!("session {}", text::session(participant.session_id));
    identity(participant).unwrap_or_else(session)
}

/// Returns the identity that the participant gave, safe for a terminal; `None` once that was replaced.
pub(crate) fn identity(participant: &Participant) -> Option<String> {
    participant.identity.as_ref().map(|_| text::shown(participant.data()))
}

/// Returns the participant's fencing token; `0` if its node may not be read.
pub(crate) fn token(participant: &Participant) -> String {
    participant.fencing_token.map_or_else(|| "0".to_owned(), |token| token.to_string())
}

/// A holder or a waiter, as JSON for programs.
#[derive(Serialize)]
pub(crate) struct Entry<'a> {
    /// `None` also once a revocation request has replaced it.
    identity: Option<&'a str>,
    session: String,
    /// When the contender queued, by the servers' clock. `None`, like the seconds since and the token, if the node may not be read
    /// and the server does not report them.
    queued_at: Option<String>,
    /// By the clock of this machine.
    queued_seconds: Option<u64>,
    token: Option<i64>,
    node: &'a str,
    path: &'a str,
    revocation_requested: bool,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(participant: &'a Participant) -> Self {
        let Participant { identity, session_id, since, fencing_token, .. } = participant;
        Self {
            identity: identity.as_deref(),
            session: text::session(*session_id),
            queued_at: since.map(text::time),
            queued_seconds: since.map(|since| text::between(since, SystemTime::now()).as_secs()),
            token: fencing_token.map(FencingToken::value),
            node: participant.node_name(),
            path: &participant.node,
            revocation_requested: participant.revocation_requested(),
        }
    }
}

/// Returns true if `end` is the last segments of the path, or all of it.
fn is_end_of(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Returns all holders and waiters of `path` in their order, by recipe if there are several.
///
/// The names of the nodes show the recipe. No node records the limit of a semaphore: the first contender in its queue
/// counts as waiting even if it has created a lease, and all other leases count as held.
pub(crate) async fn contenders(curator: &Curator, path: &str) -> Result<Vec<Contender>, Error> {
    let any = of_any_recipe(curator, path)?;
    // A limit of one lease tells the waiters from the holders.
    let semaphore = curator.semaphore(path, 1)?;
    let (any, semaphore) = try_join!(any.participants(), semaphore.participants())?;
    // These queues do not see each other, unless they are configured to.
    let queue = |kinds: &[ContenderKind]| {
        let is_of_it = |one: &&Participant| one.kind().is_some_and(|kind| kinds.contains(&kind));
        let mut queue: Vec<_> = any.iter().filter(is_of_it).cloned().collect();
        // Readers hold the lock together if they are ahead of all others.
        let readers = queue.iter().take_while(|one| Kind::of(one) == Kind::Read).count();
        for (place, one) in queue.iter_mut().enumerate() {
            one.holds = place < readers.max(1);
        }
        queue
    };
    use ContenderKind::{KazooLock, KazooRead, Latch, Lock, Read, Write};
    let queues = [
        (queue(&[Lock]), None),
        (queue(&[KazooLock, KazooRead]), None),
        (queue(&[Read, Write]), None),
        (semaphore, Some(Kind::Lease)),
        (queue(&[Latch]), Some(Kind::Leader)),
    ];
    let all = queues.into_iter().flat_map(|(participants, kind)| {
        participants.into_iter().enumerate().map(move |(before, participant)| Contender {
            place: before + 1,
            kind: kind.unwrap_or_else(|| Kind::of(&participant)),
            participant,
        })
    });
    Ok(all.collect())
}

/// Returns a mutex whose participants are those of all recipes with nodes directly below the path.
pub(crate) fn of_any_recipe(curator: &Curator, path: &str) -> Result<InterProcessMutex, Error> {
    curator.mutex(path)?.with_filter(ContenderFilter::custom("any recipe", |_| true))
}

/// Returns true if there are mutexes of two kinds, which do not see each other by themselves.
pub(crate) fn are_strangers(contenders: &[Contender]) -> bool {
    let mutexes = || contenders.iter().filter(|one| matches!(one.kind, Kind::Mutex | Kind::Read));
    mutexes().any(Contender::is_of_kazoo) && mutexes().any(|one| !one.is_of_kazoo())
}

/// The message about mutexes of two kinds.
pub(crate) const STRANGERS: &str = "contenders of Curator and of kazoo are there, which keep each other out only if they \
                                    are set up to: each is shown in the queue of its kind";

/// `held by host:123, queued 3m 2s ago`; `held by 3, the first host:123, queued 3m 2s ago`.
pub(crate) fn held_by(contenders: &[Contender]) -> String {
    let mut holders = contenders.iter().filter(|contender| contender.holds);
    let Some(first) = holders.next() else { return "nobody holds it now".to_owned() };
    let who = format!("{}, queued {} ago", first.who(), first.queued());
    match holders.count() {
        0 => format!("held by {who}"),
        more => format!("held by {}, the first {who}", more + 1),
    }
}

/// Returns the chosen contenders: the named one, or all holders.
pub(crate) fn chosen(contenders: Vec<Contender>, node: Option<&str>) -> Vec<Contender> {
    let is_meant = |contender: &Contender| match node {
        Some(node) => is_end_of(&contender.node, node),
        None => contender.holds,
    };
    contenders.into_iter().filter(is_meant).collect()
}

/// Where the contenders of a key are.
const BELOW: &str = "the runs of its keys are at PATH/runs/KEY, see zklock ls";

/// The message if no contender was chosen.
pub(crate) async fn nobody(curator: &Curator, path: &str, node: Option<&str>) -> String {
    match node {
        Some(node) if node.starts_with("runs/") => format!("{node} is not at {path}: {BELOW}"),
        Some(node) => format!("{node} is not at {path}"),
        None if !records::runs(curator, path).await.is_empty() => {
            format!("nobody holds {path}: {BELOW}")
        }
        None => match tree::in_place_of_a_lock(curator, path).await {
            Some(other) => other,
            None => format!("nobody holds {path}"),
        },
    }
}

/// Rejects a name that no contender's node can have.
pub(crate) fn check_name(node: Option<&str>) -> Result<(), Failure> {
    match node.filter(|node| !ends_in_sequence(node)) {
        None => Ok(()),
        Some(node) => Err(Failure::usage(format!(
            "--node {node}: no name of a contender's node; see zklock ls"
        ))),
    }
}

/// Returns true for ten final digits, or nine after the sign of a counter that has wrapped. More digits may come
/// before them.
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
