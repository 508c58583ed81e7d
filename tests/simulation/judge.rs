//! The judge: who believes to hold what, against the servers' log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::simulation::{Ensemble, Logged, LoggedEntry, Process};

use crate::answers::Ask;
use crate::jobs::Job;
use crate::observed::Counter;

/// Who may hold a path at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Alone,
    /// With others that share.
    Shared,
    /// With so many in all.
    UpTo(usize),
}

/// A hold, as who has it sees it.
pub(crate) struct Hold {
    pub(crate) path: String,
    pub(crate) access: Access,
    pub(crate) process: Process,
    pub(crate) name: String,
    /// Of the process.
    pub(crate) session: i64,
    /// Those that it stands by; the first has the token.
    pub(crate) nodes: Vec<String>,
    pub(crate) token: Option<i64>,
    /// When it was asked for, and the data that its node has, of one that takes turns with others under one node.
    pub(crate) asked: Option<(Instant, String)>,
    /// Whether its guard says that it is held. A stranger's: whether its node is there.
    pub(crate) believes: Box<dyn Fn() -> bool + Send>,
}

/// A node by the servers' log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Znode {
    /// The session that owns it.
    pub(crate) owner: i64,
    /// The transaction that created it.
    pub(crate) zxid: i64,
    pub(crate) created: Instant,
    pub(crate) deleted: Option<Instant>,
}

/// The delete of a node by an operator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strike {
    /// The transaction that created the node. A later one may have the same path.
    zxid: i64,
    pub(crate) gone: Option<Instant>,
}

impl Strike {
    /// Whether the hold is by this node.
    fn hits(&self, hold: &Hold) -> bool {
        hold.token.is_none_or(|token| token <= self.zxid)
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) holds: BTreeMap<u64, Hold>,
    /// What each task asked for last.
    pub(crate) asks: BTreeMap<String, Ask>,
    /// The process of each session.
    pub(crate) sessions: BTreeMap<i64, Process>,
    next: u64,
    /// Holds that their tasks left: a guard that was released, or a body that was dropped. The library must say so.
    left: Vec<u64>,
    pub(crate) counts: Counts,
    /// The largest fencing token of a path so far, and of the writes to its data.
    tokens: BTreeMap<String, i64>,
    pub(crate) written: BTreeMap<String, (i64, u64)>,
    /// Sessions that an operator ended, and nodes that an operator deletes, and since when they are gone: who held by
    /// them learns of it later.
    ended: BTreeSet<i64>,
    pub(crate) deleted: BTreeMap<String, Strike>,
    /// Since when an operator's delete has ended the node of a session at a path. Until the session knows of it, its own delete may
    /// hit a later node of the same path.
    struck: BTreeMap<(String, i64), Instant>,
    /// How much is wrong now, how often that has changed, and since when it is as it is.
    pub(crate) wrong: (usize, usize, Option<Instant>),
    /// Every ephemeral node there was.
    pub(crate) history: BTreeMap<String, Znode>,
    /// The ephemeral node that each transaction created.
    pub(crate) by_zxid: BTreeMap<i64, String>,
    /// Nodes that their holder knows it is to give up.
    revoked: BTreeSet<String>,
    /// When a task of a process last came to have nothing at a path.
    pub(crate) idle_since: BTreeMap<(String, String), Instant>,
    /// The processes that stand still or did so, and until when that delays them.
    pub(crate) paused: BTreeMap<String, Option<Instant>>,
    pub(crate) counters: BTreeMap<String, Counter>,
    /// The jobs that run once, by the paths of their records.
    pub(crate) jobs: BTreeMap<String, Job>,
    /// The parents of the records, and whether nothing was wrong when the last run of a key came to its end.
    pub(crate) cleaned: BTreeMap<String, bool>,
    /// How many records are kept.
    pub(crate) kept: usize,
    failures: Vec<String>,
    /// Where failures are noted.
    trace: Weak<Ensemble>,
}

impl State {
    /// Whether it believes that it holds, and no operator took that from it.
    fn believes(&self, hold: &Hold) -> bool {
        let taken = |node: &String| {
            let strike = self.deleted.get(node).filter(|strike| strike.hits(hold));
            strike.is_some_and(|strike| !strike.gone.is_some_and(|gone| self.is_known(gone)))
                || self.history.get(node).is_some_and(|znode| self.ended.contains(&znode.owner))
        };
        !self.ended.contains(&hold.session)
            && !hold.nodes.iter().any(taken)
            && hold.process.runs()
            && hold.process.within(&hold.believes)
    }

