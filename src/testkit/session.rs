//! The end of a session, as the server sees it.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, Error, SessionInfo};

use super::TestkitError;

const LIMIT: Duration = Duration::from_secs(10);
/// Spares a server that is down.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// Kills a session **for real**: a second connection with its id and password closes it at the server, which deletes
/// its ephemeral nodes at once and tells its owner that it is expired.
///
/// The owner keeps its client, and learns of it as of any other expiry; it may see its connection cut a few times before,
/// as the two connections take the session from each other. `connect_string` must reach the same server or
/// ensemble as the owner's.
///
/// # Cancel safety
///
/// Dropping the future may leave the session alive, disconnected for a moment, or killed.
///
/// # Errors
///
/// [`TestkitError::KillSession`] if the session is already gone; [`TestkitError::Timeout`] if no server answers.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_recipes::testkit::{TestServer, kill_session};
///
/// let server = TestServer::start().await?;
/// let client = zookeeper_recipes::zookeeper_client::Client::connect(server.connect_string()).await?;
/// kill_session(server.connect_string(), client.session()).await?;
/// # Ok(())
/// # }
/// ```
pub async fn kill_session(connect_string: &str, session: &SessionInfo) -> Result<(), TestkitError> {
    let kill = close_until_gone(connect_string, session);
    match timeout(LIMIT, kill).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(TestkitError::KillSession {
            session: session.id().to_string(),
            source,
        }),
        Err(_) => Err(TestkitError::Timeout {
            operation: format!("kill the session {}", session.id()),
            waited: LIMIT,
        }),
    }
}

/// The server cuts the owner's connection when the second one takes the session over. The owner's client comes back at
/// once and may be faster than our request to close, hence more than one round, and the last word is the server's.
async fn close_until_gone(connect_string: &str, session: &SessionInfo) -> Result<(), Error> {
    let mut joined = false;
    loop {
        // Eagerly: one pass over the addresses, so that a lost round ends.
        let connector = Client::connector()
            .with_session(session.clone())
            .with_fail_eagerly();
        match connector.connect(connect_string).await {
            Ok(second) => {
                joined = true;
                let mut states = second.state_watcher();
                // Its last handle gone, the client asks to close the session and ends.
                drop(second);
                while !states.changed().await.is_terminated() {}
            }
            Err(Error::SessionExpired) if joined => return Ok(()),
            Err(error @ (Error::SessionExpired | Error::AuthFailed | Error::BadArguments(_))) => {
                return Err(error);
            }
            Err(error) => {
                tracing::debug!("the owner of {} was faster: {error}", session.id());
                sleep(BETWEEN_ROUNDS).await;
            }
        }
    }
}
