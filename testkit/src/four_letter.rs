//! ZooKeeper's four-letter words: one word over a new connection, and the answer until the server closes it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// An answer takes milliseconds; a server that needs longer hangs.
const LIMIT: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for the first answer of a starting server, doubled after each timeout up to `LIMIT`. A server that
/// accepts a connection while it starts may never answer on it.
const FIRST_LIMIT: Duration = Duration::from_millis(300);

/// Sends `word` to the server at `address` (`HOST:PORT`) and returns the answer.
pub(super) async fn ask(address: &str, word: &str) -> io::Result<String> {
    ask_within(LIMIT, address, word).await
}

async fn ask_within(limit: Duration, address: &str, word: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(limit, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns when the server at `address` serves clients, or never if it does not.
///
/// This has to poll, as no event announces it: a published port accepts connections before the server behind it does,
/// and a server that does not serve yet answers so.
pub(super) async fn until_serving(address: &str) {
    let mut limit = FIRST_LIMIT;
    loop {
        match ask_within(limit, address, "srvr").await {
            Ok(answer) if answer.contains("Mode: ") => return,
            Ok(answer) => tracing::trace!("{address} does not serve yet: {answer:?}"),
            Err(error) => {
                if error.kind() == io::ErrorKind::TimedOut {
                    limit = LIMIT.min(limit * 2);
                }
                tracing::trace!("{address} does not serve yet: {error}");
            }
        }
        sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// The system accepts the first connection and the server never answers it, like a server that starts. A query
    /// with the limit of a serving server starts at the same time and is the clock.
    #[tokio::test]
    async fn a_probe_that_is_never_answered_does_not_hold_up_the_next() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let starting = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (silent_address, address) =
            (silent.local_addr().unwrap().to_string(), starting.local_addr().unwrap().to_string());
        let server = async {
            let _first = starting.accept().await.unwrap();
            // On a busy machine the second connection may come too late as well.
            loop {
                let (mut next, _) = starting.accept().await.unwrap();
                // Unread bytes would reset the connection, and the answer would be lost with it.
                let _ = next.read_exact(&mut [0; 4]).await;
                let _ = next.write_all(b"Mode: standalone\n").await;
            }
        };
        tokio::select! {
            biased;
            () = server => {}
            () = until_serving(&address) => {}
            answer = ask(&silent_address, "srvr") => panic!("as slow as one lost answer: {answer:?}"),
        }
    }
}
