//! The one primitive: a znode queued under a lock path, and the task that owns it.
//!
//! ```text
//!   enter ----> wait ----> hold ----> leave
//!     |           |                     ^
//!     +-----------+---------------------+   the caller gave up, an error, the session closes
//!     |           |
//!     +-----------+----> enter again, at the tail: the node or the epoch is gone
//! ```
//!
//! A task of the session's enters, and waits for somebody else's contender. The caller has the other end of a
//! channel: dropping it, at any time, makes the task leave (invariant 3). Whoever has to wait for one of ours waits
//! in the caller's future, and a hold has no task: leaving, they send the delete where they are dropped, and a task
//! of the session's sees to it. Each entering belongs to one epoch and has a GUID of its own; when the epoch ends,
//! what it may have left at the servers becomes a duty of the next, and the contender enters again.

mod care;
mod contending;
mod enter;
mod gap;
mod hold;
mod leases;
mod line;
mod lines;
mod local;
mod parent;
mod parked;
mod place;
mod rounds;
mod shortcuts;
mod trace;
mod wait;
mod watches;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument;

use self::care::Own;
pub(crate) use self::contending::{Answer, Contending, Queued, contend, contend_again};
use self::contending::{Asked, Reply};
use self::enter::{Known, enter};
pub(crate) use self::hold::{Hold, HoldState};
pub(crate) use self::leases::{LeaseRequest, Limit, contend_for_leases};
use self::line::Line;
use self::lines::Lines;
use self::local::Turn;
use self::parked::Parked;
use self::place::{Place, Room, note_place};
#[cfg_attr(not(feature = "test-util"), allow(unreachable_pub))]
pub use self::shortcuts::Shortcuts;
use self::trace::{Left, Trace};
use self::wait::{Waited, list, wait};
use self::watches::Watches;
use crate::admission::Family;
use crate::client::{Acl, ClientError};
use crate::contender_name::Kind;
use crate::error::{AcquireError, ReleaseError, SessionError};
use crate::lock_path::LockPath;
use crate::metrics::{self, Lock, Operation};
use crate::retry::{Retry, RetryPolicy};
use crate::session::clock::Moment;
use crate::session::epoch::{Asker, Epoch};
use crate::session::lease::{LossPolicy, Term};
use crate::session::{NoEpoch, Session};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: LockPath,
    pub(crate) family: Family,
    pub(crate) kind: Kind,
    /// A read beside this write hold, which must be there: it needs no turn of its own.
    pub(crate) beside: Option<Arc<HoldState>>,
    /// The node's data.
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) loss_policy: LossPolicy,
    /// Leave rather than wait.
    pub(crate) only_if_free: bool,
    /// Lists before it makes a node.
    pub(crate) looks_first: bool,
    /// What it is counted as.
    pub(crate) counted: Lock,
}

impl Request {
    /// Whether it holds together with others like it.
    fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Lease)
    }
}

/// All contenders of a session.
pub(crate) struct Contenders {
    session: Arc<Session>,
    rules: Shortcuts,
    /// Of the present epoch.
    lines: Mutex<Option<Arc<Lines>>>,
}

impl Contenders {
    pub(crate) fn new(session: Arc<Session>, rules: Shortcuts) -> Arc<Self> {
        Arc::new(Self { session, rules, lines: Mutex::default() })
    }

    fn lines(&self, epoch: &Arc<Epoch>) -> Arc<Lines> {
        let mut present = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match &*present {
            Some(lines) if Arc::ptr_eq(&lines.epoch, epoch) => lines.clone(),
            _ => {
                let lines = Lines::new(&self.session, epoch, self.rules);
                // Who comes late, with an epoch that is over, must not displace the next one's.
                if !epoch.over().is_cancelled() {
                    present.replace(lines.clone());
                }
                lines
            }
        }
    }
}

impl fmt::Debug for Contenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contenders").field("session", &self.session).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Contender {
    contenders: Arc<Contenders>,
    request: Request,
    queued: Queued,
    asker: Asker,
    /// Of the present trouble.
    began: Moment,
    retry: Retry,
    /// How long the last removal was waited for, if it was not confirmed by then.
    lingers: Mutex<Option<Duration>>,
}

/// Where a contender's task begins.
#[derive(Debug)]
enum Start {
    Enter,
    /// It has a place, since then; whom it has to wait for is not known.
    Wait(Place, Moment),
    /// Its place, taken then, is gone.
    Again(Moment),
}

