//! The states of a connection as a table: a state and an event go in, the next state and actions come out.
//!
//! ```text
//!                 LinkDown                        Close, AuthFailed
//!   Connected <-------------> Suspended      (any) -----------------> Closed
//!       |          LinkUp         |
//!       | Over                    | Over
//!       +----------> Dialing <----+          Over without a way to a new session: Closed
//!                       |
//!                       | Established        Opening (the first session) continues as Dialing does
//!                       v
//!                   Connected
//! ```
//!
//! Pure: no I/O, no clock.

use std::fmt;

use crate::error::Loss;

/// The state of a [`Curator`](crate::Curator)'s connection.
///
/// ```no_run
/// # use zookeeper_recipes::Curator;
/// # use zookeeper_recipes::session::ConnectionState;
/// # async fn example(curator: Curator) {
/// let mut state = curator.watch_state();
/// while state.changed().await.is_ok() {
///     match *state.borrow_and_update() {
///         ConnectionState::Suspended => println!("no server answers"),
///         ConnectionState::Lost => println!("the session expired, and another is opened"),
///         state => println!("{state:?}"),
///     }
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// No server has opened a session yet. The first one is being opened, after
    /// [`CuratorBuilder::connect_lazy`](crate::CuratorBuilder::connect_lazy).
    Connecting,
    /// Connected without interruption since the session was opened.
    Connected,
    /// No server answers. The session may still exist: holds last until their lease ends, and waiters keep their places.
    Suspended,
    /// Connected again, in the same session or, after [`Lost`](Self::Lost), in a new one.
    Reconnected,
    /// The session is over: its holds are lost, and its waiters must enter again. A new session is being opened.
    Lost,
    /// The connection is closed for good.
    Closed,
}

impl ConnectionState {
    /// Returns true while a server answers: in the states `Connected` and `Reconnected`.
    #[must_use]
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected)
    }

    /// Returns the label of the metrics, which is the same for `Reconnected` as for `Connected`. `Closed` has none: a connection
    /// that is closed is not counted, and [`Finish::label`] labels one that failed.
    pub(super) fn label(self) -> Option<&'static str> {
        match self {
            Self::Connecting => Some("connecting"),
            Self::Connected | Self::Reconnected => Some("connected"),
            Self::Suspended => Some("suspended"),
            Self::Lost => Some("lost"),
            Self::Closed => None,
        }
    }
}

/// In lower case, for logs and health checks.
impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Suspended => "suspended",
            Self::Reconnected => "reconnected",
            Self::Lost => "lost",
            Self::Closed => "closed",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There was no session yet. The first one is being opened.
    Opening,
    /// There is no session. The next one is being opened.
    Dialing,
    /// There is a session, and a server answers.
    Connected,
    /// There is a session, and no server answers.
    Suspended,
    /// No session will be opened again.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A new session is open.
    Established,
    /// The servers refuse to open a session, and will refuse again.
    Refused,
    /// A server answers, perhaps after an interruption that was not seen.
    LinkUp,
    LinkDown,
    /// The session expired, or its client gave up.
    Over,
    AuthFailed,
    /// The user closes the connection.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Publish(ConnectionState),
    /// Ends the session: its holds are lost, and its clean-up tasks pass to the next session.
    EndSession(Loss),
    /// Callers that wait for a session get an error.
    Finish(Finish),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Closed,
    AuthFailed,
    /// The session is over, and no other can follow it.
    Expired,
}

impl Finish {
    /// Returns the label of the metrics for a connection that is over, if it is still counted.
    pub(super) fn label(self) -> Option<&'static str> {
        match self {
            Self::Closed => None,
            Self::AuthFailed | Self::Expired => Some("failed"),
        }
    }
}

