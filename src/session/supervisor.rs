//! The supervisor: one task that runs the table of [`state`](super::state), opens one session after
//! another, and renews the lease while a task holds or waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use tracing::Instrument;

use super::retry::RetryPolicy;
use super::session::Session;
use super::state::{Action, ConnectionState, Event, Finish, State, step};
use super::{Connection, NoSession, Settings};
use crate::client::{Client, ClientError, DialError, Dialer, Failure, LinkState, LinkWatch};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Loss, Released};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};

/// How many probes are sent in a session timeout while a task holds or waits: as many as the lease needs
/// to be renewed in full.
const PROBES_PER_TIMEOUT: u32 = 7;

/// Of how many of them one is sent while no task does, so that the next hold starts with a lease.
const IDLE_PROBES: u32 = 2;

/// How often in a session timeout it is looked whether the connection is up. No request is made for it.
const LOOKS_PER_TIMEOUT: u32 = 28;

/// Opens the first session, and starts to supervise.
pub(crate) async fn connect(dialer: Dialer, settings: Settings) -> Result<Arc<Connection>, Error> {
    let patience = settings.connection_timeout;
    let began = BootInstant::now();
    let mut last = None;
    let dialing = dial(&dialer, &settings, true, &mut last);
    let (client, opened) = match timeout(patience, dialing).await {
        Ok(dialed) => dialed?,
        Err(_) => {
            let (servers, waited) = (&dialer.connect_string, began.elapsed());
            let text = format!("no session with {servers} within {waited:?}: {}", dialer.hint);
            return Err(Error::new(ErrorKind::Unavailable, text).because(last));
        }
    };
    Ok(supervise(client, opened, Some(dialer), settings))
}

/// Supervises a session of the user's client, which cannot be opened again.
pub(crate) fn adopt(client: Client, settings: Settings) -> Arc<Connection> {
    // With the defaults the client would say so if it had heard nothing for that long; if the process runs.
    let opened = BootInstant::now().before(client.session_timeout() / 2);
    supervise(client, opened, None, settings)
}

fn supervise(
    client: Client,
    opened: BootInstant,
    dialer: Option<Dialer>,
    settings: Settings,
) -> Arc<Connection> {
    let mut supervisor = Supervisor::new(dialer, State::Connected, client.root().clone(), settings);
    let link = supervisor.begin_session(client, opened);
    supervisor.start(Some(link))
}

/// Supervises from before the first session, which is opened in the background.
pub(crate) fn open(dialer: Dialer, settings: Settings) -> Arc<Connection> {
    let root = dialer.root();
    Supervisor::new(Some(dialer), State::Opening, root, settings).start(None)
}

/// Opens a session, for as long as it takes; `last` is the latest failure of a try. Also returns when it asked for the session.
async fn dial(
    dialer: &Dialer,
    settings: &Settings,
    needs_root: bool,
    last: &mut Option<ClientError>,
) -> Result<(Client, BootInstant), Error> {
    let mut retry = RetryPolicy::endless().start();
    loop {
        let opened = BootInstant::now();
        let dialed = async {
            let client = dialer.dial().await?;
            match make_root(&client, settings).await {
                Err(error) if needs_root => return Err(error),
                // A caller that needs the root creates it, and learns why that fails.
                Err(error) => tracing::debug!(?error, "the namespace was not made"),
                Ok(()) => {}
            }
            Ok(client)
        };
        match dialed.await {
            Ok(client) => return Ok((client, opened)),
            Err(DialError::Final(error)) => return Err(error),
            Err(DialError::Transient(error)) => {
                tracing::debug!(%error, "no session yet");
                *last = Some(error);
            }
        }
        metrics::retried(Operation::CONNECT);
        sleep(retry.next_pause(Duration::ZERO).unwrap_or_default()).await;
    }
}

