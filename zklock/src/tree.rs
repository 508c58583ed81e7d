//! `zklock ls --recursive`: the locks, elections, semaphores and groups from a path down, in a line each.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use serde::{Serialize, Serializer};
use tokio::sync::Semaphore;
use zookeeper_recipes::interop::ContenderKind;
use zookeeper_recipes::zookeeper_client::{Error as ClientError, Stat};
use zookeeper_recipes::{Curator, Error, ErrorKind};

use crate::arguments::{Ls, Sort};
use crate::contenders::{Contender, Kind, contenders};
use crate::exit::{Outcome, chain, say};
use crate::ls::array;
use crate::output::print;
use crate::text;

/// The number of paths that are listed together, and of contenders that are read together, unless one path has more of them.
/// A lock with one contender takes about six requests, and a server by default slows its clients down at 1,000 unanswered ones
/// (`globalOutstandingLimit`).
const TOGETHER: usize = 64;

/// The children of a semaphore, or of a set of slots.
const SEMAPHORE: [&str; 3] = ["locks", "leases", "slots"];
/// The children of a lock with `zklock run --once`.
const ONCE: [&str; 2] = ["runs", "done"];

pub(crate) async fn print_all(curator: &Curator, arguments: &Ls) -> Outcome {
    let mut lines = walk(curator, &arguments.path).await?;
    if arguments.waiting {
        lines.retain(|line| line.waiters > 0 || line.error.is_some());
    }
    // Lines without the time come last. The sort is stable, so the path decides between equal times.
    match arguments.sort {
        Some(Sort::Wait) => {
            lines.sort_by_key(|line| (line.oldest_wait.is_none(), line.oldest_wait))
        }
        Some(Sort::Age) => lines.sort_by_key(|line| (line.oldest_hold.is_none(), line.oldest_hold)),
        None => {}
    }
    if arguments.json {
        return print(&array(&lines.iter().map(text::json).collect::<Vec<_>>()));
    }
    if lines.is_empty() {
        let what = if arguments.waiting { "waits for a lock" } else { "holds or waits for a lock" };
        let is_missing = list(curator, &arguments.path).await?.is_none();
        let why = if is_missing { ": the path does not exist" } else { "" };
        say(&format!("nobody {what} at or below {}{why}", arguments.path));
        return Ok(0);
    }
    let header = ["PATH", "KIND", "HOLDERS", "WAITERS", "WAIT", "AGE"].map(str::to_owned);
    let rows: Vec<_> = [header].into_iter().chain(lines.iter().map(Line::row)).collect();
    print(&text::table(&rows))
}

/// Returns the message about a path without contenders that does not exist, or has other znodes below it; `None` if it is an unused
/// lock, or may not be listed.
pub(crate) async fn in_place_of_a_lock(curator: &Curator, path: &str) -> Option<String> {
    let Some((children, _)) = list(curator, path).await.ok()? else {
        return Some(format!("nothing is at {path}: the path does not exist"));
    };
    let is_other = |child: &String| {
        let is_part = SEMAPHORE.iter().chain(&ONCE).any(|part| child == part);
        !is_part && ContenderKind::of_node(child).is_none()
    };
    let text = "is a folder that nobody holds or waits for: zklock ls -r";
    let is_folder = children.iter().any(is_other);
    is_folder.then(|| format!("{path} {text} {path} lists the locks below it"))
}

/// The contenders of one kind at a path, or the reason why they are unknown.
#[derive(Default, Serialize)]
struct Line {
    path: String,
    kind: Option<&'static str>,
    holders: usize,
    waiters: usize,
    /// The time at which the waiter that waits longest queued.
    #[serde(rename = "longest_wait_seconds", serialize_with = "seconds_since")]
    oldest_wait: Option<SystemTime>,
    /// The time at which the oldest holder queued.
    #[serde(rename = "oldest_hold_seconds", serialize_with = "seconds_since")]
    oldest_hold: Option<SystemTime>,
    error: Option<String>,
}

impl Line {
    /// Counts one more holder or waiter.
    fn add(&mut self, holds: bool, since: Option<SystemTime>) {
        let (count, oldest) = if holds {
            (&mut self.holders, &mut self.oldest_hold)
        } else {
            (&mut self.waiters, &mut self.oldest_wait)
        };
        *count += 1;
        *oldest = oldest.iter().copied().chain(since).min();
    }

    fn row(&self) -> [String; 6] {
        let path = text::visible(self.path.as_bytes());
        let none = || "-".to_owned();
        if let Some(error) = &self.error {
            return [path, text::visible(error.as_bytes()), none(), none(), none(), none()];
        }
        let age = |count: usize, since: Option<SystemTime>| match since {
            Some(since) => text::age(age(since)),
            None if count == 0 => none(),
            None => "unknown".to_owned(),
        };
        [
            path,
            self.kind.unwrap_or_default().to_owned(),
            self.holders.to_string(),
            self.waiters.to_string(),
            age(self.waiters, self.oldest_wait),
            age(self.holders, self.oldest_hold),
        ]
    }
}

fn age(since: SystemTime) -> Duration {
    text::between(since, SystemTime::now())
}

