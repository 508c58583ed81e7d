//! MariaDB: who inserts the row of this name holds; the row says until when.
//!
//! As ShedLock (<https://github.com/lukas-krecan/ShedLock>) and Spring's `JdbcLockRegistry`
//! (<https://docs.spring.io/spring-integration/reference/jdbc/lock-registry.html>) do it: a row left by the dead is
//! deleted when its time is over, by the database's clock, and waiters try again every 100 ms (Spring's default).
//! Neither renews unless told to. The row's automatic number is a token.

use std::time::Duration;

use mysql_async::Pool;
use mysql_async::prelude::Queryable;
use tokio::time::sleep;

use super::mariadb::{DUPLICATE, is_code, pool};
use super::{Hold, Place, Way};
use crate::Failure;
use crate::clock::now;
use crate::event::{Look, Released};

const BETWEEN_TRIES: Duration = Duration::from_millis(100);

const INSERT: &str =
    "INSERT INTO locks (name, expires) VALUES (?, NOW(6) + INTERVAL ? MICROSECOND)";
const DELETE_EXPIRED: &str = "DELETE FROM locks WHERE name = ? AND expires < NOW(6)";
const DELETE_OURS: &str = "DELETE FROM locks WHERE id = ?";
const COUNT_OURS: &str = "SELECT COUNT(*) FROM locks WHERE id = ?";

pub(crate) struct UniqueRow {
    pool: Pool,
    name: String,
    lease: Duration,
}

pub(crate) struct UniqueRowHold {
    pool: Pool,
    id: u64,
    until: Duration,
}

impl Way for UniqueRow {
    type Hold = UniqueRowHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let pool = pool(place.servers.first().ok_or("no server")?)?;
        Ok(Self { pool, name: place.name.clone(), lease: place.lease })
    }

    async fn acquire(&self) -> Result<UniqueRowHold, Failure> {
        loop {
            let sent = now();
            match self.try_once().await {
                Ok(Some(id)) => {
                    return Ok(UniqueRowHold {
                        pool: self.pool.clone(),
                        id,
                        until: sent + self.lease,
                    });
                }
                // Nobody's any more: at once.
                Ok(None) => continue,
                // Another's, a dead-lock with another waiter, or the server is away.
                Err(_) => sleep(BETWEEN_TRIES).await,
            }
        }
    }
}

impl UniqueRow {
    /// The row's number; `None` if it was another's whose time is over, and is gone now.
    async fn try_once(&self) -> Result<Option<u64>, mysql_async::Error> {
        let mut connection = self.pool.get_conn().await?;
        let microseconds = u64::try_from(self.lease.as_micros()).unwrap_or(u64::MAX);
        match connection.exec_drop(INSERT, (&self.name, microseconds)).await {
            Ok(()) => Ok(connection.last_insert_id()),
            Err(error) if is_code(&error, DUPLICATE) => {
                connection.exec_drop(DELETE_EXPIRED, (&self.name,)).await?;
                if connection.affected_rows() == 0 { Err(error) } else { Ok(None) }
            }
            Err(error) => Err(error),
        }
    }
}

impl Hold for UniqueRowHold {
    fn token(&self) -> Option<i64> {
        i64::try_from(self.id).ok()
    }

    fn look(&self) -> Look {
        Look::until(self.until)
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        let count: Option<u64> =
            self.pool.get_conn().await?.exec_first(COUNT_OURS, (self.id,)).await?;
        Ok(count == Some(1))
    }

    async fn release(self) -> Result<Released, Failure> {
        let mut connection = self.pool.get_conn().await?;
        connection.exec_drop(DELETE_OURS, (self.id,)).await?;
        Ok(if connection.affected_rows() == 1 { Released::Ours } else { Released::NotOurs })
    }
}
