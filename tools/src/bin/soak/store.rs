//! A store outside ZooKeeper that compares fencing tokens, as a database or a storage service would.
//!
//! It refuses a token smaller than the greatest it has seen, at *reads* too. A store that compares at writes only is
//! not enough for who reads, computes and writes: a write of the old holder could arrive between the read and the write
//! of the new one, which then overwrites what it has not seen.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tools::Result;

use crate::checker::Value;
use crate::log::Outcome;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    value: Value,
    greatest: i64,
}

impl State {
    /// `read TOKEN` gives `VALUE TOKEN`, `write TOKEN VALUE` gives `ok`; a token that is too small gives `stale`.
    fn answer(&mut self, request: &str) -> Option<String> {
        let mut words = request.split(' ');
        let (operation, token) = (words.next()?, words.next()?.parse().ok()?);
        if token < self.greatest {
            return Some("stale".to_owned());
        }
        self.greatest = token;
        match operation {
            "read" => Some(format!("{} {}", self.value.0, self.value.1)),
            "write" => {
                self.value = (words.next()?.parse().ok()?, token);
                Some("ok".to_owned())
            }
            _ => None,
        }
    }
}

/// The store. It ends when this is dropped.
pub(crate) struct Store {
    state: Arc<Mutex<State>>,
    pub(crate) address: SocketAddr,
    server: AbortHandle,
}

impl Store {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Ok(Self { state, address, server: server.abort_handle() })
    }

    pub(crate) fn value(&self) -> Value {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).value
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = state.lock().unwrap_or_else(PoisonError::into_inner).answer(&line)?;
        write.write_all(format!("{answer}\n").as_bytes()).await.ok()?;
    }
    Some(())
}

/// A worker's side.
pub(crate) struct StoreClient(BufReader<TcpStream>);

impl StoreClient {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self(BufReader::new(TcpStream::connect(address).await?)))
    }

    async fn ask(&mut self, request: String) -> Result<String> {
        self.0.write_all(format!("{request}\n").as_bytes()).await?;
        let mut answer = String::new();
        self.0.read_line(&mut answer).await?;
        Ok(answer.trim_end().to_owned())
    }

    /// None if the token is refused.
    pub(crate) async fn read(&mut self, token: i64) -> Result<Option<Value>> {
        let answer = self.ask(format!("read {token}")).await?;
        if answer == "stale" {
            return Ok(None);
        }
        let (number, by) = answer.split_once(' ').ok_or("the store gave no value")?;
        Ok(Some((number.parse()?, by.parse()?)))
    }

    pub(crate) async fn write(&mut self, token: i64, number: u64) -> Outcome {
        match self.ask(format!("write {token} {number}")).await.as_deref() {
            Ok("ok") => Outcome::Accepted,
            Ok("stale") => Outcome::Refused,
            _ => Outcome::Unknown,
        }
    }
}