    /// Since when a node of the hold is gone that nothing kept its client from learning of: an operator deleted it, and
    /// nothing else has been wrong since. A sixth of the longest session timeout, and a moment, are left for the news.
    fn could_know(&self, hold: &Hold) -> Option<Duration> {
        let strikes = hold.nodes.iter().filter_map(|node| self.deleted.get(node));
        let gone = strikes.filter(|strike| strike.hits(hold)).filter_map(|strike| strike.gone);
        let gone = gone.min()?;
        (self.is_known(gone) && (hold.believes)()).then(|| gone.elapsed())
    }

    /// Since when the node is gone that an operator deleted.
    pub(crate) fn struck_at(&self, node: &str) -> Option<Instant> {
        self.deleted.get(node)?.gone
    }

    /// Whether the news of a deletion has come to everyone.
    pub(crate) fn is_known(&self, gone: Instant) -> bool {
        let (now, _, changed) = self.wrong;
        let is_calm = now == 0 && changed.is_some_and(|changed| changed <= gone);
        is_calm && gone.elapsed() > Duration::from_secs(4)
    }

    fn note(&self, what: fmt::Arguments<'_>) {
        if let Some(ensemble) = self.trace.upgrade() {
            ensemble.note(what);
        }
    }

    /// A session deletes the node of another one. What a strike is for, if an operator does it, or a session that does not know yet
    /// that its own node of this path was struck: no request can name the node that it is to delete.
    fn strike(&mut self, path: &str, by: i64) {
        let znode = self.history.get(path).copied().filter(|znode| znode.owner != by);
        let Some(Znode { zxid, owner, .. }) = znode else { return };
        let own = self.struck.get(&(path.to_owned(), by)).copied();
        if own.is_some_and(|gone| !self.is_known(gone)) {
            self.deleted.insert(path.to_owned(), Strike { zxid, gone: None });
        }
        let Some(strike) = self.deleted.get_mut(path).filter(|strike| strike.gone.is_none()) else {
            return;
        };
        // The one that the operator saw may have gone before.
        strike.zxid = zxid;
        self.struck.insert((path.to_owned(), owner), Instant::now());
    }

