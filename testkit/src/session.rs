//! Ends a session at the server.
//!
//! The obvious way is a second client that takes the session over and is dropped. That is a race: the server cuts the
//! owner's connection, and the owner returns at once and cuts the second client's before that has asked to close. So
//! the request to close follows the second client's connect request in the same packet. Only the client library knows
//! the password, so it connects to us, and we pass its first frame on.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, SessionInfo};

use super::TestkitError;
use super::port::listen_anew;
use super::server::addresses;

const LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the answer on one connection.
const ROUND: Duration = Duration::from_secs(1);
/// The pause between two rounds, which spares a server that is down.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(20);
/// A frame of eight bytes: the request's number, which may be any, and the operation -11.
const CLOSE_SESSION: [u8; 12] = [0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5];
/// The largest accepted frame; real ones have a few dozen bytes.
const FRAME_LIMIT: usize = 1024;

/// Kills a session **for real**: a second connection with its id and password closes it at the server, which deletes
/// its ephemeral nodes at once.
///
/// The owner keeps its client and learns of the end as of any other expiry, by a lost connection that it cannot
/// resume.
/// `connect_string` must reach the same server or ensemble as the owner's, without TLS.
///
/// # Cancel safety
///
/// Dropping the future may leave the session alive, disconnected for a moment, or killed.
///
/// # Errors
///
/// [`TestkitError::KillSession`] if the session no longer exists; [`TestkitError::Timeout`] if no server answers.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_testkit::{TestServer, kill_session};
///
/// let server = TestServer::start().await?;
/// let client = zookeeper_client::Client::connect(server.connect_string()).await?;
/// kill_session(server.connect_string(), client.session()).await?;
/// # Ok(())
/// # }
/// ```
pub async fn kill_session(connect_string: &str, session: &SessionInfo) -> Result<(), TestkitError> {
    let operation = format!("kill the session {}", session.id());
    let listener = listen_anew().await?;
    let kill = async {
        let connect = connect_request(&listener, session).await?;
        let mut addresses = addresses(connect_string).cycle();
        let mut cut = false;
        loop {
            let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
            let mut answer = ask(&address, &connect).await?;
            if matches!(answer, Answer::Expired) {
                // A leader that is cut off from its followers treats a session as closed once it was asked to close
                // it, although the next leader may never hear of that. Such a leader cannot commit, so only trust one
                // that can.
                let commits = commits(&address).await;
                answer = if commits { ask(&address, &connect).await? } else { Answer::Unreachable };
            }
            match answer {
                Answer::Closed => return Ok::<_, io::Error>(true),
                Answer::Expired => return Ok(cut),
                Answer::Cut => cut = true,
                Answer::Unreachable => sleep(BETWEEN_ROUNDS).await,
            }
        }
    };
    match timeout(LIMIT, kill).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(TestkitError::KillSession { session: session.id().to_string() }),
        Ok(Err(error)) => Err(TestkitError::cannot(operation)(error)),
        Err(_) => Err(TestkitError::Timeout { operation, waited: LIMIT }),
    }
}

/// Returns the frame with which a client takes the session over.
async fn connect_request(listener: &TcpListener, session: &SessionInfo) -> io::Result<Vec<u8>> {
    let address = listener.local_addr()?.to_string();
    let client = Client::connector().with_session(session.clone()).connect(&address);
    let frame = async { read_frame(&mut listener.accept().await?.0).await };
    tokio::select! {
        frame = frame => frame,
        // We never answer the client, so it can only fail.
        refused = client => Err(io::Error::other(refused.err().map_or_else(String::new, |error| error.to_string()))),
    }
}

enum Answer {
    /// The session existed and is closed.
    Closed,
    /// The session does not exist.
    Expired,
    /// The connection was cut in between, by the owner that came back or by the end of the session.
    Cut,
    /// No server listens.
    Unreachable,
}

/// Asks the server to close the session. A round without an answer counts as one that was cut.
async fn ask(address: &str, connect: &[u8]) -> io::Result<Answer> {
    timeout(ROUND, close(address, connect)).await.unwrap_or(Ok(Answer::Cut))
}

/// Returns true if the server commits a change that begins now, such as a new session.
async fn commits(address: &str) -> bool {
    timeout(ROUND, Client::connect(address)).await.is_ok_and(|client| client.is_ok())
}

async fn close(address: &str, connect: &[u8]) -> io::Result<Answer> {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return Ok(Answer::Unreachable);
    };
    if stream.write_all(&[connect, &CLOSE_SESSION].concat()).await.is_err() {
        return Ok(Answer::Unreachable);
    }
    let Ok(response) = read_frame(&mut stream).await else {
        return Ok(Answer::Cut);
    };
    // The frame's length is followed by the protocol version and the timeout, four bytes each, and then the session,
    // which is zero for one that no longer exists.
    let session = response.get(12..20).ok_or(io::ErrorKind::InvalidData)?;
    if session == [0; 8] {
        return Ok(Answer::Expired);
    }
    // The answer to the second request shows that the first is done; its content does not matter.
    Ok(read_frame(&mut stream).await.map_or(Answer::Cut, |_| Answer::Closed))
}

/// Reads a frame, and returns it with its length in front.
async fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let size = usize::try_from(length)
        .ok()
        .filter(|size| *size <= FRAME_LIMIT)
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(4 + size, 0);
    stream.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}
