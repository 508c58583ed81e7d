//! What a local queue is for the entry that takes its seat.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::effects::Effects;
use super::state::{Admitted, LocalQueue, NotAdmitted, Seat, Waiter};
use super::warn_of_deadlock;
use crate::client::ClientError;
use crate::clock::Moment;
use crate::error::Error;
use crate::queue::request::{Request, Stop, is_session_over};
use crate::session::epoch::Asker;

impl LocalQueue {
    /// The contender whose node is to be created, and which waiters may hold by it whatever comes.
    pub(in crate::queue) fn first(&self) -> Result<(Arc<Request>, u64), Stop> {
        let state = self.state.lock();
        let first = state.waiters.values().next().ok_or(Stop::Abandoned)?;
        Ok((first.request.clone(), state.next_ticket))
    }

    /// Fires when there is no point in going on.
    pub(in crate::queue) async fn stopped(&self) -> Stop {
        loop {
            let left = self.left.notified();
            let mut left = std::pin::pin!(left);
            left.as_mut().enable();
            if self.state.lock().waiters.is_empty() {
                return Stop::Abandoned;
            }
            tokio::select! {
                biased;
                () = self.session().closing().cancelled() => {
                    self.fail_all(|request| request.session_error(Error::closed()));
                    return Stop::Abandoned;
                }
                () = left => {}
            }
        }
    }

    /// Awaits `work`, unless there is no point in going on.
    pub(in crate::queue) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Stop>> + Send,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            stop = self.stopped() => Err(stop),
            done = work => done,
        }
    }

    /// The node is first: begins the hold of the first waiter.
    pub(in crate::queue) fn admit(
        self: &Arc<Self>,
        mut admitted: Admitted,
    ) -> Result<(), NotAdmitted> {
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        admitted.looks_alone(state.next_ticket);
        let first = state.waiters.first_key_value();
        let first = first.map(|(ticket, first)| (*ticket, first.request.clone()));
        let admission = match first {
            None => Err(NotAdmitted::Stop(Stop::Abandoned)),
            // Those that it was made for have left: others are served by one of their own.
            Some((ticket, first))
                if ticket >= admitted.serves || !admitted.request.has_node_of(&first) =>
            {
                Err(NotAdmitted::Stop(Stop::Abandoned))
            }
            Some(_) if self.session().closing().is_cancelled() => {
                Err(NotAdmitted::Stop(Stop::Abandoned))
            }
            // Invariant 2: our node was seen in this epoch, and the lease lasts now.
            Some((_, first)) => match self.term(&admitted, &first, &mut effects) {
                Some(term) => Ok((term, admitted)),
                None => Err(NotAdmitted::NoLease(admitted)),
            },
        };
        let admission = admission.map(|(term, admitted)| state.begin(admitted, term, &mut effects));
        drop(state);
        effects.run(self);
        admission
    }

    /// The servers say that another contender is first: callers that asked not to wait get busy.
    pub(in crate::queue) fn is_behind(&self, is_held_by: impl Fn(Asker) -> bool) {
        let mut state = self.state.lock();
        let first_time = matches!(state.seat, Seat::Entering { behind: false });
        state.seat = Seat::Entering { behind: true };
        let tries = state.take_tries();
        let queued = state.take_untold();
        let mut waiters = state.waiters.values();
        let deadlock = waiters.find(|waiter| first_time && is_held_by(waiter.asker));
        let deadlock = deadlock.map(|waiter| waiter.request.path.clone());
        let nobody = state.waiters.is_empty();
        drop(state);
        queued.into_iter().for_each(|queued| _ = queued.send_replace(true));
        tries.into_iter().for_each(|waiter| _ = waiter.reply.send(Ok(None)));
        deadlock.inspect(|path| warn_of_deadlock(path.as_str()));
        if nobody {
            self.left.notify_waiters();
        }
    }

    /// What came of a try for `request` ends the wait of all whose node would be the same.
    pub(in crate::queue) fn fail(&self, request: &Request, error: &Error) {
        let mut state = self.state.lock();
        let failed = state.take_all(|waiter| waiter.request.has_node_of(request));
        drop(state);
        failed.into_iter().for_each(|waiter| _ = waiter.reply.send(Err(error.clone())));
    }

    pub(super) fn fail_all(&self, error: impl Fn(&Request) -> Error) {
        let mut effects = Effects::default();
        self.state.lock().fail_all(error, &mut effects);
        effects.answer();
    }

    /// A try failed: it counts for each waiter; the pause before the next is that of the first waiter that has one left.
    /// `anew`: all went well for so long that this is a new trouble.
    pub(in crate::queue) async fn another_try(
        &self,
        cause: Option<ClientError>,
        anew: bool,
    ) -> Option<Duration> {
        let mut pause = None;
        let exhausted = {
            let mut state = self.state.lock();
            state.take_all(|waiter| {
                if anew {
                    (waiter.began, waiter.retry) = (Moment::now(), waiter.request.retry.start());
                }
                let next = waiter.retry.next_pause(waiter.began.elapsed());
                pause = pause.or(next);
                next.is_none()
            })
        };
        if !exhausted.is_empty() {
            let over = is_session_over(self.session()).await;
            for Waiter { request, reply, .. } in exhausted {
                let _ = reply.send(Err(request.gave_up(over.clone(), cause.clone())));
            }
        }
        pause
    }

    /// Ends all waits: there will be no session.
    pub(in crate::queue) fn session_over(&self, error: &Error) {
        self.fail_all(|request| request.session_error(error.clone()));
    }

    /// Whether the entry is over: no task waits, and the seat is empty.
    pub(in crate::queue) fn is_done(&self) -> bool {
        let mut state = self.state.lock();
        let done = state.waiters.is_empty();
        state.seat = if done { Seat::Empty } else { Seat::Entering { behind: false } };
        done
    }
}
