//! The answers of the library to a task: whether something explains each error, and each lock that is busy.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::simulation::Process;
use zookeeper_recipes::{Error, ErrorKind, Loss, Released};

use crate::judge::{Access, Judge, State, Znode};
use crate::plan::Recipe;
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
    pub(crate) recipe: Recipe,
    pub(crate) access: Access,
    /// The number of permits, of a semaphore.
    pub(crate) wants: usize,
    /// Whether the call has returned, or its body runs.
    pub(crate) answered: bool,
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

/// A node of a contender, with its path.
type Node<'a> = (&'a str, &'a Znode);

/// All that may keep a call out at one instant.
struct Around<'a> {
    /// The nodes below the path.
    nodes: Vec<Node<'a>>,
    /// The calls of other tasks at the path, those of the own process and those of other processes.
    company: Vec<&'a Ask>,
    others: Vec<&'a Ask>,
    state: &'a State,
    /// Whether something is wrong. A delete may be lost then, and a server may show nodes that are deleted.
    is_troubled: bool,
}

impl Ask {
    /// Whether it is for several locks one after the other, as a semaphore's mutex and its leases.
    fn is_for_several(&self) -> bool {
        matches!(self.recipe, Recipe::Multi | Recipe::Semaphore(_) | Recipe::Slots(_))
    }

    fn is_try(&self) -> bool {
        matches!(self.patience, Patience::Try | Patience::Zero)
    }

    /// Whether the library may say that the lock is busy. A semaphore's call is kept out if too few permits are free, a read
    /// by a writer that came before it, and every other call by any contender that came before it.
    ///
    /// A node of the own session counts only with company, which is another task of the process that holds or waits at the
    /// path. Without company such a node is about to be deleted, and keeps the call out only where the delete is lost.
    fn is_kept_out(&self, around: &Around<'_>) -> bool {
        let mut nodes = around.nodes.iter();
        match (self.recipe, self.access) {
            (Recipe::Semaphore(limit) | Recipe::Slots(limit), _) => {
                self.finds_too_few(limit, around)
            }
            (_, Access::Shared) => {
                let has_company = around.company.iter().any(|ask| ask.access != Access::Shared);
                nodes.any(|node| {
                    node.0.contains("__WRIT__") && self.is_behind(*node, has_company, around)
                })
            }
            _ => nodes.any(|node| self.is_behind(*node, !around.company.is_empty(), around)),
        }
    }

    /// Whether the node came before the call. With company, each node of the own session counts as such a node.
    fn is_behind(&self, node: Node<'_>, has_company: bool, around: &Around<'_>) -> bool {
        if node.1.owner == self.session {
            return has_company || around.is_troubled;
        }
        self.entered(node.0, around).is_none_or(|entered| node.1.zxid < entered)
    }