/// Makes the namespace and the chroot where they are missing.
async fn make_root(client: &Client, settings: &Settings) -> Result<(), DialError> {
    let made = client.make_parents(client.root(), &settings.acls).await;
    made.map_err(|failed| match failed.failure {
        Failure::Refused(_) => {
            let doing = "cannot make the namespace or chroot";
            DialError::Final(failed.into_error().while_doing(doing))
        }
        failure => match failure.into_source() {
            Some(error) => DialError::Transient(error),
            None => DialError::Final(Error::closed()),
        },
    })
}

struct Supervisor {
    connection: Arc<Connection>,
    dialer: Option<Dialer>,
    state: State,
    session: Option<Arc<Session>>,
    /// Why no session will be opened any more, if that was said.
    refused: Option<Error>,
    /// What `close` reports.
    outcome: Released,
    closed: watch::Sender<Option<Released>>,
}

/// However it ends, also with its runtime: no task is left to renew the lease or to wake waiters, so what
/// is held is lost.
impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            drop(session.end(Loss::Closed));
        }
        let ended_early = self.connection.current.send_if_modified(|current| {
            let open = !matches!(current, Err(NoSession::Closed(_)));
            if open {
                *current = Err(NoSession::Closed(Error::closed()));
            }
            open
        });
        self.connection.state.send_replace(ConnectionState::Closed);
        if ended_early {
            let finish =
                if self.connection.close.is_cancelled() { Finish::Closed } else { Finish::Expired };
            self.connection.gauge.set_state(finish.word());
        }
    }
}

impl Supervisor {
    fn new(dialer: Option<Dialer>, state: State, root: LockPath, settings: Settings) -> Self {
        let (closed, closed_receiver) = watch::channel(None);
        let published = match state {
            State::Opening => ConnectionState::Connecting,
            _ => ConnectionState::Connected,
        };
        metrics::describe();
        let connection = Connection::new(settings, root, published, closed_receiver);
        connection.gauge.set_state(published.word());
        let (session, refused, outcome) = (None, None, Released::Confirmed);
        Self { connection, dialer, state, session, refused, outcome, closed }
    }

    fn start(self, link: Option<LinkWatch>) -> Arc<Connection> {
        let connection = self.connection.clone();
        connection.home.start(&connection.supervision, self.run(link));
        connection
    }

    async fn run(mut self, mut link: Option<LinkWatch>) {
        loop {
            match (self.state, self.session.clone(), &mut link) {
                (State::Closed, ..) => break,
                (State::Connected | State::Suspended, Some(session), Some(link)) => {
                    let event = self.serve(&session, link).await;
                    self.handle(event, Some(link)).await;
                }
                _ => {
                    let had_one = self.state != State::Opening;
                    let event = match self.dial().await {
                        Ok((client, opened)) => {
                            link = Some(self.begin_session(client, opened));
                            Event::Established
                        }
                        Err(event) => event,
                    };
                    self.handle(event, None).await;
                    if event == Event::Close {
                        self.end_between_sessions(had_one).await;
                    }
                }
            }
        }
        self.closed.send_replace(Some(self.outcome));
    }

    fn begin_session(&mut self, client: Client, opened: BootInstant) -> LinkWatch {
        let link = client.watch_link();
        let session = Session::new(client, self.connection.settings.session_timeout, opened);
        tracing::info!(session = %format_args!("{:#x}", session.session_id()), timeout = ?session.timeout(), "session established");
        self.session = Some(session.clone());
        drop(self.connection.current.send_replace(Ok(session)));
        metrics::session_opened();
        link
    }

