//! Leases: several nodes of one asker, admitted together, by a count.
//!
//! Who makes leases holds the mutex beside them, so only one at a time has nodes that are not admitted. That is what
//! Curator's waiters rely on: with two such, each could count the other, and both wait for ever. When the mutex is lost,
//! the nodes go, and it is taken again. All of the asker's nodes are made before it counts, so that of two who ask for several neither
//! waits with a part of them.
//!
//! A task of the session's does all of it: a caller that does not poll its future must not keep the mutex.
//!
//! Who counts too many waits for a change of the children, or of the limit. When the [gap rule](super::gap) says that
//! nobody else created anything since a listing, no listing is needed: those who were there then, who can only have
//! gone since, and ours are the most there can be.

use std::sync::{Arc, Mutex};

use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tracing::Instrument;

use super::enter::{Known, check_sequence, enter};
use super::hold::Hold;
use super::line::{Line, Verdict};
use super::lines::Lines;
use super::local::Spot;
use super::trace::{Left, Trace};
use super::wait::{list, prove_session, stop};
use super::watches::LOOK;
use super::{Contender, Contenders, HoldState, Queued, Request, Stop, contend};
use crate::client::{ChildrenWatch, Failure, Listing};
use crate::error::{AcquireError, SessionError};
use crate::lock_path::LockPath;
use crate::session::clock::Moment;
use crate::session::epoch::{Asker, Epoch};
use crate::session::lease::Term;

/// How many leases there are.
#[derive(Debug)]
pub(crate) enum Limit {
    Fixed(i32),
    Live(watch::Receiver<i32>),
}

/// What was before it counts as seen.
impl Clone for Limit {
    fn clone(&self) -> Self {
        match self {
            Self::Fixed(limit) => Self::Fixed(*limit),
            Self::Live(limit) => {
                let mut limit = limit.clone();
                limit.mark_unchanged();
                Self::Live(limit)
            }
        }
    }
}

impl Limit {
    /// None if it is negative.
    pub(crate) fn now(&self) -> usize {
        let now = match self {
            Self::Fixed(limit) => *limit,
            Self::Live(limit) => *limit.borrow(),
        };
        usize::try_from(now).unwrap_or(0)
    }

    /// Whether so many can ever be had. One that can change may be zero for a while.
    pub(crate) fn check(&self, path: &LockPath, asked: usize) -> Result<(), AcquireError> {
        let limit = match self {
            Self::Fixed(_) => self.now(),
            Self::Live(_) => self.now().max(1),
        };
        if (1..=limit).contains(&asked) {
            return Ok(());
        }
        Err(AcquireError::LeaseCount { path: path.to_string(), asked, limit })
    }

    async fn changed(&mut self) {
        if let Self::Live(limit) = self
            && limit.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// `None`: there are too few, and the caller asked not to wait.
type Answer = Result<Option<Vec<Hold>>, AcquireError>;

/// The caller's end. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct LeaseContending {
    path: LockPath,
    reply: oneshot::Receiver<Answer>,
}

impl LeaseContending {
    pub(crate) async fn answer(self) -> Answer {
        // The task answers before it ends, unless its runtime is gone.
        self.reply.await.unwrap_or_else(|_| {
            let (path, source) = (self.path.to_string(), SessionError::Closed);
            Err(AcquireError::Session { path, source })
        })
    }
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct LeaseRequest {
    /// For each of the nodes.
    pub(crate) lease: Request,
    /// For the mutex.
    pub(crate) lock: Request,
    pub(crate) count: usize,
    pub(crate) limit: Limit,
    /// Whether the servers said that there are too few.
    pub(crate) full: Queued,
    /// Whether they said that somebody else has the mutex.
    pub(crate) behind: Queued,
}

/// Asks for leases.
pub(crate) fn contend_for_leases(
    contenders: &Arc<Contenders>,
    request: LeaseRequest,
) -> LeaseContending {
    let LeaseRequest { lease, lock, count, limit, full, behind } = request;
    let path = lease.path.clone();
    let (began, retry) = (Moment::now(), lease.retry.start());
    let lingers = Mutex::default();
    let contenders = contenders.clone();
    let asker = Asker::current();
    let contender =
        Contender { contenders, request: lease, queued: full, asker, began, retry, lingers };
    let (caller, reply) = oneshot::channel();
    let session = contender.session().clone();
    let span = tracing::info_span!("acquire", %path, leases = count);
    let leasing = Leasing { contender, lock, behind, count, limit };
    session.spawn(leasing.run(caller).instrument(span));
    LeaseContending { path, reply }
}

struct Leasing {
    contender: Contender,
    lock: Request,
    behind: Queued,
    count: usize,
    limit: Limit,
}

impl Leasing {
    async fn run(mut self, mut caller: oneshot::Sender<Answer>) {
        loop {
            let began = Moment::now();
            let answer = match self.once(&mut caller).await {
                Ok(holds) => Ok(Some(holds)),
                Err(Stop::Withdrawn) => return,
                Err(Stop::Busy) => Ok(None),
                Err(Stop::Failed(error)) => Err(error),
                Err(Stop::Again(cause)) => {
                    match self.contender.before_again(cause, Some(began), &mut caller).await {
                        Ok(()) => continue,
                        Err(Stop::Failed(error)) => Err(error),
                        Err(_) => return,
                    }
                }
            };
            // If the caller is gone, the holds come back, and are dropped.
            return drop(caller.send(answer));
        }
    }