/// Returns the next state, and the actions that lead to it. `renewable` is true if a new session can follow the present one.
pub(super) fn step(state: State, event: Event, renewable: bool) -> (State, Vec<Action>) {
    use Action::{EndSession, Finish as End, Publish};
    use ConnectionState as C;

    let lost = [EndSession(Loss::SessionExpired), Publish(C::Lost)];
    let closed = |finish| [End(finish), Publish(C::Closed)];
    match (state, event) {
        (State::Closed, _)
        | (State::Suspended, Event::LinkDown)
        | (State::Opening | State::Dialing, Event::LinkUp | Event::LinkDown | Event::Over)
        | (State::Connected | State::Suspended, Event::Established | Event::Refused) => {
            (state, vec![])
        }

        (State::Opening, Event::Established) => (State::Connected, vec![Publish(C::Connected)]),
        (State::Dialing, Event::Established) => (State::Connected, vec![Publish(C::Reconnected)]),
        (State::Opening | State::Dialing, Event::Close) => {
            (State::Closed, closed(Finish::Closed).into())
        }
        (State::Opening | State::Dialing, Event::Refused | Event::AuthFailed) => {
            (State::Closed, closed(Finish::AuthFailed).into())
        }

        (State::Connected, Event::LinkDown) => (State::Suspended, vec![Publish(C::Suspended)]),
        (State::Suspended, Event::LinkUp) => (State::Connected, vec![Publish(C::Reconnected)]),
        // Only a change is an event, so the link was down in between: holds under `LossPolicy::Suspended` must end.
        (State::Connected, Event::LinkUp) => {
            (State::Connected, vec![Publish(C::Suspended), Publish(C::Reconnected)])
        }

        (_, Event::Over) if renewable => (State::Dialing, lost.into()),
        (_, Event::Over) => (State::Closed, [lost, closed(Finish::Expired)].concat()),
        (_, Event::AuthFailed) => (State::Closed, [lost, closed(Finish::AuthFailed)].concat()),
        (_, Event::Close) => {
            (State::Closed, vec![EndSession(Loss::Closed), End(Finish::Closed), Publish(C::Closed)])
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Action::{EndSession, Finish as End, Publish};
    use super::ConnectionState as C;
    use super::*;

    const STATES: [State; 5] =
        [State::Opening, State::Dialing, State::Connected, State::Suspended, State::Closed];
    const EVENTS: [Event; 7] = [
        Event::Established,
        Event::Refused,
        Event::LinkUp,
        Event::LinkDown,
        Event::Over,
        Event::AuthFailed,
        Event::Close,
    ];

    #[test]
    fn table() {
        let expired = vec![EndSession(Loss::SessionExpired), Publish(C::Lost)];
        let rows = [
            (State::Connected, Event::LinkDown, State::Suspended, vec![Publish(C::Suspended)]),
            (
                State::Connected,
                Event::LinkUp,
                State::Connected,
                vec![Publish(C::Suspended), Publish(C::Reconnected)],
            ),
            (State::Suspended, Event::LinkUp, State::Connected, vec![Publish(C::Reconnected)]),
            (State::Suspended, Event::LinkDown, State::Suspended, vec![]),
            (State::Connected, Event::Over, State::Dialing, expired.clone()),
            (State::Suspended, Event::Over, State::Dialing, expired),
            (State::Opening, Event::Established, State::Connected, vec![Publish(C::Connected)]),
            (State::Opening, Event::Over, State::Opening, vec![]),
            (
                State::Opening,
                Event::Close,
                State::Closed,
                vec![End(Finish::Closed), Publish(C::Closed)],
            ),
            (State::Dialing, Event::Established, State::Connected, vec![Publish(C::Reconnected)]),
            (
                State::Dialing,
                Event::Refused,
                State::Closed,
                vec![End(Finish::AuthFailed), Publish(C::Closed)],
            ),
            (
                State::Dialing,
                Event::Close,
                State::Closed,
                vec![End(Finish::Closed), Publish(C::Closed)],
            ),
            (
                State::Suspended,
                Event::Close,
                State::Closed,
                vec![EndSession(Loss::Closed), End(Finish::Closed), Publish(C::Closed)],
            ),
            (
                State::Connected,
                Event::AuthFailed,
                State::Closed,
                vec![
                    EndSession(Loss::SessionExpired),
                    Publish(C::Lost),
                    End(Finish::AuthFailed),
                    Publish(C::Closed),
                ],
            ),
        ];
        for (state, event, next, actions) in rows {
            assert_eq!(step(state, event, true), (next, actions), "{state:?} + {event:?}");
        }
    }

    #[test]
    fn a_session_that_cannot_be_renewed_ends_for_good() {
        let (next, actions) = step(State::Suspended, Event::Over, false);
        assert_eq!(next, State::Closed);
        assert_eq!(
            actions,
            [
                EndSession(Loss::SessionExpired),
                Publish(C::Lost),
                End(Finish::Expired),
                Publish(C::Closed)
            ]
        );
    }

    #[test]
    fn closed_is_closed() {
        for event in EVENTS {
            assert_eq!(step(State::Closed, event, true), (State::Closed, vec![]));
        }
    }

    /// Dashboards match these words.
    #[test]
    fn labels_of_the_metrics() {
        for (state, label) in [
            (C::Connecting, Some("connecting")),
            (C::Connected, Some("connected")),
            (C::Suspended, Some("suspended")),
            (C::Reconnected, Some("connected")),
            (C::Lost, Some("lost")),
            (C::Closed, None),
        ] {
            assert_eq!(state.label(), label, "{state:?}");
        }
        for (finish, label) in [
            (Finish::Closed, None),
            (Finish::AuthFailed, Some("failed")),
            (Finish::Expired, Some("failed")),
        ] {
            assert_eq!(finish.label(), label, "{finish:?}");
        }
    }

    proptest! {
        /// Invariant 7: after any events, a session that began is ended exactly once, and nothing is published after `Closed`.
        #[test]
        fn every_session_ends_once(events in proptest::collection::vec(0..EVENTS.len(), 0..40), renewable: bool) {
            let mut state = State::Opening;
            let mut open = false;
            for event in events {
                let was = state;
                let (next, actions) = step(state, EVENTS[event], renewable);
                for action in &actions {
                    if let EndSession(_) = action {
                        prop_assert!(open);
                        open = false;
                    }
                }
                if matches!(was, State::Opening | State::Dialing) && next == State::Connected {
                    prop_assert!(!open);
                    open = true;
                }
                prop_assert_eq!(open, matches!(next, State::Connected | State::Suspended));
                prop_assert!(was != State::Closed || actions.is_empty());
                state = next;
            }
            prop_assert!(STATES.contains(&state));
        }
    }
}