    /// `link` is there while there is a session that may end.
    async fn handle(&mut self, event: Event, mut link: Option<&mut LinkWatch>) {
        let (next, actions) = step(self.state, event, self.dialer.is_some());
        self.state = next;
        for action in actions {
            match action {
                Action::Publish(state) => {
                    if let Some(session) = &self.session {
                        match state {
                            ConnectionState::Suspended => session.lease.suspend(),
                            _ => session.lease.resume(),
                        }
                    }
                    tracing::info!(?state, "connection state");
                    self.connection.state.send_replace(state);
                    if let Some(word) = state.word() {
                        self.connection.gauge.set_state(Some(word));
                    }
                }
                Action::EndSession(loss) => {
                    if let Some(link) = link.take() {
                        self.end_session(loss, link).await;
                    }
                }
                Action::Finish(finish) => {
                    let error = self.error_of(finish);
                    drop(self.connection.current.send_replace(Err(NoSession::Closed(error))));
                    self.connection.gauge.set_state(finish.word());
                }
            }
        }
    }

    fn error_of(&self, finish: Finish) -> Error {
        match finish {
            Finish::Closed => Error::closed(),
            Finish::Expired => {
                let text = "the client's session is over, and only its owner can open another";
                Error::new(ErrorKind::Closed, text)
            }
            Finish::AuthFailed => self.refused.clone().unwrap_or_else(|| {
                Error::authentication(
                    self.dialer.as_ref().map_or("", |dialer| &dialer.connect_string),
                )
            }),
        }
    }

    /// Serves a session until something happens to it.
    async fn serve(&self, session: &Arc<Session>, link: &mut LinkWatch) -> Event {
        // Changes from before the watch was made count as well. Those that were undone at once stay
        // unseen here, so that `changed` tells of them.
        match (link.peek(), self.state) {
            (LinkState::Connected, State::Connected)
            | (LinkState::Disconnected, State::Suspended) => {}
            _ => return event_of(link.now()),
        }
        let mut probes = JoinSet::new();
        let mut ticks = times_per(session.timeout(), PROBES_PER_TIMEOUT);
        let mut looks = times_per(session.timeout(), LOOKS_PER_TIMEOUT);
        let answering = self.state == State::Connected;
        // The first tick is at once, and sends one.
        let mut idle = IDLE_PROBES - 1;
        let (mut used, _budget) = session.watch_budget();
        used.set(session.used_room());
        let event = loop {
            let lease_left = session.lease.end().map(|end| end.since(BootInstant::now()));
            tokio::select! {
                biased;
                () = self.connection.close.cancelled() => break Event::Close,
                state = link.changed() => break event_of(state),
                () = sleep(lease_left.unwrap_or_default()), if lease_left.is_some() => {
                    // The clock says whether it ended; the timer only wakes us.
                    session.lease.look(BootInstant::now()).wake();
                    if session.lease.end().is_none() && session.is_demanded() {
                        tracing::warn!(session = %format_args!("{:#x}", session.session_id()), "the lease ended: what was held is lost");
                    }
                }
                // Before the probe: a connection that broke is no other one's proof. Also while nothing is held: the
                // first hold after a reconnect starts with the anchor of that reconnect.
                _ = looks.tick(), if answering => {
                    let now = BootInstant::now();
                    if link.has_changed() {
                        break event_of(link.now());
                    }
                    session.lease.seen_up(now);
                    if probes.is_empty() && session.is_demanded() && session.lease.wants_early_probe(now) {
                        self.connection.home.start_in(&mut probes, probe(session.clone()));
                    }
                }
                // A request made now would wait for the link, and its stamp grow stale. No contender postpones a tick:
                // the anchor must advance also while contenders come and go.
                _ = ticks.tick(), if answering => {
                    used.set(session.used_room());
                    idle = if session.is_demanded() { 0 } else { (idle + 1) % IDLE_PROBES };
                    if idle > 0 {
                        continue;
                    }
                    // Not awaited before the next is sent: a lost answer must not stop the renewal.
                    self.connection.home.start_in(&mut probes, probe(session.clone()));
                }
                Some(_) = probes.join_next() => {}
            }
        };
        probes.shutdown().await;
        event
    }