    /// With the mutex, which is let go of at the end.
    async fn once(&mut self, caller: &mut oneshot::Sender<Answer>) -> Result<Vec<Hold>, Stop> {
        let Self { contender, count, limit, .. } = self;
        let contenders = &contender.contenders;
        let mut contending = contend(contenders, self.lock.clone(), self.behind.clone());
        let lock = tokio::select! {
            biased;
            stop = contender.stopped(caller) => return Err(stop),
            lock = contending.answer() => lock.map_err(Stop::Failed)?.ok_or(Stop::Busy)?,
        };
        // The wait for it says nothing of leases.
        self.behind.send_replace(false);
        lease_all(contender, lock.state(), *count, limit, caller).await
    }
}

/// One try in one epoch, under one hold of the mutex. Leaves nothing behind unless it succeeds.
async fn lease_all(
    contender: &Contender,
    lock: &HoldState,
    count: usize,
    limit: &mut Limit,
    caller: &mut oneshot::Sender<Answer>,
) -> Result<Vec<Hold>, Stop> {
    let epoch = contender.epoch(caller).await?;
    let lines = contender.contenders.lines(&epoch);
    let line = lines.line(&contender.request.path, &contender.request.family);
    let mut entering = Entering { contender, lines: &lines, line: &line, traces: Vec::new() };
    let admitted = tokio::select! {
        biased;
        () = epoch.over().cancelled() => Err(Stop::Again(None)),
        // Somebody else may have it now: to wait here would be in that one's way.
        () = lock.ended().cancelled() => Err(Stop::Again(None)),
        admitted = entering.until_admitted(count, limit, caller) => admitted,
    };
    let left = entering.traces.iter().filter_map(Trace::take);
    let stop = match admitted {
        Ok(term) => {
            let hold = |left| match left {
                Left::Place(place) => contender.hold(place, term.clone()),
                Left::Nothing(_) | Left::Search(..) => None,
            };
            let holds: Vec<_> = left.filter_map(hold).collect();
            if holds.len() == count {
                return Ok(holds);
            }
            // One is gone: the others go with this.
            return Err(Stop::Again(None));
        }
        Err(stop) => stop,
    };
    contender.remove(left, &epoch).await;
    Err(stop)
}

struct Entering<'a> {
    contender: &'a Contender,
    lines: &'a Arc<Lines>,
    line: &'a Arc<Line>,
    traces: Vec<Trace>,
}

/// How many children there are, ours among them.
enum Count {
    /// By a listing.
    Of(usize),
    /// By the gap rule.
    AtMost(usize),
    Unknown,
}

impl Entering<'_> {
    fn epoch(&self) -> &Epoch {
        &self.lines.epoch
    }