/// Why an entering did not come to its end.
#[derive(Debug)]
enum Stop {
    /// The caller is not interested any more.
    Withdrawn,
    /// Somebody is before us, and the caller asked not to wait.
    Busy,
    /// Our node is gone, or the epoch: it can be tried anew.
    Again(Option<ClientError>),
    Failed(AcquireError),
}

/// What an entering comes to.
#[derive(Debug)]
enum Outcome {
    Holds(Hold),
    Behind(Place, oneshot::Receiver<Turn>),
}

impl Contender {
    fn session(&self) -> &Arc<Session> {
        &self.contenders.session
    }

    /// Starts the task.
    fn start(self, start: Start) -> Asked {
        let (caller, reply) = oneshot::channel();
        let path = &self.request.path;
        let empty = tracing::field::Empty;
        let span = tracing::info_span!("acquire", %path, contender = empty, session = empty);
        let session = self.session().clone();
        Asked { reply, task: session.spawn(self.run(start, caller).instrument(span)) }
    }

    /// If it ends without a reply: see `lingers`.
    async fn run(
        mut self,
        mut start: Start,
        mut caller: oneshot::Sender<Reply>,
    ) -> Option<Duration> {
        let answer = |answer| Reply::Answer(Box::new(answer));
        loop {
            let mut entered_at = None;
            let once = match std::mem::replace(&mut start, Start::Enter) {
                Start::Enter => self.once(None, &mut caller, &mut entered_at).await,
                Start::Wait(place, at) => {
                    entered_at = Some(at);
                    self.once(Some(place), &mut caller, &mut entered_at).await
                }
                // A place that is gone is a try that failed.
                Start::Again(at) => {
                    entered_at = Some(at);
                    Err(Stop::Again(None))
                }
            };
            let cause = match once {
                Ok(Outcome::Holds(hold)) => return tell(caller, answer(Ok(Some(hold)))).await,
                Ok(Outcome::Behind(place, turn)) => {
                    let at = entered_at.unwrap_or_else(Moment::now);
                    let parked = Parked::new(self, place, turn, at);
                    return tell(caller, Reply::Parked(Box::new(parked))).await;
                }
                Err(Stop::Withdrawn) => return self.lingers(),
                Err(Stop::Busy) => return tell(caller, answer(Ok(None))).await,
                Err(Stop::Failed(error)) => return tell(caller, answer(Err(error))).await,
                Err(Stop::Again(cause)) => cause,
            };
            match self.before_again(cause, entered_at, &mut caller).await {
                Ok(()) => {}
                Err(Stop::Failed(error)) => return tell(caller, answer(Err(error))).await,
                Err(_) => return self.lingers(),
            }
        }
    }

    /// Pauses before the next try, if the policy allows one.
    async fn before_again<C: Send>(
        &mut self,
        cause: Option<ClientError>,
        entered_at: Option<Moment>,
        caller: &mut oneshot::Sender<C>,
    ) -> Result<(), Stop> {
        let well = self.session().settings.session_timeout;
        if entered_at.is_some_and(|at| at.elapsed() > well) {
            // It was in the queue for so long that this is a new trouble, not more of the old one.
            (self.began, self.retry) = (Moment::now(), self.request.retry.start());
        }
        let Some(pause) = self.retry.next_pause(self.began.elapsed()) else {
            return Err(Stop::Failed(self.exhausted(cause).await));
        };
        tracing::debug!(?cause, ?pause, "enters again");
        metrics::retried(Operation::Enter);
        tokio::select! {
            biased;
            stop = self.stopped(caller) => Err(stop),
            () = self.session().pause(pause) => Ok(()),
        }
    }

    /// The policy is used up; but if there will never be a session again, that is what to say.
    async fn exhausted(&self, source: Option<ClientError>) -> AcquireError {
        // The supervisor may be about to say so.
        match self.session().epoch(Duration::from_millis(100)).await {
            Err(NoEpoch::Over(error)) => self.session_error(error),
            Ok(_) | Err(NoEpoch::NotNow) => {
                AcquireError::RetriesExhausted { path: self.request.path.to_string(), source }
            }
        }
    }