    /// The transaction that created the call's own node beside this one. `None` if the call has no node there, or if a node of
    /// the session may be another call's.
    fn entered(&self, beside: &str, around: &Around<'_>) -> Option<i64> {
        if around.is_troubled || !around.company.is_empty() {
            return None;
        }
        // The node of a call that a task has just dropped may be created late.
        let place = (self.member.clone(), self.path.clone());
        let left = around.state.idle_since.get(&place).map(|left| *left + NEWS);
        let is_own = |node: &&Node<'_>| {
            let (path, znode) = **node;
            znode.owner == self.session
                && znode.created >= self.since
                && left.is_none_or(|left| left < znode.created)
                && parent(path) == parent(beside)
        };
        around.nodes.iter().filter(is_own).map(|(_, znode)| znode.zxid).max()
    }

    /// Whether fewer permits are free than the call asks for. Those that are held are not free, and neither are those that the
    /// callers before it ask for. A node under `leases` is one permit, of a holder or of a caller that enters. A node under
    /// `locks` is a caller that enters, and does not say how many permits it asks for, nor which task of its process it is: it
    /// stands for all calls of the process that are not answered.
    ///
    /// The limit of a semaphore is fixed here. With a live one, the smallest limit of the call would decide.
    fn finds_too_few(&self, limit: usize, around: &Around<'_>) -> bool {
        // A holder of an index has a permit as well.
        let is_foreign =
            |node: &Node<'_>| node.1.owner != self.session && !node.0.contains("/slots/");
        let foreign = around.nodes.iter().copied().filter(is_foreign);
        let (leases, locks): (Vec<_>, Vec<_>) = foreign.partition(|node| is_lease(node.0));
        let before = locks.into_iter().filter(|node| self.is_behind(*node, false, around));
        let before: Vec<_> = before.collect();
        // The node of a call that was dropped may be there for long.
        if around.is_troubled && !around.nodes.is_empty() {
            return true;
        }
        // A deadline may also end behind a caller that leaves enough permits.
        let is_behind_any = !before.is_empty() || !around.company.is_empty();
        if is_behind_any && !self.is_try() {
            return true;
        }
        let of_process: usize = around.company.iter().map(|ask| ask.wants).sum();
        let mut taken = of_process + leases.len();
        for (_, lock) in before {
            if !around.state.is_alive(lock.owner) {
                // The node of a dead caller stays until its session ends.
                return true;
            }
            // A task that asked before its process had a session may have this one now.
            let is_entering =
                |ask: &&&Ask| !ask.answered && (ask.session == lock.owner || ask.session == 0);
            let entering: Vec<_> = around.others.iter().filter(is_entering).collect();
            let wanted: usize = entering.iter().map(|ask| ask.wants).sum();
            // Some of the permits that they ask for have nodes already.
            let since = entering.iter().map(|ask| ask.since).min();
            let is_theirs = |node: &&Node<'_>| {
                node.1.owner == lock.owner
                    && since.is_some_and(|since| node.1.created >= since)
                    && !around.state.is_held(node.0)
            };
            taken += wanted.saturating_sub(leases.iter().filter(is_theirs).count());
        }
        taken + self.wants > limit
    }
}

fn parent(node: &str) -> Option<&str> {
    node.rsplit_once('/').map(|(parent, _)| parent)
}

fn is_lease(node: &str) -> bool {
    node.contains("/leases/")
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
        let mut times = below.filter_map(|(_, strike)| strike.gone);
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
                    (troubled || ask.is_for_several()) && ask.since.elapsed() + DRIFT >= limit
                }
                // The connection timeout of a process.
                Patience::Try => troubled && ask.since.elapsed() >= Duration::from_secs(60),
                // Without a session there is no connection.
                Patience::Zero => troubled || ask.session == 0,
                Patience::Forever | Patience::Write => false,
            },
            // A job that runs once writes its record.
            (ErrorKind::OutcomeUnknown, _) => {
                // The news that the node is gone can come before the answer of the write, and ends the wait for it.
                (troubled || self.operated(&ask.path, ask.since))
                    && (ask.patience == Patience::Write || ask.path.contains("/runs/"))
            }
            (ErrorKind::NotFound | ErrorKind::AlreadyExists, _) => ask.patience == Patience::Write,
            _ => false,
        }
    }
}

impl State {
    /// What there is for a call, of these nodes.
    fn around<'a>(
        &'a self,
        task: &str,
        ask: &Ask,
        nodes: impl Iterator<Item = (&'a str, &'a Znode)>,
    ) -> Around<'a> {
        let at_path = self.asks.iter().filter(|(other, of)| *other != task && of.path == ask.path);
        let (company, others) = at_path.map(|(_, of)| of).partition(|of| of.member == ask.member);
        let is_troubled = self.troubled(ask.since);
        Around { nodes: nodes.collect(), company, others, state: self, is_troubled }
    }

    /// Whether the session is of a process that runs.
    fn is_alive(&self, session: i64) -> bool {
        self.sessions.get(&session).is_some_and(Process::runs)
    }

    /// Whether a task holds by the node.
    fn is_held(&self, node: &str) -> bool {
        self.holds.values().any(|hold| hold.nodes.iter().any(|own| own == node))
    }
}

