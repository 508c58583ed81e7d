//! The supervisor: one task that runs the table of [`state`](super::state), opens one session after another, and renews the
//! lease while a task holds or waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tracing::Instrument;

use super::lease::anchor::{CHECK_INTERVAL, IDLE_PROBES, PROBE_INTERVAL};
use super::retry::{RetryLoop, RetryPolicy};
use super::session::Session;
use super::state::{Action, ConnectionState, Event, Finish, State, step};
use super::{Connection, NoSession, Settings};
use crate::client::{Client, ClientError, DialError, Dialer, Failure, LinkState, LinkWatch};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Loss, Released};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};

/// Opens the first session, and supervises the connection from then on.
pub(crate) async fn connect(dialer: Dialer, settings: Settings) -> Result<Arc<Connection>, Error> {
    let patience = settings.connection_timeout;
    let began = BootInstant::now();
    let mut last = None;
    let dialing = dial(&dialer, &settings, true, &mut last);
    let dialed = match timeout(patience, dialing).await {
        Ok(dialed) => dialed?,
        Err(_) => {
            let servers = &dialer.connect_string;
            let waited = began.elapsed();
            let reasons = dialer.reasons().await;
            let text = format!("no session with {servers} within {waited:?}: {reasons}");
            return Err(Error::new(ErrorKind::Unavailable, text).because(last));
        }
    };
    Ok(supervise(dialed, Some(dialer), settings))
}

/// Supervises the session of a user's client. No other session can follow it.
pub(crate) fn adopt(client: Client, settings: Settings) -> Arc<Connection> {
    // While the process runs, a client with the default options reports a disconnection by then.
    let opened = BootInstant::now().before(client.session_timeout() / 2);
    supervise(Dialed { client, opened }, None, settings)
}

/// The client of a new session.
struct Dialed {
    client: Client,
    /// The session was asked for at this moment at the earliest.
    opened: BootInstant,
}

fn supervise(dialed: Dialed, dialer: Option<Dialer>, settings: Settings) -> Arc<Connection> {
    let root = dialed.client.root().clone();
    let mut supervisor = Supervisor::new(dialer, State::Connected, root, settings);
    let link = supervisor.begin_session(dialed);
    supervisor.start(Some(link))
}

/// Supervises a connection whose first session is opened in the background.
pub(crate) fn open(dialer: Dialer, settings: Settings) -> Arc<Connection> {
    let root = dialer.root();
    Supervisor::new(Some(dialer), State::Opening, root, settings).start(None)
}

/// Opens a session, and retries until that succeeds. `last` is the latest failure.
async fn dial(
    dialer: &Dialer,
    settings: &Settings,
    needs_root: bool,
    last: &mut Option<ClientError>,
) -> Result<Dialed, Error> {
    let mut retry = RetryLoop::new(&RetryPolicy::endless(), Operation::CONNECT);
    loop {
        let opened = BootInstant::now();
        let dialed = async {
            let client = dialer.dial().await?;
            match make_root(&client, settings).await {
                Err(error) if needs_root => return Err(error),
                // A caller that needs the root creates it later, and gets the error of that.
                Err(error) => tracing::debug!(?error, "the namespace was not made"),
                Ok(()) => {}
            }
            Ok(client)
        };
        match dialed.await {
            Ok(client) => return Ok(Dialed { client, opened }),
            Err(DialError::Final(error)) => return Err(error),
            Err(DialError::Transient(error)) => {
                // The policy is endless.
                let pause = retry.next_pause(&format_args!("{error}")).unwrap_or_default();
                *last = Some(error);
                sleep(pause).await;
            }
        }
    }
}

/// Creates the namespace and the chroot where they are missing.
async fn make_root(client: &Client, settings: &Settings) -> Result<(), DialError> {
    let made = client.make_path(&LockPath::root(), &settings.acls).await;
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
    /// The error with which the servers refused another session.
    refused: Option<Error>,
    /// When a close stops waiting for the bodies that work under holds.
    bodies_until: Option<Instant>,
    /// When a late timer was last warned of.
    warned_late: Option<BootInstant>,
    /// The result of `close`.
    outcome: Released,
    closed: watch::Sender<Option<Released>>,
}