    pub(crate) fn fails(&mut self, failure: String) {
        self.note(format_args!("FAILURE {failure}"));
        if let Some(ensemble) = self.trace.upgrade() {
            ensemble.mark(failure.clone());
        }
        self.failures.push(failure);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) holds: u64,
    pub(crate) drops: u64,
    pub(crate) faults: u64,
    pub(crate) double: u64,
    pub(crate) stale: u64,
    pub(crate) orphans: u64,
    pub(crate) hung: u64,
    pub(crate) leaks: u64,
    pub(crate) answers: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Judge {
    state: Arc<Mutex<State>>,
    /// Those there are, by the servers' log.
    nodes: Arc<Mutex<BTreeSet<String>>>,
}

impl Judge {
    pub(crate) fn of(ensemble: &Arc<Ensemble>, kept: usize) -> Self {
        let judge = Self::default();
        judge.state().trace = Arc::downgrade(ensemble);
        judge.state().kept = kept;
        judge
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task begins to hold.
    pub(crate) fn begin(&self, hold: Hold) -> u64 {
        let mut state = self.state();
        for number in std::mem::take(&mut state.left) {
            let Some(left) = state.holds.get(&number) else { continue };
            if state.believes(left) {
                state.left.push(number);
            } else {
                state.holds.remove(&number);
            }
        }
        if let Some(ask) = state.asks.get_mut(&hold.name) {
            ask.answered = true;
        }
        state.counts.holds += 1;
        state.note(format_args!("+ {} holds {}", hold.name, hold.path));
        if let (Some(token), Access::Alone, [node, ..]) = (hold.token, hold.access, &hold.nodes[..])
            && state.by_zxid.get(&token) != Some(node)
        {
            state.counts.stale += 1;
            let text = format!("stale: {} holds {node} by {token:#x}, another's", hold.name);
            state.fails(text);
        }
        // A guard that was fetched late may be lost already.
        if let (Some(token), Access::Alone, true) = (hold.token, hold.access, state.believes(&hold))
        {
            let last = state.tokens.insert(hold.path.clone(), token).unwrap_or(0);
            if token < last {
                state.counts.stale += 1;
                let text = format!(
                    "stale: {} holds {} by {token:#x} after {last:#x}",
                    hold.name, hold.path
                );
                state.fails(text);
            }
        }
        let foreign = |node: &&String| {
            state.history.get(*node).is_some_and(|znode| znode.owner != hold.session)
        };
        if state.believes(&hold)
            && hold.session != 0
            && hold.nodes.iter().any(|node| foreign(&node))
        {
            state.counts.stale += 1;
            let failure = format!("stale: {} holds by the node of another session", hold.name);
            state.fails(failure);
        }
        if let Some(since) = state.could_know(&hold) {
            state.counts.stale += 1;
            let failure =
                format!("stale: {} begins by a node that is gone for {since:?}", hold.name);
            state.fails(failure);
        }
        if let Some(failure) = self.is_out_of_turn(&state, &hold) {
            state.counts.stale += 1;
            state.fails(format!("stale: {} {failure}", hold.name));
        }
        state.next += 1;
        let number = state.next;
        state.holds.insert(number, hold);
        drop(state);
        self.look(number);
        number
    }

    /// Why a hold by a node that others may have held by before should not have begun.
    fn is_out_of_turn(&self, state: &State, hold: &Hold) -> Option<String> {
        let ((asked, identity), [node]) = (hold.asked.as_ref()?, hold.nodes.as_slice()) else {
            return None;
        };
        if !state.believes(hold) {
            return None;
        }
        if state.revoked.contains(node) {
            return Some(format!("holds by {node}, which was to be given up"));
        }
        let data = state.trace.upgrade()?.node(node);
        if data.is_some_and(|(data, _)| data != identity.as_bytes() && data != b"__REVOKE__") {
            return Some(format!("holds by {node}, which is not in its name"));
        }
        let created = state.history.get(node)?.created;
        let (0, _, Some(calm)) = state.wrong else { return None };
        let nodes = self.nodes();
        let mut others = nodes.range(format!("{}/", hold.path)..format!("{}0", hold.path));
        // The news of it had a second to come.
        let was_before = |other: &&String| {
            state.history.get(*other).is_some_and(|znode| {
                let since = znode.created;
                znode.owner != hold.session
                    && (hold.access != Access::Shared || other.contains("__WRIT__"))
                    && calm <= since
                    && since + Duration::from_secs(1) < *asked
            })
        };
        let other = others.find(was_before).filter(|_| *asked > created)?;
        Some(format!("asked after {other} came, and holds before it"))
    }

    /// The holder was asked to give up the node.
    pub(crate) fn revoked(&self, node: &str) {
        self.state().revoked.insert(node.to_owned());
    }

    /// Nobody else may hold it now.
    pub(crate) fn look(&self, number: u64) {
        let mut state = self.state();
        let Some(own) = state.holds.get(&number) else { return };
        if !state.believes(own) {
            return;
        }
        let on_path = state.holds.values().filter(|hold| hold.path == own.path);
        let others: Vec<_> = on_path.filter(|hold| state.believes(hold)).collect();
        let alone = others.iter().filter(|hold| hold.access == Access::Alone).count();
        let most = match own.access {
            Access::Alone => 1,
            Access::Shared if alone == 0 => usize::MAX,
            Access::Shared => 1,
            Access::UpTo(most) => most,
        };
        if others.len() > most {
            let names: Vec<_> = others.iter().map(|hold| hold.name.as_str()).collect();
            let failure = format!("double: {} is held by {}", own.path, names.join(" and by "));
            state.counts.double += 1;
            state.fails(failure);
        }
    }

    pub(crate) fn end(&self, number: u64) {
        let mut state = self.state();
        let ended = state.holds.remove(&number);
        if let Some(hold) = &ended {
            state.note(format_args!("- {} held {}", hold.name, hold.path));
        }
        drop(state);
        drop(ended);
    }

    /// It is over as soon as the library says so.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        if let Some(hold) = state.holds.get(&number) {
            state.note(format_args!("- {} leaves {}", hold.name, hold.path));
            state.left.push(number);
        }
    }

    /// What a killed process held, it holds no more.
    pub(crate) fn killed(&self) {
        let mut state = self.state();
        state.holds.retain(|_, hold| !hold.process.is_killed());
        state.asks.retain(|_, ask| !ask.process.is_killed());
    }

    /// An operator ends a session, which may still believe in it.
    pub(crate) fn operator_ends(&self, session: i64) {
        self.state().ended.insert(session);
    }

