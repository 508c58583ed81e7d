//! The queue before a waiter, and how it changes. Many processes may wait and look, so a look does not read every contender.

use std::collections::HashSet;
use std::time::Duration;

use zookeeper_recipes::Curator;
use zookeeper_recipes::zookeeper_client::{Client, Stat};

use crate::contenders::{Contender, Kind, contenders};

/// The pause between two looks, and what each contender before us adds to it: many waiters together must not overload the servers.
const ASK: Duration = Duration::from_secs(2);
const ASK_EACH: Duration = Duration::from_millis(20);
/// What each pair of contenders of a semaphore adds: every waiter there reads all contenders anew.
const ASK_PAIRS: Duration = Duration::from_millis(10);

/// What a waiter knows of its queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) path: String,
    /// `None` where our node is not there (yet).
    ours: Option<Contender>,
    /// The holders, and the waiters before us.
    pub(crate) before: Vec<Contender>,
    /// The version of the set of children, for each folder of contenders.
    seen: Option<Vec<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    czxid: i64,
    cversion: i32,
}

impl Seen {
    fn of(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, cversion: stat.cversion }
    }
}

impl Queue {
    /// Reads the queue at the first path where we wait. `None` while the servers do not answer.
    pub(crate) async fn read(curator: &Curator, paths: &[String]) -> Option<Self> {
        for path in paths {
            let all = contenders(curator, path).await.ok()?;
            // Asked for after the listing, in case a new session began meanwhile.
            let session = curator.session_id().ok()?;
            let is_ours = |one: &&Contender| one.participant.session == session;
            // Our locks at the paths before it are held.
            let ours = all.iter().filter(is_ours).find(|ours| !ours.participant.holds).cloned();
            if ours.is_some() || paths.len() == 1 {
                let is_before = |one: &Contender| match &ours {
                    Some(ours) => one.queue() == ours.queue() && one.place < ours.place,
                    None => true,
                };
                let before = all.into_iter().filter(is_before).collect();
                return Some(Self { path: path.clone(), ours, before, seen: None });
            }
        }
        None
    }

    /// Waits for a while, and gives the queue as it is then.
    pub(crate) async fn later(mut self, curator: &Curator, paths: &[String]) -> Option<Self> {
        tokio::time::sleep(self.pause()).await;
        let Some(ours) = &self.ours else { return Self::read(curator, paths).await };
        if curator.session_id().ok()? != ours.participant.session {
            return Self::read(curator, paths).await;
        }
        let client = curator.client().ok()?;
        let now = self.look(&client).await?;
        if self.seen.as_ref() == Some(&now) {
            return Some(self);
        }
        if self.is_semaphore() || !self.follow(&client).await? {
            // The versions were looked up first, so no change is missed.
            let read = Self::read(curator, paths).await?;
            let seen = (read.path == self.path).then_some(now);
            return Some(Self { seen, ..read });
        }
        Some(self)
    }

    /// Our place, from 1.
    pub(crate) fn place(&self) -> Option<usize> {
        self.ours.as_ref().map(|_| self.before.len() + 1)
    }

    fn is_semaphore(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| ours.kind == Kind::Lease)
    }

    fn pause(&self) -> Duration {
        let count = u32::try_from(self.before.len()).unwrap_or(u32::MAX);
        let more = if self.is_semaphore() {
            ASK_PAIRS.saturating_mul(count.saturating_mul(count))
        } else {
            ASK_EACH.saturating_mul(count)
        };
        ASK.saturating_add(more)
    }

    /// Looks up the versions: one small answer for each folder, however many contenders it has.
    async fn look(&self, client: &Client) -> Option<Vec<Seen>> {
        let folders: &[&str] = if self.is_semaphore() { &["/leases", "/locks"] } else { &[""] };
        let mut seen = Vec::new();
        for folder in folders {
            let stat = client.check_stat(&format!("{}{folder}", self.path)).await.ok()?;
            // A missing folder makes the list shorter, which is a change.
            seen.extend(stat.as_ref().map(Seen::of));
        }
        Some(seen)
    }

    /// Removes the contenders whose names are not listed any more; no new contender comes before us. `false` if the names do not
    /// show the holder.
    async fn follow(&mut self, client: &Client) -> Option<bool> {
        let (names, stat) = client.get_children(&self.path).await.ok()?;
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        // Except a downgraded write lock: its read node has the same number.
        let numbers: HashSet<&str> = names.iter().filter_map(|name| number(name)).collect();
        let is_there = |one: &Contender| names.contains(one.node());
        let is_replaced = |one: &Contender| {
            !is_there(one) && number(one.node()).is_some_and(|number| numbers.contains(number))
        };
        if !self.ours.iter().all(is_there) || self.before.iter().any(is_replaced) {
            return Some(false);
        }
        self.before.retain(is_there);
        let Some(first) = self.before.first() else { return Some(false) };
        let readers = self.before.iter().take_while(|one| one.kind == Kind::Read).count();
        let holders = if first.kind == Kind::Read { readers } else { 1 };
        for (place, one) in self.before.iter_mut().enumerate() {
            one.place = place + 1;
            one.participant.holds = place < holders;
        }
        self.seen = Some(vec![Seen::of(&stat)]);
        Some(true)
    }
}

/// The digits at the end of a node's name.
fn number(name: &str) -> Option<&str> {
    name.get(name.len().checked_sub(10)?..)
}