    /// One entering in one epoch, up to the hold. Leaves nothing behind unless it succeeds.
    async fn once(
        &self,
        place: Option<Place>,
        caller: &mut oneshot::Sender<Reply>,
        entered_at: &mut Option<Moment>,
    ) -> Result<Outcome, Stop> {
        let (lines, line, left) = match place {
            Some(place) => (place.lines.clone(), place.line.clone(), Left::Place(place)),
            None => {
                let epoch = self.epoch(caller).await?;
                let lines = self.contenders.lines(&epoch);
                let room = self.room(&epoch)?;
                let line = lines.line(&self.request.path, &self.request.family);
                (lines, line, Left::Nothing(room))
            }
        };
        let epoch = lines.epoch.clone();
        // The watches go after the node: what they would send must not go ahead of its delete.
        let mut watches = Watches::default();
        let trace = Trace::new(left);
        let waited = tokio::select! {
            biased;
            () = epoch.over().cancelled() => Err(Stop::Again(None)),
            waited = self.until_admitted(&lines, &line, &trace, &mut watches, caller, entered_at) => waited,
        };
        let left = trace.take();
        let (stop, left) = match (waited, left) {
            (Ok(waited), Some(Left::Place(place))) => {
                match self.outcome(waited, place, &mut watches) {
                    Some(outcome) => return Ok(outcome),
                    None => return Err(Stop::Again(None)),
                }
            }
            (Ok(_), _) => return Err(Stop::Again(None)),
            (Err(stop), left) => (stop, left),
        };
        self.remove(left, &epoch).await;
        Err(stop)
    }

    async fn epoch<C: Send>(&self, caller: &mut oneshot::Sender<C>) -> Result<Arc<Epoch>, Stop> {
        let patience = self.session().settings.connection_timeout;
        tokio::select! {
            biased;
            stop = self.stopped(caller) => Err(stop),
            epoch = self.session().epoch(patience) => epoch.map_err(|none| match none {
                NoEpoch::NotNow => Stop::Again(None),
                NoEpoch::Over(error) => Stop::Failed(self.session_error(error)),
            }),
        }
    }

    /// Removes what an entering left. Whoever asked learns of its end when it is gone, if that can be had soon.
    async fn remove(&self, left: impl IntoIterator<Item = Left>, epoch: &Arc<Epoch>) {
        let gone: Vec<_> =
            left.into_iter().filter_map(|left| left.remove(self.session(), epoch)).collect();
        if !epoch.over().is_cancelled() {
            let patience = self.session().settings.connection_timeout.min(epoch.timeout() / 3);
            let gone = tokio::time::timeout(patience, futures_util::future::join_all(gone)).await;
            let mut lingers = self.lingers.lock().unwrap_or_else(PoisonError::into_inner);
            *lingers = gone.is_err().then_some(patience);
        }
    }

    fn lingers(&self) -> Option<Duration> {
        *self.lingers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the place is gone.
    fn outcome(&self, waited: Waited, place: Place, watches: &mut Watches) -> Option<Outcome> {
        let own = Own { line: place.line.clone(), spot: place.spot.clone() };
        let attended = watches.give_away(own).filter(|_| place.epoch().has_spare_room());
        if place.line.in_care(&place.spot, attended.is_some())
            && let Some(attended) = attended
        {
            // The caretaker ends with the epoch.
            let _ = place.lines.care.send(attended);
        }
        match waited {
            Waited::Behind(turn) => Some(Outcome::Behind(place, turn)),
            Waited::Admitted(term) => self.hold(place, term).map(Outcome::Holds),
        }
    }

    /// `None` if the place is gone, or is about to be taken by who closes the session.
    fn hold(&self, place: Place, term: Arc<Term>) -> Option<Hold> {
        let hold = Hold::new(place, term, &self.request)?;
        (!self.session().closing().is_cancelled()).then_some(hold)
    }

    async fn until_admitted(
        &self,
        lines: &Arc<Lines>,
        line: &Arc<Line>,
        trace: &Trace,
        watches: &mut Watches,
        caller: &mut oneshot::Sender<Reply>,
        entered_at: &mut Option<Moment>,
    ) -> Result<Waited, Stop> {
        let (spot, known) = match trace.spot() {
            Some(spot) => (spot, Known::Place),
            None => {
                self.beside_lasts()?;
                let looks = self.request.looks_first && self.request.beside.is_none();
                if looks && self.contenders.rules.look_first {
                    self.unless_stopped(caller, Box::pin(self.look(lines, line))).await?;
                }
                // Not raced with the caller: the answer to a create says what is to be removed.
                Box::pin(enter(self, lines, line, trace, caller)).await?
            }
        };
        entered_at.get_or_insert_with(Moment::now);
        note_place(&spot, &lines.epoch);
        let span = tracing::info_span!("wait", path = %self.request.path, contender = spot.name());
        // In boxes: each layer around a future may keep room for it twice, and there may be thousands.
        let waiting = wait(self, lines, line, &spot, known, watches).instrument(span);
        self.unless_stopped(caller, Box::pin(waiting)).await
    }

    /// Looks whether the lock is free, before a node is made for nothing.
    async fn look(&self, lines: &Lines, line: &Line) -> Result<(), Stop> {
        // A server that lags would call a lock busy whose release was confirmed elsewhere.
        let Some(listing) = list(self, &lines.epoch, true).await? else { return Ok(()) };
        match line.family.other_recipe(&listing.children) {
            Some(child) => Err(self.mixed(child.to_owned())),
            None if line.is_busy(&listing, self.request.is_shared()) => Err(Stop::Busy),
            None => Ok(()),
        }
    }

    /// Notes that it has to wait for somebody.
    fn note_wait(&self, line: &Line, noted: &mut bool) {
        self.queued.send_replace(true);
        if !*noted && line.is_held_by(self.asker) {
            tracing::warn!(
                path = %self.request.path,
                "waits for a lock that this very task holds: see `MutexGuard::reenter` and `Owner`"
            );
        }
        *noted = true;
    }

    /// Awaits `work`, unless there is no point in going on.
    async fn unless_stopped<T, C: Send>(
        &self,
        caller: &mut oneshot::Sender<C>,
        work: impl Future<Output = Result<T, Stop>> + Send,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            stop = self.stopped(caller) => Err(stop),
            done = work => done,
        }
    }

