//! Redlock: a majority of several Redis that know nothing of each other.
//!
//! By the section "The Redlock algorithm" of
//! <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>: all are asked at once, each within a
//! time that is small beside the lease; the lock is held by a majority, for the lease less what the asking took and less an
//! allowance for clocks; without one, all are asked to delete, also those that did not answer.

use std::time::Duration;

use futures_util::future::join_all;
use redis::RedisResult;
use redis::aio::ConnectionManager;

use super::{Hold, Place, Way, redis as shared};
use crate::Failure;
use crate::clock::now;
use crate::event::{Look, Released};

/// "In the ~ 5-50 milliseconds range".
const LIMIT: Duration = Duration::from_millis(50);

pub(crate) struct Redlock {
    connections: Vec<ConnectionManager>,
    key: String,
    lease: Duration,
}

pub(crate) struct RedlockHold {
    connections: Vec<ConnectionManager>,
    key: String,
    owner: String,
    until: Duration,
}

impl Way for Redlock {
    type Hold = RedlockHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let connect = |address: &String| shared::connect_lazily(address, LIMIT);
        let connections: Vec<_> = place.servers.iter().map(connect).collect::<Result<_, _>>()?;
        // The first command would connect, which the limit for an answer is not meant for.
        join_all(connections.iter().map(|one| shared::is_ours(one, &place.name, ""))).await;
        Ok(Self { connections, key: place.name.clone(), lease: place.lease })
    }

    async fn acquire(&self) -> Result<RedlockHold, Failure> {
        loop {
            let (owner, sent) = (shared::owner(), now());
            let set = |one: &ConnectionManager| {
                shared::set_if_absent(one.clone(), &self.key, &owner, self.lease)
            };
            let have = count(join_all(self.connections.iter().map(set)).await);
            let until = sent + self.lease - drift(self.lease);
            let connections = self.connections.clone();
            let hold = RedlockHold { connections, key: self.key.clone(), owner, until };
            if have >= majority(self.connections.len()) && now() < until {
                return Ok(hold);
            }
            hold.delete().await;
            shared::before_the_next_try().await;
        }
    }
}

impl RedlockHold {
    /// How many had it.
    async fn delete(&self) -> usize {
        let all = self.connections.iter();
        count(join_all(all.map(|one| shared::delete_ours(one, &self.key, &self.owner))).await)
    }
}

impl Hold for RedlockHold {
    fn token(&self) -> Option<i64> {
        None // the owner is random
    }

    fn look(&self) -> Look {
        Look::until(self.until)
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        let all = self.connections.iter();
        let have =
            count(join_all(all.map(|one| shared::is_ours(one, &self.key, &self.owner))).await);
        Ok(have >= majority(self.connections.len()))
    }

    async fn release(self) -> Result<Released, Failure> {
        let had = self.delete().await;
        let is_ours = had >= majority(self.connections.len());
        Ok(if is_ours { Released::Ours } else { Released::NotOurs })
    }
}

/// Those that said yes.
fn count(answers: Vec<RedisResult<bool>>) -> usize {
    answers.iter().filter(|answer| matches!(answer, Ok(true))).count()
}

fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// The allowance of the page's own implementation: a hundredth, and two milliseconds for the expiry's precision.
fn drift(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_more_than_half() {
        assert_eq!([1, 2, 3, 4, 5].map(majority), [1, 2, 2, 3, 3]);
    }

    #[test]
    fn the_allowance_is_a_hundredth_and_two_milliseconds() {
        assert_eq!(drift(Duration::from_secs(3)), Duration::from_millis(32));
    }
}