    /// Admitted with the lease lasting at that instant.
    async fn until_admitted(
        &mut self,
        count: usize,
        limit: &mut Limit,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<Arc<Term>, Stop> {
        let contender = self.contender;
        let mut spots = Vec::new();
        let mut children = Count::Unknown;
        while spots.len() < count {
            let (spot, known) = self.enter(caller).await?;
            check_sequence(contender, &spot)?;
            children = self.counted(&spot, known)?;
            spots.push(spot);
        }
        let waiting = self.wait(&spots, children, limit);
        contender.unless_stopped(caller, Box::pin(waiting)).await
    }

    async fn enter(
        &mut self,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<(Arc<Spot>, Known), Stop> {
        let room = self.contender.room(&self.lines.epoch)?;
        let place = self.traces.len();
        self.traces.push(Trace::new(Left::Nothing(room)));
        // Not raced with the caller: the answer to a create says what is to be removed.
        Box::pin(enter(self.contender, self.lines, self.line, &self.traces[place], caller)).await
    }

    fn counted(&self, spot: &Spot, known: Known) -> Result<Count, Stop> {
        match known {
            Known::Verdict(Verdict::Among(count)) => Ok(Count::AtMost(count)),
            Known::Listing(listing, _lister) => match self.line.judge_entering(spot, listing) {
                Verdict::Among(count) => Ok(Count::Of(count)),
                Verdict::Mixed(child) => Err(self.contender.mixed(child)),
                _ => Err(Stop::Again(None)),
            },
            Known::Verdict(_) | Known::Nothing | Known::Place => Ok(Count::Unknown),
        }
    }

    async fn wait(
        &self,
        spots: &[Arc<Spot>],
        mut children: Count,
        limit: &mut Limit,
    ) -> Result<Arc<Term>, Stop> {
        let request = &self.contender.request;
        let mut entering = matches!(children, Count::Unknown);
        // What came with the last listing.
        let mut watch = None;
        loop {
            if let Count::Of(count) | Count::AtMost(count) = children
                && count <= limit.now()
            {
                // Invariant 2: our nodes were seen in this epoch, and the lease lasts now.
                match self.epoch().lease.term(request.loss_policy, Moment::now()) {
                    Some(term) => return Ok(term),
                    None => prove_session(self.contender, self.epoch()).await?,
                }
            } else if let Count::Of(count) = children {
                self.contender.queued.send_replace(true);
                if request.only_if_free {
                    return Err(Stop::Busy);
                }
                limit.check(&request.path, spots.len()).map_err(Stop::Failed)?;
                if let Some(watch) = watch.take() {
                    tracing::debug!(count, limit = limit.now(), "waits");
                    tokio::select! {
                        biased;
                        () = changed(watch) => {}
                        () = limit.changed() => {}
                    }
                }
            }
            // Also after a change of the limit: of our own nodes the count is old.
            let (listing, watching) = self.list_and_watch().await?;
            watch = Some(watching);
            children = Count::Of(self.all_there(spots, listing, entering)?);
            entering = false;
        }
    }

    /// How many children there are, if all of ours are among them.
    fn all_there(
        &self,
        spots: &[Arc<Spot>],
        listing: Listing,
        entering: bool,
    ) -> Result<usize, Stop> {
        let other = self.line.family.other_recipe(&listing.children).filter(|_| entering);
        if let Some(child) = other {
            return Err(self.contender.mixed(child.to_owned()));
        }
        let count = listing.children.len();
        let there: std::collections::HashSet<&str> =
            listing.children.iter().map(String::as_str).collect();
        if !spots.iter().all(|spot| there.contains(spot.name())) {
            return Err(Stop::Again(None));
        }
        let last = spots.last().map(|spot| self.line.judge(spot, listing));
        if matches!(last, Some(Verdict::Among(_))) { Ok(count) } else { Err(Stop::Again(None)) }
    }

    /// Without room for a watch there is none.
    async fn list_and_watch(&self) -> Result<(Listing, Option<ChildrenWatch>), Stop> {
        let path = self.contender.request.path.as_str();
        let Some(room) = self.epoch().room_at_once(path) else {
            let listing = list(self.contender, self.epoch(), false).await?;
            return Ok((listing.ok_or(Stop::Again(None))?, None));
        };
        let ask = || async { self.epoch().client()?.list_and_watch(path).await };
        match self.contender.session().retried(&self.contender.request.retry, ask).await {
            Ok((listing, watch)) => Ok((listing, Some(watch.with(room)))),
            // Our nodes went with it.
            Err(Failure::NoNode) => Err(Stop::Again(None)),
            Err(failure) => Err(stop(self.contender, path, "list", failure)),
        }
    }
}

/// Waits for a change, or a while where there was no room for a watch.
async fn changed(watch: Option<ChildrenWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => sleep(LOOK).await,
    }
}
