//! The answers of the library to a task: whether something explains each error, and each lock that is busy.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::simulation::Process;
use zookeeper_recipes::{Error, ErrorKind, Loss, Released};

use crate::judge::{Access, Judge, State, Znode};
use crate::simulated_task::Failed;

/// How long a trouble that is over, or a deletion, still explains an error.
/// The pauses between attempts to open a session grow to ten seconds.
const AFTERMATH: Duration = Duration::from_secs(12);

/// How early the clock of a process ends a wait of two seconds, which is the longest.
const DRIFT: Duration = Duration::from_millis(70);

/// How long the news of a deletion takes while nothing is wrong, and how long it can take otherwise.
const NEWS: Duration = Duration::from_millis(200);
const STALE: Duration = Duration::from_secs(120);

/// A call that a task awaits, or has awaited and now holds by.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) process: Process,
    /// The name of the process, which the one that takes its place has as well.
    pub(crate) member: String,
    /// Its session, when it asked.
    pub(crate) session: i64,
    pub(crate) path: String,
    pub(crate) since: Instant,
    pub(crate) patience: Patience,
    /// Whether it is for several locks one after the other, as a semaphore's mutex and its leases.
    pub(crate) several: bool,
    pub(crate) access: Access,
    /// Whether its retry policy has an end.
    pub(crate) gives_up: bool,
    /// Whether a broken connection ends its hold.
    pub(crate) suspended: bool,
    /// Whether another contender kept the call out at some instant.
    pub(crate) contended: bool,
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Try,
    /// A limit of zero: a try that waits for no connection.
    Zero,
    Within(Duration),
    Forever,
    /// It writes data, and no lock.
    Write,
}

impl Ask {
    /// Whether one of these nodes keeps the call out. With company, which is another task of the process that holds or
    /// waits at the path, a node of its own session does so as well. Without, such a node is about to be deleted, and keeps
    /// the call out only where the delete is lost.
    fn is_kept_out<'a>(
        &self,
        nodes: impl Iterator<Item = (&'a str, &'a Znode)>,
        has_company: bool,
    ) -> bool {
        let foreign = nodes.filter(|(_, znode)| has_company || znode.owner != self.session);
        match self.access {
            Access::Alone => foreign.count() > 0,
            Access::Shared => foreign.filter(|(node, _)| !node.contains("__READ__")).count() > 0,
            Access::UpTo(most) => {
                let (leases, locks): (Vec<_>, Vec<_>) =
                    foreign.partition(|(node, _)| node.contains("/leases/"));
                leases.len() >= most || !locks.is_empty() || has_company
            }
        }
    }
}

/// The error type of a call.
pub(crate) trait Cause {
    /// The library's own error. `None` if the body returned an error.
    fn error(&self) -> Option<&Error>;
}

impl Cause for Error {
    fn error(&self) -> Option<&Error> {
        Some(self)
    }
}

impl Cause for Failed {
    fn error(&self) -> Option<&Error> {
        match self {
            Self::Body => None,
            Self::Lock(error) => Some(error),
        }
    }
}

/// The outcome of a try: `None` if the lock is busy.
pub(crate) fn acquired<T, E: Cause>(tried: Result<T, E>) -> Result<Option<T>, E> {
    match tried {
        Err(error) if error.error().is_some_and(Error::is_busy) => Ok(None),
        tried => tried.map(Some),
    }
}

impl State {
    /// Whether something was wrong since then, or shortly before.
    fn troubled(&self, since: Instant) -> bool {
        let (now, _, changed) = self.wrong;
        now > 0 || changed.is_some_and(|changed| changed + AFTERMATH >= since)
    }

    /// Whether an operator deleted a node below the path since then, or shortly before.
    fn operated(&self, path: &str, since: Instant) -> bool {
        let below = self.deleted.range(format!("{path}/")..format!("{path}0"));
        let mut times = below.filter_map(|(_, gone)| *gone);
        times.any(|gone| gone + AFTERMATH >= since)
    }

    /// Whether an error is one that the library may return.
    fn explains(&self, error: &Error, ask: &Ask) -> bool {
        let troubled = self.troubled(ask.since);
        match (error.kind(), error.loss()) {
            (ErrorKind::Lost, Some(Loss::NodeDeleted)) => {
                troubled || self.operated(&ask.path, ask.since)
            }
            (ErrorKind::Lost, Some(Loss::Closed) | None) => false,
            (ErrorKind::Lost, Some(Loss::Suspended)) => ask.suspended && troubled,
            (ErrorKind::Lost, Some(_)) => troubled,
            // A node that an operator deleted is created again as a retry.
            (ErrorKind::Unavailable, _)
                if ask.gives_up && (troubled || self.operated(&ask.path, ask.since)) =>
            {
                true
            }
            (ErrorKind::Unavailable, _) => match ask.patience {
                // Nothing comes in so little time.
                Patience::Within(limit) if limit < Duration::from_millis(500) => true,
                // The last of several may have had no time left.
                Patience::Within(limit) => {
                    (troubled || ask.several) && ask.since.elapsed() + DRIFT >= limit
                }
                // The connection timeout of a process.
                Patience::Try => troubled && ask.since.elapsed() >= Duration::from_secs(60),
                // Without a session there is no connection.
                Patience::Zero => troubled || ask.session == 0,
                Patience::Forever | Patience::Write => false,
            },
            // A job that runs once writes its record.
            (ErrorKind::OutcomeUnknown, _) => {
                troubled && (ask.patience == Patience::Write || ask.path.contains("/runs/"))
            }
            (ErrorKind::NotFound | ErrorKind::AlreadyExists, _) => ask.patience == Patience::Write,
            _ => false,
        }
    }
}