impl Judge {
    /// A task calls the library.
    pub(crate) fn asks(&self, task: &str, ask: Ask) {
        let mut state = self.state();
        let path = format!("{}/", ask.path);
        state.sessions.insert(ask.session, ask.process.clone());
        state.asks.insert(task.to_owned(), ask);
        self.contends(&mut state, &path);
    }

    /// A task or a node has come to contend at a path.
    pub(crate) fn contends(&self, state: &mut State, path: &str) {
        let nodes = self.nodes();
        let is_at =
            |ask: &Ask| path.strip_prefix(&ask.path).is_some_and(|rest| rest.starts_with('/'));
        let mut contended = Vec::new();
        for (task, ask) in state.asks.iter().filter(|(_, ask)| !ask.contended && is_at(ask)) {
            let there = nodes.range(format!("{}/", ask.path)..format!("{}0", ask.path));
            let there = there.filter_map(|node| Some((node.as_str(), state.history.get(node)?)));
            if ask.is_kept_out(&state.around(task, ask, there)) {
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

    /// A call has come to its end, by its deadline if it has one. `is_kept`: the task did not poll it all the time.
    pub(crate) fn returns(&self, task: &str, is_kept: bool) {
        let mut state = self.state();
        let Some(ask) = state.asks.get_mut(task) else { return };
        ask.answered = true;
        let Some(ask) = state.asks.get(task) else { return };
        let Patience::Within(limit) = ask.patience else { return };
        if is_kept {
            return;
        }
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
        // A permit may have been given to a task that left in that instant, and is deleted a moment later.
        let place = (ask.member.clone(), ask.path.clone());
        let has_left = state.idle_since.get(&place).is_some_and(|left| left.elapsed() < NEWS);
        let is_so = match released {
            Released::Confirmed => is_kept || has_left || left.is_none(),
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
        // A try sees what the leader knows. The news of a deletion by an operator takes a moment to reach the task whose node
        // it was, and so does any news to a call that waits. It takes longer if something is wrong.
        let is_troubled = state.troubled(ask.since);
        let news = match is_troubled {
            true => STALE,
            false if ask.is_try() && !state.operated(path, ask.since) => Duration::ZERO,
            false => NEWS,
        };
        let recent = state.history.range(format!("{path}/")..format!("{path}0"));
        // The process itself hears of the deletion of a node by which it holds within a sixth of a session timeout.
        let is_held = |node: &str, znode: &Znode, deleted| {
            znode.owner == ask.session
                && state.deleted.contains_key(node)
                && !state.is_known(deleted)
        };
        let recent = recent.filter(|(node, znode)| {
            let is_recent = |gone| gone + news >= ask.since || is_held(node, znode, gone);
            znode.deleted.is_none_or(is_recent)
        });
        let recent = recent.map(|(node, znode)| (node.as_str(), znode));
        // Permits that were taken at different instants do not add up.
        let is_of_permits = matches!(ask.recipe, Recipe::Semaphore(_) | Recipe::Slots(_));
        let is_counted = is_of_permits && ask.is_try() && !is_troubled;
        let is_kept_out = || !is_counted && ask.is_kept_out(&state.around(task, ask, recent));
        let failure = if waited + DRIFT < limit {
            format!("busy: {task} waited for {path} only {waited:?} of {limit:?}")
        } else if !ask.contended && !is_kept_out() {
            let wants = match ask.recipe {
                Recipe::Semaphore(limit) | Recipe::Slots(limit) => {
                    format!(" for {} of {limit}", ask.wants)
                }
                _ => String::new(),
            };
            format!("busy: {task} at {path}{wants} after {waited:?}, though nothing keeps it out")
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
