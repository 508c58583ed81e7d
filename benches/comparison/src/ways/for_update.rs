//! MariaDB: a transaction that has read the row of this name `FOR UPDATE`.
//!
//! By <https://mariadb.com/docs/server/reference/sql-statements/data-manipulation/selecting-data/for-update>. The lock is the transaction's: it ends with the commit, or with the
//! connection. The server keeps the waiters, each for `innodb_lock_wait_timeout` (50 s); then they ask again.

use mysql_async::prelude::Queryable;
use mysql_async::{Pool, Transaction, TxOpts};

use super::mariadb::{is_code, pool};
use super::{Hold, Place, Way};
use crate::Failure;
use crate::event::{Look, Released};

/// `innodb_lock_wait_timeout` is over.
const WAITED_LONG: u16 = 1205;

pub(crate) struct ForUpdate {
    pool: Pool,
    name: String,
}

pub(crate) struct ForUpdateHold {
    transaction: Transaction<'static>,
}

impl Way for ForUpdate {
    type Hold = ForUpdateHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let pool = pool(place.servers.first().ok_or("no server")?)?;
        // There must be a row to lock. An insert would wait for who holds it, a look does not.
        let mut connection = pool.get_conn().await?;
        let select = "SELECT COUNT(*) FROM mutexes WHERE name = ?";
        if connection.exec_first::<u64, _, _>(select, (&place.name,)).await? == Some(0) {
            let insert = "INSERT IGNORE INTO mutexes (name) VALUES (?)";
            connection.exec_drop(insert, (&place.name,)).await?;
        }
        drop(connection);
        Ok(Self { pool, name: place.name.clone() })
    }

    async fn acquire(&self) -> Result<ForUpdateHold, Failure> {
        let mut transaction = self.pool.start_transaction(TxOpts::default()).await?;
        loop {
            let select = "SELECT name FROM mutexes WHERE name = ? FOR UPDATE";
            match transaction.exec_drop(select, (&self.name,)).await {
                Ok(()) => return Ok(ForUpdateHold { transaction }),
                Err(error) if is_code(&error, WAITED_LONG) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Hold for ForUpdateHold {
    fn token(&self) -> Option<i64> {
        None // what is written in the same transaction needs none
    }

    fn look(&self) -> Look {
        Look::CannotTell
    }

    /// The row is locked as long as the transaction lives.
    async fn ask(&mut self) -> Result<bool, Failure> {
        self.transaction.query_drop("SELECT 1").await?;
        Ok(true)
    }

    async fn release(self) -> Result<Released, Failure> {
        self.transaction.commit().await?;
        Ok(Released::Ours)
    }
}