    pub(crate) fn operator_deletes(&self, node: &str) {
        let mut state = self.state();
        let zxid = state.history.get(node).map_or(0, |znode| znode.zxid);
        let strike = state.deleted.entry(node.to_owned()).or_default();
        // Nodes without a session are not in the history.
        if strike.zxid != zxid || zxid == 0 {
            *strike = Strike { zxid, gone: None };
        }
    }

    /// Something goes wrong, or right again.
    pub(crate) fn wrong(&self, now: usize) {
        let mut state = self.state();
        state.wrong = (now, state.wrong.1 + 1, Some(Instant::now()));
    }

    /// Whether nothing is wrong; and the same number for as long as that stays so.
    pub(crate) fn quiet(&self) -> Option<usize> {
        let (wrong, changes, _) = self.state().wrong;
        (wrong == 0).then_some(changes)
    }

    /// Whether nothing is wrong, and the last trouble is so old that it ends no lease any more.
    pub(crate) fn is_calm(&self) -> bool {
        self.state().is_calm()
    }

    /// The servers' log goes on.
    pub(crate) fn logged(&self, entry: &LoggedEntry) {
        let mut state = self.state();
        match &entry.effect {
            Logged::Created(path, owner) => {
                self.nodes().insert(path.clone());
                if path.contains("/done/") {
                    self.recorded(&mut state, path, entry);
                }
                if path.ends_with("-data") {
                    self.written(&mut state, path, entry);
                }
                if path.ends_with("/count") {
                    state.counted(path, entry);
                }
                if *owner != 0 {
                    let created = Instant::now();
                    let znode = Znode { owner: *owner, zxid: entry.zxid, created, deleted: None };
                    state.history.insert(path.clone(), znode);
                    state.by_zxid.insert(entry.zxid, path.clone());
                    self.contends(&mut state, path);
                }
            }
            Logged::Deleted(path) => {
                self.nodes().remove(path);
                state.strike(path, entry.session);
                state.count_deleted(path);
                if let Some(znode) = state.history.get_mut(path) {
                    znode.deleted = Some(Instant::now());
                }
                if let Some(strike) = state.deleted.get_mut(path) {
                    strike.gone.get_or_insert_with(Instant::now);
                } else if path.contains("/done/") {
                    self.cleaned_up(&mut state, path, entry.session);
                }
            }
            Logged::Changed(path) if path.ends_with("-data") => {
                self.written(&mut state, path, entry);
            }
            Logged::Changed(path) if path.ends_with("/count") => state.counted(path, entry),
            Logged::Changed(_) => {}
            Logged::SessionEnded(session) if !state.ended.contains(session) => {
                let ours = |hold: &&Hold| {
                    let is_its =
                        |node| state.history.get(node).is_some_and(|znode| znode.owner == *session);
                    hold.nodes.iter().any(is_its) && state.believes(hold)
                };
                let stale = state.holds.values().filter(ours).map(|hold| hold.name.clone());
                for name in stale.collect::<Vec<_>>() {
                    state.counts.stale += 1;
                    state.fails(format!("stale: {name} holds by a session that has expired"));
                }
            }
            Logged::SessionEnded(_) => {}
            // The last effect of a trouble that was over.
            Logged::SessionMoved => state.wrong.2 = Some(Instant::now()),
        }
    }

    pub(crate) fn has(&self, node: &str) -> bool {
        self.nodes().contains(node)
    }

    /// Whether a hold has nodes, and all are there.
    pub(crate) fn stands(&self, hold: u64) -> bool {
        let state = self.state();
        let nodes = state.holds.get(&hold).map(|hold| hold.nodes.as_slice()).unwrap_or_default();
        !nodes.is_empty() && nodes.iter().all(|node| self.has(node))
    }

    pub(crate) fn dropped(&self) {
        self.state().counts.drops += 1;
    }

    pub(crate) fn struck(&self, strikes: usize) {
        self.state().counts.faults += u64::try_from(strikes).unwrap_or(0);
    }

    pub(crate) fn fail(&self, count: impl FnOnce(&mut Counts) -> &mut u64, failure: String) {
        let mut state = self.state();
        *count(&mut state.counts) += 1;
        state.fails(failure);
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.state().failures.is_empty()
    }

    pub(crate) fn verdict(&self) -> (Counts, Vec<String>) {
        let state = self.state();
        (state.counts, state.failures.clone())
    }
}