/// Once the supervisor has ended, even with its runtime, no task is left to renew the lease or to wake waiters: so holds are lost.
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
            self.connection.gauge.set_state(finish.label());
            // The tasks that would answer waiters have ended with the runtime.
            self.connection.close.cancel();
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
        connection.gauge.set_state(published.label());
        Self {
            connection,
            dialer,
            state,
            session: None,
            refused: None,
            bodies_until: None,
            warned_late: None,
            outcome: Released::Confirmed,
            closed,
        }
    }

    fn start(self, link: Option<LinkWatch>) -> Arc<Connection> {
        let connection = self.connection.clone();
        connection.spawner.spawn(&connection.supervision, self.run(link));
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
                        Ok(dialed) => {
                            link = Some(self.begin_session(dialed));
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

    fn begin_session(&mut self, Dialed { client, opened }: Dialed) -> LinkWatch {
        let link = client.watch_link();
        let asked = self.connection.settings.session_timeout;
        let session = Session::new(client, asked, opened);
        let granted = session.timeout();
        tracing::info!(session = %format_args!("{:#x}", session.session_id()), timeout = ?granted, "session established");
        if granted < asked {
            tracing::warn!(
                ?asked,
                ?granted,
                "the servers grant a shorter session timeout: see their maxSessionTimeout"
            );
        }
        self.session = Some(session.clone());
        drop(self.connection.current.send_replace(Ok(session)));
        metrics::session_opened();
        link
    }

    /// Carries out the actions of an event. `link` is given if there is a session.
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
                    if let Some(label) = state.label() {
                        self.connection.gauge.set_state(Some(label));
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
                    self.connection.gauge.set_state(finish.label());
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

    /// Renews the lease of a session until an event comes. A close is an event when no body works under a hold any more.
    async fn serve(&mut self, session: &Arc<Session>, link: &mut LinkWatch) -> Event {
        // A change from before the watch was created counts as well. `peek` does not consume a change, so `changed` still reports
        // a disconnect that is already repaired.
        match (link.peek(), self.state) {
            (LinkState::Connected, State::Connected)
            | (LinkState::Disconnected, State::Suspended) => {}
            _ => return event_of(link.now()),
        }
        let closing = until_closed(&self.connection, session, &mut self.bodies_until, &self.closed);
        let mut closing = pin!(closing);
        let mut probes = JoinSet::new();
        let mut probe_ticks = ticks(PROBE_INTERVAL.of(session.timeout()));
        let mut check_ticks = ticks(CHECK_INTERVAL.of(session.timeout()));
        let mut checked = BootInstant::now();
        let answering = self.state == State::Connected;
        // The first tick is at once, and sends a probe.
        let mut idle = IDLE_PROBES - 1;
        let (mut used, _budget) = session.watch_budget_gauges();
        used.set(session.used_watch_budget());
        let mut renewals = session.lease.renewals();
        let event = loop {
            let lease_left = session.lease.end().map(|end| end.since(BootInstant::now()));
            tokio::select! {
                biased;
                () = &mut closing => break Event::Close,
                () = session.replaced().cancelled() => break Event::Over,
                state = link.changed() => {
                    // A process that was stopped may notice the disconnection before the timer.
                    if answering {
                        warn_if_late(session, checked, BootInstant::now(), &mut self.warned_late);
                    }
                    break event_of(state);
                }
                () = sleep(lease_left.unwrap_or_default()), if lease_left.is_some() => {
                    // The timer only wakes this task. The clock says whether the lease has ended.
                    let ended = session.lease.check(BootInstant::now());
                    let had_holds = ended.had_holds();
                    ended.wake();
                    if had_holds {
                        tracing::warn!(session = %format_args!("{:#x}", session.session_id()), "the lease ended: what was held is lost");
                    }
                }
                // While disconnected, the answer to an earlier request may begin the lease, and a hold with it.
                _ = renewals.changed(), if lease_left.is_none() => {}
                // Checked before probing: a broken connection must not vouch for its successor. Checked also while nothing is
                // held: the first hold after a reconnect starts with the anchor of that reconnect.
                _ = check_ticks.tick(), if answering => {
                    let now = BootInstant::now();
                    warn_if_late(session, checked, now, &mut self.warned_late);
                    checked = now;
                    if link.has_changed() {
                        break event_of(link.now());
                    }
                    session.lease.seen_connected(now);
                    if probes.is_empty() && session.has_nodes() && session.lease.needs_early_probe(now) {
                        self.connection.spawner.spawn_in_set(&mut probes, probe(session.clone()));
                    }
                }
                // While disconnected no probe is sent: it would wait for the link, and its stamp would grow stale. No contender
                // postpones a tick, so that the anchor advances also while contenders come and go.
                _ = probe_ticks.tick(), if answering => {
                    used.set(session.used_watch_budget());
                    idle = if session.has_nodes() { 0 } else { (idle + 1) % IDLE_PROBES };
                    if idle > 0 {
                        continue;
                    }
                    // The next probe does not wait for this one: a lost answer must not stop the renewal.
                    self.connection.spawner.spawn_in_set(&mut probes, probe(session.clone()));
                }
                Some(_) = probes.join_next() => {}
            }
        };
        probes.shutdown().await;
        event
    }

    /// Ends the session. A close first waits for the tasks, and then for the servers to confirm the end.
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
        // No task may wait for another session while this one waits for the tasks.
        drop(self.connection.current.send_replace(Err(NoSession::Closed(Error::closed()))));
        self.connection.tasks.close();
        // A session that another user keeps open does not end here, so the nodes are deleted one by one. Otherwise the servers
        // delete them with the session, all at once.
        let client = self.dialer.as_ref().and_then(|_| session.end_unless_lent(loss));
        let ends_with_us = client.is_some();
        session.detached().cancel();
        let ended = timeout(patience, async {
            self.connection.tasks.wait().await;
            drop(client);
            if ends_with_us {
                session_over(link).await;
            } else {
                // After an answer, or after the end of the session, no node of ours is left.
                let policy = RetryPolicy::forever(Duration::from_millis(100));
                let _ = self.connection.retried(&policy, || session.probe()).await;
            }
        });
        if ended.await.is_err() {
            self.outcome = Released::Pending;
            if !ends_with_us {
                // The session continues without us, so our nodes must still be deleted. `close` returns now.
                self.closed.send_replace(Some(self.outcome));
                tokio::select! {
                    biased;
                    () = self.connection.tasks.wait() => {}
                    () = session_over(link) => {}
                }
            }
        }
        drop(session.end(loss));
    }

    /// Ends a connection that is closed while it has no session. If it had one, the servers may not know that it is over.
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

    /// Opens a new session, and retries until that succeeds.
    async fn dial(&mut self) -> Result<Dialed, Event> {
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

/// Waits until the connection is to be closed, and then for the end of the work under holds, such as the body of a selector: only
/// then may another process have the lock. All other holds end first. `close` returns when the connection timeout has passed, and the
/// session is kept.
async fn until_closed(
    connection: &Connection,
    session: &Session,
    bodies_until: &mut Option<Instant>,
    closed: &watch::Sender<Option<Released>>,
) {
    connection.close.cancelled().await;
    session.lease.begin_closing();
    connection.work.close();
    let patience = connection.settings.connection_timeout;
    let deadline = *bodies_until.get_or_insert_with(|| Instant::now() + patience);
    if timeout_at(deadline, connection.work.wait()).await.is_err() {
        closed.send_replace(Some(Released::Pending));
        connection.work.wait().await;
    }
}

async fn probe(session: Arc<Session>) {
    if let Err(failure) = session.probe().await {
        tracing::debug!(?failure, "a probe failed");
    }
}

/// The shortest time between two warnings of a late timer.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Warns if the timer that should have fired at a fixed time after `last` is so late that the lease is in danger.
fn warn_if_late(
    session: &Session,
    last: BootInstant,
    now: BootInstant,
    warned: &mut Option<BootInstant>,
) {
    let late = now.since(last).saturating_sub(CHECK_INTERVAL.of(session.timeout()));
    let is_quiet = warned.is_some_and(|warned| now.since(warned) < WARNING_INTERVAL);
    if late > session.timeout() / 6 && !is_quiet {
        *warned = Some(now);
        tracing::warn!(session = %format_args!("{:#x}", session.session_id()), "the runtime ran nothing for {late:.1?}: blocking code, or the process was stopped?");
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits until the session is over.
async fn session_over(link: &mut LinkWatch) {
    while matches!(link.changed().await, LinkState::Connected | LinkState::Disconnected) {}
}

fn event_of(state: LinkState) -> Event {
    match state {
        LinkState::Connected => Event::LinkUp,
        LinkState::Disconnected => Event::LinkDown,
        LinkState::AuthFailed => Event::AuthFailed,
        // No caller closes our client. The client closes itself when it cannot continue.
        LinkState::Expired | LinkState::Closed => Event::Over,
    }
}

#[cfg(all(test, feature = "simulation"))]
mod tests {
    use super::*;
    use crate::session::lease::LossPolicy;

    const TIMEOUT: Duration = Duration::from_millis(600);

    /// An answer that came before the disconnection is taken after it, and a hold begins.
    #[tokio::test]
    async fn a_lease_that_begins_while_disconnected_ends_in_time() {
        let session = Session::without_client(TIMEOUT);
        session.lease.check(BootInstant::now().after(TIMEOUT)).wake();
        let settings = Connection::without_supervisor(&session).settings.clone();
        let state = State::Suspended;
        let mut supervisor = Supervisor::new(None, state, LockPath::root(), settings);
        let sender = watch::Sender::new(LinkState::Disconnected);
        let mut link = LinkWatch::Simulated(sender.subscribe());
        let mut serving = pin!(supervisor.serve(&session, &mut link));
        assert!(futures_util::poll!(&mut serving).is_pending());

        let now = BootInstant::now();
        session.lease.renew(now, now);
        let term = session.lease.term(LossPolicy::Lease, now).expect("a term");
        tokio::select! {
            biased;
            () = term.ended().cancelled() => {}
            _ = serving => panic!("the session ends"),
            () = sleep(10 * TIMEOUT) => panic!("nothing ends the term"),
        }
    }
}
