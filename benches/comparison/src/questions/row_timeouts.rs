//! `FOR UPDATE`: what ends the wait, and what ends a transaction that does nothing.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Error, TxOpts};
use tokio::time::timeout;

use crate::Failure;
use crate::clock::now;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::duration;
use crate::ways::pool;

const SELECT: &str = "SELECT name FROM mutexes WHERE name = 'timeouts' FOR UPDATE";
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Vec<Finding>, Failure> {
    let pool = pool(&stage.servers[0].address())?;
    pool.get_conn().await?.query_drop("INSERT IGNORE INTO mutexes VALUES ('timeouts')").await?;
    let finding = |circumstances, seen| {
        Finding::new(Question::Besides, stage.way, "", seen).under(circumstances)
    };

    let mut holder = pool.start_transaction(TxOpts::default()).await?;
    holder.query_drop(SELECT).await?;
    let mut waiter = pool.start_transaction(TxOpts::default()).await?;
    waiter.query_drop("SET SESSION innodb_lock_wait_timeout = 1").await?;
    let begun = now();
    let waited = timeout(PATIENCE, waiter.query_drop(SELECT)).await?;
    let taken = duration(now() - begun);
    let error = waited.err().map_or("nothing".to_owned(), |error| brief(&error));
    let first = finding(
        "a waiter with `innodb_lock_wait_timeout = 1` (default 50 s)",
        format!("the waiter's statement ended after {taken} with {error}"),
    );
    waiter.rollback().await?;
    holder.rollback().await?;

    let mut holder = pool.start_transaction(TxOpts::default()).await?;
    holder.query_drop("SET SESSION wait_timeout = 2").await?;
    holder.query_drop("INSERT INTO documents VALUES ('timeouts', 1, 1)").await?;
    holder.query_drop(SELECT).await?;
    let idle = now();
    let mut waiter = pool.start_transaction(TxOpts::default()).await?;
    timeout(PATIENCE, waiter.query_drop(SELECT)).await??;
    let taken = duration(now() - idle);
    let write = holder.query_drop("UPDATE documents SET value = 2 WHERE name = 'timeouts'").await;
    let write =
        write.err().map_or("was taken".to_owned(), |error| format!("failed ({})", brief(&error)));
    let count: Option<u64> =
        waiter.query_first("SELECT COUNT(*) FROM documents WHERE name = 'timeouts'").await?;
    let kept = if count == Some(0) { "was rolled back" } else { "was kept" };
    waiter.rollback().await?;
    drop(holder);
    let second = finding(
        "a holder idle in its transaction, `wait_timeout = 2` (default 28800 s)",
        format!(
            "the server closed its connection, and the waiter held {taken} after its last statement; what it had written {kept}, its next write {write}"
        ),
    );
    let _ = pool.disconnect().await; // one of the connections is dead
    Ok(vec![first, second])
}

fn brief(error: &Error) -> String {
    match error {
        Error::Server(server) => format!("error {}: {}", server.code, server.message),
        other => other.to_string(),
    }
}
