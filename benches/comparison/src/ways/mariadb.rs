//! MariaDB: the process that inserts the row of a name holds the lock, or the transaction that read it `FOR UPDATE`.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Error, OptsBuilder, Pool, PoolConstraints, PoolOpts, Transaction, TxOpts};
use tokio::time::sleep;

use crate::lock::{Failure, Lock};

/// There is a row with this name.
const DUPLICATE: u16 = 1062;
/// `innodb_lock_wait_timeout` is over.
const WAITED_LONG: u16 = 1205;

/// As its root, over TCP.
pub(crate) fn options(address: &str) -> Result<OptsBuilder, Failure> {
    let (host, port) = address.split_once(':').ok_or("no port in the address")?;
    let options = OptsBuilder::default().ip_or_hostname(host).tcp_port(port.parse()?);
    Ok(options.prefer_socket(false).user(Some("root")))
}

fn pool(servers: &[String]) -> Result<Pool, Failure> {
    let constraints = PoolConstraints::new(1, 8).ok_or("bad bounds of the pool")?;
    // A reset of each connection that comes back is one more round trip.
    let pooled = PoolOpts::default().with_constraints(constraints).with_reset_connection(false);
    let options = options(servers.first().ok_or("no server")?)?;
    Ok(Pool::new(options.db_name(Some("comparison")).pool_opts(pooled)))
}

fn is_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Server(server) if server.code == code)
}

/// As ShedLock (<https://github.com/lukas-krecan/ShedLock>) and Spring's `JdbcLockRegistry`
/// (<https://docs.spring.io/spring-integration/reference/jdbc/lock-registry.html>) do it: the row has an end, by the
/// database's clock, and waiters try again every 100 ms, Spring's default.
pub(crate) struct UniqueRow {
    pool: Pool,
    name: String,
    lease: Duration,
}

impl UniqueRow {
    /// The row's number; `None` if the row was another's, had expired and is deleted now.
    async fn try_once(&self) -> Result<Option<u64>, Error> {
        const INSERT: &str =
            "INSERT INTO locks (name, expires) VALUES (?, NOW(6) + INTERVAL ? MICROSECOND)";
        const DELETE_EXPIRED: &str = "DELETE FROM locks WHERE name = ? AND expires < NOW(6)";
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

impl Lock for UniqueRow {
    type Hold = u64;

    async fn connect(servers: &[String], name: &str, lease: Duration) -> Result<Self, Failure> {
        Ok(Self { pool: pool(servers)?, name: name.to_owned(), lease })
    }

    async fn acquire(&self) -> Result<u64, Failure> {
        loop {
            match self.try_once().await {
                Ok(Some(row)) => return Ok(row),
                Ok(None) => {}
                // Another's, or a deadlock with another waiter.
                Err(Error::Server(_)) => sleep(Duration::from_millis(100)).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release(&self, row: u64) -> Result<(), Failure> {
        let mut connection = self.pool.get_conn().await?;
        Ok(connection.exec_drop("DELETE FROM locks WHERE id = ?", (row,)).await?)
    }
}

/// By <https://mariadb.com/docs/server/reference/sql-statements/data-manipulation/selecting-data/for-update>. The lock is the
/// transaction's, and ends with its connection.
pub(crate) struct ForUpdate {
    pool: Pool,
    name: String,
}

impl Lock for ForUpdate {
    type Hold = Transaction<'static>;

    async fn connect(servers: &[String], name: &str, _lease: Duration) -> Result<Self, Failure> {
        let pool = pool(servers)?;
        // There must be a row to lock. An insert waits for the holder, a select does not.
        let mut connection = pool.get_conn().await?;
        let select = "SELECT COUNT(*) FROM mutexes WHERE name = ?";
        if connection.exec_first::<u64, _, _>(select, (name,)).await? == Some(0) {
            let insert = "INSERT IGNORE INTO mutexes (name) VALUES (?)";
            connection.exec_drop(insert, (name,)).await?;
        }
        Ok(Self { pool: pool.clone(), name: name.to_owned() })
    }

    async fn acquire(&self) -> Result<Self::Hold, Failure> {
        let mut transaction = self.pool.start_transaction(TxOpts::default()).await?;
        let select = "SELECT name FROM mutexes WHERE name = ? FOR UPDATE";
        loop {
            match transaction.exec_drop(select, (&self.name,)).await {
                Ok(()) => return Ok(transaction),
                Err(error) if is_code(&error, WAITED_LONG) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release(&self, transaction: Self::Hold) -> Result<(), Failure> {
        Ok(transaction.commit().await?)
    }
}
