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
//! The whole life of a contender runs in a task of the session's. The caller has the other end of a
//! channel: dropping it, at any time, makes the task leave (invariant 3). Each entering belongs to one
//! epoch and has a GUID of its own; when the epoch ends, what it may have left at the servers becomes
//! a duty of the next, and the contender enters again.

mod enter;
mod hold;
mod wait;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tracing::Instrument;

use self::enter::{Entered, enter};
pub(crate) use self::hold::{Hold, HoldState};
use self::hold::{Life, serve};
use self::wait::{OwnNode, wait};
use crate::client::{Acl, ClientError};
use crate::contender_name::Kind;
use crate::error::{AcquireError, SessionError};
use crate::lock_path::LockPath;
use crate::retry::RetryPolicy;
use crate::session::clock::Moment;
use crate::session::duty::{Duty, clean_up};
use crate::session::epoch::{Asker, Epoch, Reservation};
use crate::session::lease::{LossPolicy, Term};
use crate::session::{NoEpoch, Session};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: LockPath,
    pub(crate) kind: Kind,
    /// The node's data.
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) loss_policy: LossPolicy,
    /// Leave rather than wait.
    pub(crate) only_if_free: bool,
}

/// `None`: busy, and the caller asked not to wait.
pub(crate) type Answer = Result<Option<Hold>, AcquireError>;

/// The caller's end of a contender. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct Contending {
    path: LockPath,
    answer: oneshot::Receiver<Answer>,
}

/// Whether the servers said that a contender has to wait for somebody.
pub(crate) type Queued = Arc<watch::Sender<bool>>;

impl Contending {
    pub(crate) async fn answer(&mut self) -> Answer {
        // The task answers before it ends, unless its runtime is gone.
        (&mut self.answer).await.unwrap_or_else(|_| {
            let path = self.path.to_string();
            Err(AcquireError::Session { path, source: SessionError::Closed })
        })
    }
}

/// Queues up.
pub(crate) fn contend(session: &Arc<Session>, request: Request, queued: Queued) -> Contending {
    let (sender, answer) = oneshot::channel();
    queued.send_replace(false);
    let path = request.path.clone();
    let span = tracing::info_span!("acquire", %path, contender = tracing::field::Empty);
    let contender =
        Contender { session: session.clone(), request, queued, asker: Asker::current() };
    session.spawn(contender.run(sender).instrument(span));
    Contending { path, answer }
}

struct Contender {
    session: Arc<Session>,
    request: Request,
    queued: Queued,
    asker: Asker,
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

/// What an entering may have left at the servers. Kept outside the future that enters, so that it is
/// known also when that is dropped half-way.
#[derive(Debug, Default)]
struct Trace(Mutex<Option<Duty>>);

impl Trace {
    fn set(&self, duty: Option<Duty>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = duty;
    }

