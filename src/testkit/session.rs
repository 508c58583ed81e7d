//! The end of a session, as the server sees it.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, Error, SessionInfo};

use super::TestkitError;

const LIMIT: Duration = Duration::from_secs(10);

/// Kills a session **for real**: a second connection with its id and password closes it at the server, which deletes
/// its ephemeral nodes at once and tells its owner that it is expired.
///
/// The owner keeps its client, and learns of it as of any other expiry. `connect_string` must reach the same server or
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
    let kill = async {
        // Eagerly: an expired session is an answer, not a reason to try the next address.
        let second = Client::connector()
            .with_session(session.clone())
            .with_fail_eagerly()
            .connect(connect_string)
            .await?;
        let mut states = second.state_watcher();
        // Its last owner gone, the client sends the request to close and ends when it is answered.
        drop(second);
        while !states.changed().await.is_terminated() {}
        Ok::<(), Error>(())
    };
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
