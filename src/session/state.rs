//! The life of a connection as a table: state and event in, next state and actions out.
//!
//! ```text
//!                 LinkDown                        Close, AuthFailed
//!   Connected <-------------> Suspended      (any) -----------------> Closed
//!       |          LinkUp         |
//!       | Over                    | Over
//!       +----------> Dialing <----+          Over without a way to a new session: Closed
//!                       |
//!                       | Established        Opening (the first session) goes on as Dialing does
//!                       v
//!                   Connected
//! ```
//!
//! Pure: no I/O, no clock.

use crate::error::Loss;

/// What a [`Curator`](crate::Curator) knows of its connection.
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
    /// No server has given a session yet; the first one is being opened, after
    /// [`CuratorBuilder::connect_lazy`](crate::CuratorBuilder::connect_lazy).
    Connecting,
    /// Connected, and has been without interruption.
    Connected,
    /// No server answers. The session may live on: holds last until their lease ends, and waiters
    /// keep their places.
    Suspended,
    /// Connected again, in the same session or, after [`Lost`](Self::Lost), in a new one.
    Reconnected,
    /// The session is over, and with it all that was held or queued. A new one is being opened.
    Lost,
    /// Closed for good.
    Closed,
}

impl ConnectionState {
    /// In one word, for the metrics; `Reconnected` is as good as `Connected`. None for `Closed`: a caller that closes wants
    /// no connection, and one that [failed](Finish::word) is another matter.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Self::Connecting => Some("connecting"),
            Self::Connected | Self::Reconnected => Some("connected"),
            Self::Suspended => Some("suspended"),
            Self::Lost => Some("lost"),
            Self::Closed => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No session yet; the first one is being opened.
    Opening,
    /// No session; the next one is being opened.
    Dialing,
    /// In a session, with a server that answers.
    Connected,
    /// In a session that no server answers for.
    Suspended,
    /// For good.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A new session is open.
    Established,
    /// The servers refuse to open a session, and will again.
    Refused,
    /// A server answers, maybe after an interruption that was not seen.
    LinkUp,
    LinkDown,
    /// The session expired, or its client gave up.
    Over,
    AuthFailed,
    /// The user closes.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Publish(ConnectionState),
    /// Holds of the session are lost, its duties pass on.
    EndSession(Loss),
    /// Every caller learns that it is over.
    Finish(Finish),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Closed,
    AuthFailed,
    /// The session is over, and cannot be followed by another.
    Expired,
}

impl Finish {
    /// As [`ConnectionState::word`], of what is over.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Self::Closed => None,
            Self::AuthFailed | Self::Expired => Some("failed"),
        }
    }
}

/// `renewable`: a new session can follow the present one.
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
        // Only a change is an event, so it was down in between: `LossPolicy::Suspended` must hear of it.
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

    proptest! {
        /// Invariant 7: whatever happens, a session that began is ended exactly once, and nothing is
        /// published after `Closed`.
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