impl Judge {
    /// A task calls the library.
    pub(crate) fn asks(&self, task: &str, ask: Ask) {
        let mut state = self.state();
        let path = format!("{}/", ask.path);
        state.asks.insert(task.to_owned(), ask);
        self.contends(&mut state, &path);
    }

    /// A task or a node has come to contend at a path.
    pub(crate) fn contends(&self, state: &mut State, path: &str) {
        let nodes = self.nodes();
        let troubled = |ask: &Ask| state.troubled(ask.since);
        let State { asks, history, .. } = &*state;
        let is_at =
            |ask: &Ask| path.strip_prefix(&ask.path).is_some_and(|rest| rest.starts_with('/'));
        let mut contended = Vec::new();
        for (task, ask) in asks.iter().filter(|(_, ask)| !ask.contended && is_at(ask)) {
            // A task that leaves in the instant of the try may not have sent its delete yet.
            let place = (ask.member.clone(), ask.path.clone());
            let left = state.idle_since.get(&place);
            let is_leaving = left.is_some_and(|left| *left >= ask.since);
            let has_company = is_leaving
                || asks.iter().any(|(other, of)| {
                    other != task && of.member == ask.member && of.path == ask.path
                });
            let there = nodes.range(format!("{}/", ask.path)..format!("{}0", ask.path));
            let there = there.filter_map(|node| Some((node.as_str(), history.get(node)?)));
            if ask.is_kept_out(there, has_company || troubled(ask)) {
                contended.push(task.clone());
            }
        }
        for task in contended {
            state.asks.entry(task).and_modify(|ask| ask.contended = true);
        }
    }

    /// A process stands still, or goes on.
    pub(crate) fn pauses(&self, process: usize, is_paused: bool) {
        let until = (!is_paused).then(Instant::now);
        self.state().paused.insert(format!("process {process}"), until);
    }

    /// A call with a deadline has come to its end.
    pub(crate) fn returns(&self, task: &str) {
        let mut state = self.state();
        let Some(ask) = state.asks.get(task) else { return };
        let Patience::Within(limit) = ask.patience else { return };
        let stood = state.paused.get(&ask.member);
        let stood = stood.is_some_and(|until| until.is_none_or(|until| until >= ask.since));
        let waited = ask.since.elapsed();
        if waited > limit + DRIFT && !stood {
            let failure =
                format!("late: {task} waited for {} for {waited:?} of {limit:?}", ask.path);
            state.counts.answers += 1;
            state.fails(failure);
        }
    }

    /// Whether another task of the process holds or waits where this one does.
    pub(crate) fn has_company(&self, task: &str) -> bool {
        let state = self.state();
        let Some(ask) = state.asks.get(task) else { return true };
        let mut others = state.asks.iter().filter(|(other, _)| *other != task);
        others.any(|(_, other)| other.member == ask.member && other.path == ask.path)
    }

    /// A hold by these nodes was released. They may be kept for others of the process, or for later.
    pub(crate) fn released(&self, task: &str, nodes: &[String], released: Released, is_kept: bool) {
        let left = nodes.iter().find(|node| self.has(node));
        let mut state = self.state();
        let Some(ask) = state.asks.get(task) else { return };
        let is_so = match released {
            Released::Confirmed => is_kept || left.is_none(),
            Released::Pending => state.troubled(ask.since),
            _ => false,
        };
        if !is_so {
            state.counts.answers += 1;
            state.fails(format!("release: {task} is told {released:?}, with {left:?} left"));
        }
    }

    /// The lock was busy.
    pub(crate) fn busy(&self, task: &str) {
        let mut state = self.state();
        let Some(ask) = state.asks.get(task) else { return };
        let (waited, path) = (ask.since.elapsed(), ask.path.as_str());
        let limit = match ask.patience {
            Patience::Within(limit) => limit,
            _ => Duration::ZERO,
        };
        // The news of a deletion takes a moment, and longer if something is wrong.
        let troubled = state.troubled(ask.since);
        let news = if troubled { STALE } else { NEWS };
        // A task whose node an operator has just deleted believes that it holds.
        let has_company = state
            .asks
            .iter()
            .any(|(other, of)| other != task && of.member == ask.member && of.path == ask.path);
        let recent = state.history.range(format!("{path}/")..format!("{path}0"));
        let recent = recent
            .filter(|(_, znode)| znode.deleted.is_none_or(|deleted| deleted + news >= ask.since));
        let recent = recent.map(|(node, znode)| (node.as_str(), znode));
        let failure = if waited + DRIFT < limit {
            format!("busy: {task} waited for {path} only {waited:?} of {limit:?}")
        } else if !ask.contended && !ask.is_kept_out(recent, troubled || has_company) {
            format!("busy: {task} cannot have {path} after {waited:?}, though nobody has it")
        } else {
            return;
        };
        state.counts.answers += 1;
        state.fails(failure);
    }

    /// The call of a task failed, or a later call about what it got by it.
    pub(crate) fn failed(&self, task: &str, error: &Error, patience: Option<Patience>) {
        let mut state = self.state();
        let Some(ask) = state.asks.get(task) else { return };
        let patience = patience.unwrap_or(ask.patience);
        let ask = Ask { patience, ..ask.clone() };
        if !state.explains(error, &ask) {
            let since = ask.since.elapsed();
            let failure = format!("error: {task} at {} after {since:?}: {error:?}", ask.path);
            state.counts.answers += 1;
            state.fails(failure);
        }
    }

    /// The task has nothing more of its call.
    pub(crate) fn idles(&self, task: &str) {
        let mut state = self.state();
        if let Some(Ask { member, path, .. }) = state.asks.remove(task) {
            state.idle_since.insert((member, path), Instant::now());
        }
    }
}
