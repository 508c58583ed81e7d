//! One Redis: `SET key owner NX PX lease`, and a delete that compares the owner.
//!
//! By the section "Correct implementation with a single instance" of
//! <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>. There is no renewal in it: the lease is
//! the time that the work may take. A holder that keeps the time of its request knows by its own clock when it is over.

use std::time::Duration;

use redis::aio::ConnectionManager;

use super::{Hold, Place, Way, redis as shared};
use crate::Failure;
use crate::clock::now;
use crate::event::{Look, Released};

pub(crate) struct SetNx {
    connection: ConnectionManager,
    key: String,
    lease: Duration,
}

pub(crate) struct SetNxHold {
    connection: ConnectionManager,
    key: String,
    owner: String,
    until: Duration,
}

impl Way for SetNx {
    type Hold = SetNxHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let address = place.servers.first().ok_or("no server")?;
        let connection = shared::connect_lazily(address, Duration::from_secs(2))?;
        Ok(Self { connection, key: place.name.clone(), lease: place.lease })
    }

    async fn acquire(&self) -> Result<SetNxHold, Failure> {
        loop {
            // A new owner for each try: one whose answer was lost may hold, and then it is waited for as any other.
            let (owner, sent) = (shared::owner(), now());
            let connection = self.connection.clone();
            let set = shared::set_if_absent(connection.clone(), &self.key, &owner, self.lease);
            if set.await.unwrap_or(false) {
                let until = sent + self.lease;
                return Ok(SetNxHold { connection, key: self.key.clone(), owner, until });
            }
            shared::before_the_next_try().await;
        }
    }
}

impl Hold for SetNxHold {
    fn token(&self) -> Option<i64> {
        None // the owner is random
    }

    fn look(&self) -> Look {
        Look::until(self.until)
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        Ok(shared::is_ours(&self.connection, &self.key, &self.owner).await?)
    }

    async fn release(self) -> Result<Released, Failure> {
        let deleted = shared::delete_ours(&self.connection, &self.key, &self.owner).await?;
        Ok(if deleted { Released::Ours } else { Released::NotOurs })
    }
}
