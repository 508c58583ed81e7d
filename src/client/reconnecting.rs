//! The plan by which the client looks for a server after the connection has broken. Pure.
//!
//! `zookeeper-client` 0.11.2 tries the addresses that it is given in rounds. It draws their order after each connection. The first
//! round has no pauses. In round `r = 1, 2, …` after it, the client pauses for `min(1 s, n * 100 ms) * 2^(r - 1)` before the first of
//! `n` addresses, and for `k * 50 ms` before the `k`-th after that. A random time of up to 100 ms and 50 ms is added.
//!
//! So with few addresses the pauses between rounds soon exceed what is left of a session lease, and with many a round lasts for
//! `n * n * 25 ms`. The client is given *copies* of each server, so many that the pauses are short as long as it matters.
//!
//! A copy has a price. A server that is silent may be tried as often as it has copies before another one is. The client notices
//! each silence late, by an eighth. So it has to take a server for silent after `2T/5 / (1 + copies)`, and then leaves it after
//! `9T/20` at the latest, if the session timeout `T` is 13 s or more; with less it leaves later, but before the lease ends. At least
//! `2T/3 - T/7` of the lease is left when a server falls silent.

use std::cmp::Reverse;
use std::time::Duration;

/// A server may be silent for this long at least: with less, a pause of its garbage collector would count as silence.
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);

/// The shortest silence that copies may cost.
const SHORTEST_SILENCE_WITH_COPIES: Duration = Duration::from_millis(1500);

/// The time from a try until the lease is renewed: a connection, a handshake and a probe, each 100 ms.
const CONNECTION_AND_PROBE: Duration = Duration::from_millis(300);

/// The longest session that servers grant by default.
const LONGEST_SESSION: Duration = Duration::from_secs(40);

/// The greatest number of addresses.
const MOST_ADDRESSES: usize = 64;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reconnecting {
    /// The number of times that the client is given each server.
    pub(crate) copies: usize,
    /// After how long the client leaves a server that is silent, or that does not complete a handshake. Zero leaves the choice to
    /// the client, which takes two fifths of the granted timeout.
    pub(crate) silence: Duration,
}

impl Reconnecting {
    /// `has_own_silence`: the user's connector says how long a server may be silent.
    pub(crate) fn plan(servers: usize, session_timeout: Duration, has_own_silence: bool) -> Self {
        // Two fifths of the session.
        let in_all = session_timeout.min(LONGEST_SESSION) * 2 / 5;
        let allowed = in_all.div_duration_f64(SHORTEST_SILENCE_WITH_COPIES) as usize;
        let most = match servers {
            // There is no other server to go to.
            1 => MOST_ADDRESSES,
            _ if has_own_silence => 1,
            _ => allowed.saturating_sub(1),
        };
        let most = most.clamp(1, (MOST_ADDRESSES / servers).max(1));
        let fewest = |copies: &usize| {
            let (survived, longest_wait) = judge(copies * servers, session_timeout);
            (Reverse(survived), longest_wait > session_timeout / 10, *copies)
        };
        let copies = (1..=most).min_by_key(fewest).unwrap_or(1);
        let tries = if servers == 1 { 1 } else { copies };
        let silence = match in_all <= SHORTEST_SILENCE {
            true => Duration::ZERO,
            false => (in_all / (1 + tries as u32)).max(SHORTEST_SILENCE),
        };
        Self { copies, silence }
    }
}

/// Judges the tries during outages that end before half of the session timeout. Returns the longest outage after which a lease
/// outlasts the next try, and the longest time between two tries. A server that refuses costs a try no time.
fn judge(addresses: usize, session_timeout: Duration) -> (Duration, Duration) {
    // The outages that count end a second before that. The random times of some rounds stray by a quarter of a second.
    let longest = (session_timeout / 2).saturating_sub(Duration::from_millis(750));
    let left_of_the_lease = session_timeout * 2 / 3 - session_timeout / 7;
    let left_for_the_last_try = left_of_the_lease.saturating_sub(CONNECTION_AND_PROBE);
    let mut before = Duration::ZERO;
    let mut longest_wait = Duration::ZERO;
    for at in tries(addresses) {
        if at > left_for_the_last_try || before >= longest {
            break;
        }
        longest_wait = longest_wait.max(at - before);
        before = at;
    }
    (before.min(longest), longest_wait)
}

/// The mean times of the tries after the first round.
fn tries(addresses: usize) -> impl Iterator<Item = Duration> {
    pauses(addresses).scan(Duration::ZERO, |at, pause| {
        *at += pause.shortest + pause.random / 2;
        Some(*at)
    })
}

/// A pause before a try.
pub(super) struct Pause {
    pub(super) shortest: Duration,
    /// The longest time that is added.
    random: Duration,
}

/// The pauses after the first round.
pub(super) fn pauses(addresses: usize) -> impl Iterator<Item = Pause> {
    let pause = move |round: u32, place: usize| {
        let (shortest, random) = match place {
            0 => ((100 * addresses as u64).min(1000) << (round - 1).min(20), 100),
            _ => (50 * place as u64, 50),
        };
        let [shortest, random] = [shortest, random].map(Duration::from_millis);
        Pause { shortest, random }
    };
    (1..).flat_map(move |round| (0..addresses).map(move |place| pause(round, place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn plan(servers: usize, session_timeout: u32) -> Reconnecting {
        Reconnecting::plan(servers, session_timeout * SECOND, false)
    }

    #[test]
    fn a_lease_outlasts_a_silent_server_that_is_tried_again_by_each_of_its_copies() {
        for (asked, granted) in
            [(5, 5), (12, 12), (15, 15), (30, 30), (40, 40), (180, 40), (180, 180)]
        {
            for servers in 2..8 {
                let Reconnecting { copies, silence } = plan(servers, asked);
                let tries = 1 + copies as u32;
                assert!(tries * silence * 9 / 8 <= granted * SECOND * 9 / 20, "{asked}, {servers}");
                assert!(silence >= SHORTEST_SILENCE);
            }
        }
        assert_eq!(plan(3, 2), Reconnecting { copies: 1, silence: Duration::ZERO });
        assert_eq!(plan(3, 4).silence, SECOND);
    }

    /// Three servers with one copy each lose, with 15 s, each hold in an outage of more than 5.5 s.
    #[test]
    fn a_lease_outlasts_outages_of_half_of_the_session_timeout_less_a_second() {
        for session_timeout in [15, 20, 30, 40, 60, 180] {
            let session_timeout = session_timeout * SECOND;
            for servers in [1, 3, 5, 7] {
                let copies = Reconnecting::plan(servers, session_timeout, false).copies;
                let (survived, _) = judge(copies * servers, session_timeout);
                let promised = session_timeout / 2 - SECOND;
                assert!(survived >= promised, "{session_timeout:?}, {servers}: {survived:?}");
            }
        }
    }

    /// Three servers need a fourth copy: with three, the last try that counts is so late that no time is left for its probe.
    #[test]
    fn the_last_try_leaves_time_for_a_connection_and_a_probe() {
        assert_eq!(plan(3, 20).copies, 4);
    }
}