fn seconds_since<S: Serializer>(since: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    since.map(|since| age(since).as_secs()).serialize(to)
}

/// Returns the lines from `root` down in the order of the paths. Each level of the tree is looked at together.
async fn walk(curator: &Curator, root: &str) -> Result<Vec<Line>, Error> {
    list(curator, root).await?; // below the root an error is a line
    let turns = Semaphore::new(TOGETHER);
    let mut lines = Vec::new();
    let mut level = vec![root.to_owned()];
    while !level.is_empty() {
        let looks = mem::take(&mut level).into_iter().map(|path| look(curator, path, &turns));
        let mut looks = stream::iter(looks).buffer_unordered(TOGETHER);
        while let Some(seen) = looks.next().await {
            let (found, below) = seen?;
            lines.extend(found);
            level.extend(below);
        }
    }
    lines.sort_by(|one, other| (&one.path, one.kind).cmp(&(&other.path, other.kind)));
    // The members of a group have a line each.
    lines.dedup_by(|next, line| {
        let is_same = (&next.path, next.kind) == (&line.path, line.kind) && next.error.is_none();
        if is_same {
            line.add(true, next.oldest_hold);
        }
        is_same
    });
    Ok(lines)
}

/// Returns the lines of a path, and the paths to look at next.
async fn look(
    curator: &Curator,
    path: String,
    turns: &Semaphore,
) -> Result<(Vec<Line>, Vec<String>), Error> {
    let (children, stat) = match list(curator, &path).await {
        Ok(Some(listed)) => listed,
        Ok(None) => return Ok(Default::default()), // it was deleted meanwhile
        Err(error) => return unreadable(path, error).map(|line| (vec![line], Vec::new())),
    };
    // An ephemeral znode that is no contender's is a member of its parent's group.
    if stat.ephemeral_owner != 0 {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let group = if parent.is_empty() { "/" } else { parent };
        let mut line = Line { path: group.to_owned(), kind: Some("group"), ..Line::default() };
        line.add(true, Some(created(&stat)));
        return Ok((vec![line], Vec::new()));
    }
    let is_contender = |child: &String| ContenderKind::of_node(child).is_some();
    let (contending, others): (Vec<_>, Vec<_>) = children.into_iter().partition(is_contender);
    let has = |name: &str| others.iter().any(|child| child == name);
    let [locks, leases, slots] = SEMAPHORE;
    let may_be_semaphore = has(locks) && has(leases);
    let mut lines = Vec::new();
    let mut is_semaphore = false;
    if !contending.is_empty() || may_be_semaphore {
        let share = contending.len().clamp(1, TOGETHER) as u32;
        let _turn = turns.acquire_many(share).await; // never closed
        match contenders(curator, &path).await {
            Ok(all) => {
                is_semaphore = all.iter().any(|one| one.kind == Kind::Lease);
                lines = tally(&path, &all, has(slots));
            }
            Err(error) => {
                is_semaphore = may_be_semaphore;
                lines = vec![unreadable(path.clone(), error)?];
            }
        }
    }
    let is_part = |child: &String| is_semaphore && SEMAPHORE.contains(&child.as_str());
    let below = others.iter().filter(|child| !is_part(child));
    let below = below.map(|child| format!("{}/{child}", path.trim_end_matches('/'))).collect();
    Ok((lines, below))
}

/// Lists the children of a path, also over a reconnection. `None` if there is no such path.
async fn list(curator: &Curator, path: &str) -> Result<Option<(Vec<String>, Stat)>, Error> {
    loop {
        if let Ok(client) = curator.client() {
            match client.get_children(path).await {
                Ok(listed) => return Ok(Some(listed)),
                Err(ClientError::NoNode) => return Ok(None),
                Err(_) => {}
            }
        }
        // The request of a recipe waits for a connection, or fails with the reason.
        curator.read_write_lock(path)?.participants().await?;
    }
}

/// Returns the line of a path that cannot be read, or the error if it is not of this path.
fn unreadable(path: String, error: Error) -> Result<Line, Error> {
    let error = match error.kind() {
        ErrorKind::PermissionDenied => "no permission".to_owned(),
        ErrorKind::InvalidInput => chain(&error),
        _ => return Err(error),
    };
    Ok(Line { path, error: Some(error), ..Line::default() })
}

/// Returns a line for each kind of contenders.
fn tally(path: &str, all: &[Contender], has_slots: bool) -> Vec<Line> {
    let mut lines = BTreeMap::new();
    for one in all {
        let kind = match one.queue() {
            (_, true) => "kazoo-lock",
            (Kind::Mutex, _) => "mutex",
            (Kind::Read | Kind::Write, _) => "read-write",
            (Kind::Lease, _) if has_slots => "slots",
            (Kind::Lease, _) => "semaphore",
            (Kind::Leader, _) => "leader",
        };
        let line = Line { path: path.to_owned(), kind: Some(kind), ..Line::default() };
        lines.entry(kind).or_insert(line).add(one.holds, one.since);
    }
    lines.into_values().collect()
}

fn created(stat: &Stat) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(stat.ctime.try_into().unwrap_or_default())
}
