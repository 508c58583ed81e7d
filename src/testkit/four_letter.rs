//! ZooKeeper's four-letter words: one word over a fresh connection, the answer until the server closes it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// An answer takes milliseconds; a server that needs longer hangs.
const LIMIT: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

/// Asks the server at `address` (`HOST:PORT`).
pub(super) async fn ask(address: &str, word: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(LIMIT, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns when the server at `address` serves clients, which may be never.
///
/// Nothing announces it, hence the polling: a published port accepts connections before the server behind it does, and
/// a server answers that it does not serve yet.
pub(super) async fn until_serving(address: &str) {
    loop {
        match ask(address, "srvr").await {
            Ok(answer) if answer.contains("Mode: ") => return,
            Ok(answer) => tracing::trace!("{address} does not serve yet: {answer:?}"),
            Err(error) => tracing::trace!("{address} does not serve yet: {error}"),
        }
        sleep(INTERVAL).await;
    }
}