    /// Fires when there is no point in going on.
    async fn stopped<C: Send>(&self, caller: &mut oneshot::Sender<C>) -> Stop {
        tokio::select! {
            biased;
            () = caller.closed() => Stop::Withdrawn,
            () = self.session().closing().cancelled() => {
                Stop::Failed(self.session_error(SessionError::Closed))
            }
        }
    }

    fn room(&self, epoch: &Arc<Epoch>) -> Result<Room, Stop> {
        let slash_and_name = 1 + self.request.kind.name_bytes();
        let bytes = self.session().absolute(&self.request.path).as_str().len() + slash_and_name;
        let limit = self.session().settings.ephemeral_limit;
        let demand = epoch.demand();
        let reservation = epoch.reserve(bytes, limit).map_err(|in_use| {
            let path = self.request.path.to_string();
            Stop::Failed(AcquireError::TooManyContenders { path, in_use, limit })
        })?;
        Ok(Room::new(demand, reservation))
    }

    /// Fails when the write hold that a read was to be beside is over.
    fn beside_lasts(&self) -> Result<(), Stop> {
        match self.request.beside.as_ref().and_then(|write| write.end()) {
            None => Ok(()),
            Some(loss) => {
                let path = self.request.path.to_string();
                Err(Stop::Failed(AcquireError::HoldLost { path, loss }))
            }
        }
    }

    fn mixed(&self, child: String) -> Stop {
        let path = self.request.path.to_string();
        Stop::Failed(AcquireError::OtherRecipe { path, child })
    }

    fn session_error(&self, source: SessionError) -> AcquireError {
        AcquireError::Session { path: self.request.path.to_string(), source }
    }
}

/// If the caller was dropped, releases what was for it. Returns how long that was waited for, if a node may be left.
async fn tell(caller: oneshot::Sender<Reply>, reply: Reply) -> Option<Duration> {
    match caller.send(reply).err()? {
        Reply::Parked(parked) => {
            parked.leave().await;
            None
        }
        Reply::Answer(answer) => {
            let (hold, began) = (answer.ok().flatten()?, Moment::now());
            // A hold that was lost has no node, or another client was found to have deleted it.
            let is_left = !matches!(hold.release().await, Ok(()) | Err(ReleaseError::Lost { .. }));
            is_left.then(|| began.elapsed())
        }
    }
}

/// What a definite refusal means to whoever asked.
pub(crate) fn refusal(path: &str, operation: &'static str, source: ClientError) -> AcquireError {
    let path = path.to_owned();
    if source.is_no_auth() {
        AcquireError::NoAuth { path, operation }
    } else if source.is_invalid_acl() {
        AcquireError::InvalidAcl { path }
    } else if source.is_ephemeral_parent() {
        AcquireError::EphemeralParent { path }
    } else {
        AcquireError::Refused { path, operation, source }
    }
}