    async fn end_session(&mut self, loss: Loss, link: &mut LinkWatch) {
        let Some(session) = self.session.take() else {
            return;
        };
        let patience = self.connection.settings.connection_timeout;
        if loss != Loss::Closed {
            drop(self.connection.current.send_replace(Err(NoSession::NotConnected)));
            drop(session.end(loss));
            metrics::session_lost();
            return;
        }
        session.lease.close(loss);
        // No task may wait for a next session while we wait for the tasks.
        drop(self.connection.current.send_replace(Err(NoSession::Closed(Error::closed()))));
        self.connection.tasks.close();
        self.work_ended(patience).await;
        let ours = self.dialer.is_some() && !session.is_lent();
        // A session that another user keeps open does not end with us, so the nodes are deleted one by
        // one; else they go with the session, all at once.
        let client = if ours { session.end(loss) } else { None };
        session.detached().cancel();
        let ended = timeout(patience, async {
            self.connection.tasks.wait().await;
            drop(client);
            if ours {
                over(link).await;
            } else {
                // An answer, or the end of the session: either way nothing of ours is left.
                let policy = RetryPolicy::forever(Duration::from_millis(100));
                let _ = self.connection.retried(&policy, || session.probe()).await;
            }
        });
        if ended.await.is_err() {
            self.outcome = Released::Pending;
            if !ours {
                // The session lives on without us, so our nodes must still go. `close` returns now.
                self.closed.send_replace(Some(self.outcome));
                tokio::select! {
                    biased;
                    () = self.connection.tasks.wait() => {}
                    () = over(link) => {}
                }
            }
        }
        drop(session.end(loss));
    }

    /// A selector's body that learned of the loss ends its work; then others may have the place. `close` returns in time.
    async fn work_ended(&mut self, patience: Duration) {
        self.connection.work.close();
        if timeout(patience, self.connection.work.wait()).await.is_err() {
            self.outcome = Released::Pending;
            self.closed.send_replace(Some(self.outcome));
            self.connection.work.wait().await;
        }
    }

    /// Closed while there was no session: whether the servers know that the last one is over, if there was one,
    /// is not known.
    async fn end_between_sessions(&mut self, had_one: bool) {
        self.connection.tasks.close();
        let patience = self.connection.settings.connection_timeout;
        if timeout(patience, self.connection.tasks.wait()).await.is_err() {
            tracing::warn!("tasks are left behind by a session that is closed");
        }
        if had_one {
            self.outcome = Released::Pending;
        }
    }

    /// Opens a new session, for as long as it takes.
    async fn dial(&mut self) -> Result<(Client, BootInstant), Event> {
        let Some(dialer) = &self.dialer else {
            return Err(Event::Over);
        };
        let mut last = None;
        let dialing = dial(dialer, &self.connection.settings, false, &mut last);
        tokio::select! {
            biased;
            () = self.connection.close.cancelled() => Err(Event::Close),
            dialed = dialing.instrument(tracing::info_span!("connect")) => dialed.map_err(|error| {
                tracing::warn!(%error, "no session can be opened");
                self.refused = Some(error);
                Event::Refused
            }),
        }
    }
}

async fn probe(session: Arc<Session>) {
    if let Err(failure) = session.probe().await {
        tracing::debug!(?failure, "a probe failed");
    }
}

fn times_per(timeout: Duration, count: u32) -> Interval {
    let mut ticks = interval((timeout / count).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn over(link: &mut LinkWatch) {
    while matches!(link.changed().await, LinkState::Connected | LinkState::Disconnected) {}
}

fn event_of(state: LinkState) -> Event {
    match state {
        LinkState::Connected => Event::LinkUp,
        LinkState::Disconnected => Event::LinkDown,
        LinkState::AuthFailed => Event::AuthFailed,
        // No caller closes our client; the client itself does when it cannot go on.
        LinkState::Expired | LinkState::Closed => Event::Over,
    }
}