    fn take(&self) -> Option<Duty> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Contender {
    async fn run(self, mut caller: oneshot::Sender<Answer>) {
        let (mut began, mut retry) = (Moment::now(), self.request.retry.start());
        loop {
            let mut entered_at = None;
            let cause = match self.once(&mut caller, &mut entered_at).await {
                Ok(life) => return serve(&self.session, life, caller).await,
                Err(Stop::Withdrawn) => return,
                Err(Stop::Busy) => return drop(caller.send(Ok(None))),
                Err(Stop::Failed(error)) => return drop(caller.send(Err(error))),
                Err(Stop::Again(cause)) => cause,
            };
            let well = self.session.settings.session_timeout;
            if entered_at.is_some_and(|at: Moment| at.elapsed() > well) {
                // It was in the queue for so long that this is a new trouble, not more of the old one.
                (began, retry) = (Moment::now(), self.request.retry.start());
            }
            let Some(pause) = retry.next_pause(began.elapsed()) else {
                let error = self.exhausted(cause).await;
                return drop(caller.send(Err(error)));
            };
            tracing::debug!(?cause, ?pause, "enters again");
            tokio::select! {
                biased;
                stop = self.stopped(&mut caller) => {
                    if let Stop::Failed(error) = stop {
                        let _ = caller.send(Err(error));
                    }
                    return;
                }
                () = self.session.pause(pause) => {}
            }
        }
    }

    /// The policy is used up; but if there will never be a session again, that is what to say.
    async fn exhausted(&self, source: Option<ClientError>) -> AcquireError {
        // The supervisor may be about to say so.
        match self.session.epoch(Duration::from_millis(100)).await {
            Err(NoEpoch::Over(error)) => self.session_error(error),
            Ok(_) | Err(NoEpoch::NotNow) => {
                AcquireError::RetriesExhausted { path: self.request.path.to_string(), source }
            }
        }
    }

    /// One entering in one epoch, up to the hold. Leaves nothing behind unless it succeeds.
    async fn once(
        &self,
        caller: &mut oneshot::Sender<Answer>,
        entered_at: &mut Option<Moment>,
    ) -> Result<Life, Stop> {
        let patience = self.session.settings.connection_timeout;
        let epoch = tokio::select! {
            biased;
            stop = self.stopped(caller) => return Err(stop),
            epoch = self.session.epoch(patience) => epoch.map_err(|none| match none {
                NoEpoch::NotNow => Stop::Again(None),
                NoEpoch::Over(error) => Stop::Failed(self.session_error(error)),
            })?,
        };
        let demand = epoch.demand();
        let reservation = self.reserve(&epoch)?;
        let trace = Trace::default();
        let admitted = tokio::select! {
            biased;
            () = epoch.over().cancelled() => Err(Stop::Again(None)),
            admitted = self.until_admitted(&epoch, &trace, caller, entered_at) => admitted,
        };
        let stop = match admitted {
            Ok((entered, own, term)) => {
                let note = epoch.note_holder(&entered.node, self.asker);
                let path = self.request.path.clone();
                return Ok(Life { path, epoch, entered, own, term, demand, reservation, note });
            }
            Err(stop) => stop,
        };
        if let Some(duty) = trace.take() {
            let (session, timeout) = (self.session.clone(), epoch.timeout());
            let (removed, gone) = oneshot::channel::<()>();
            let over = epoch.over().is_cancelled();
            self.session.spawn(
                async move {
                    clean_up(&session, epoch, duty, |_| {}).await;
                    // Room first: whoever hears of the removal may use it.
                    drop((reservation, demand));
                    drop(removed);
                }
                .in_current_span(),
            );
            if !over {
                // The caller learns of it when the node is gone, if that can be had soon.
                let _ = tokio::time::timeout(patience.min(timeout / 3), gone).await;
            }
        }
        Err(stop)
    }

    async fn until_admitted(
        &self,
        epoch: &Arc<Epoch>,
        trace: &Trace,
        caller: &mut oneshot::Sender<Answer>,
        entered_at: &mut Option<Moment>,
    ) -> Result<Admitted, Stop> {
        // Not raced with the caller: the answer to a create says what is to be removed.
        let (entered, listing) = enter(self, epoch, trace, caller).await?;
        *entered_at = Some(Moment::now());
        tracing::Span::current().record("contender", &entered.name);
        let mut own = None;
        let Entered { name, .. } = &entered;
        let span = tracing::info_span!("wait", path = %self.request.path, contender = name);
        let waiting = wait(self, epoch, &entered, listing, &mut own).instrument(span);
        let term = self.unless_stopped(caller, waiting).await?;
        Ok((entered, own, term))
    }

    /// Awaits `work`, unless there is no point in going on.
    async fn unless_stopped<T>(
        &self,
        caller: &mut oneshot::Sender<Answer>,
        work: impl Future<Output = Result<T, Stop>> + Send,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            stop = self.stopped(caller) => Err(stop),
            done = work => done,
        }
    }

    /// Fires when there is no point in going on.
    async fn stopped(&self, caller: &mut oneshot::Sender<Answer>) -> Stop {
        tokio::select! {
            () = caller.closed() => Stop::Withdrawn,
            () = self.session.closing().cancelled() => {
                Stop::Failed(self.session_error(SessionError::Closed))
            }
        }
    }

    fn reserve(&self, epoch: &Arc<Epoch>) -> Result<Reservation, Stop> {
        const NAME: usize = 56; // a slash and a contender's name
        let bytes = self.session.absolute(&self.request.path).as_str().len() + NAME;
        let limit = self.session.settings.ephemeral_limit;
        epoch.reserve(bytes, limit).map_err(|in_use| {
            let path = self.request.path.to_string();
            Stop::Failed(AcquireError::TooManyContenders { path, in_use, limit })
        })
    }

    fn session_error(&self, source: SessionError) -> AcquireError {
        AcquireError::Session { path: self.request.path.to_string(), source }
    }
}

type Admitted = (Entered, Option<OwnNode>, Arc<Term>);

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
