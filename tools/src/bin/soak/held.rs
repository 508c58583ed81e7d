//! What the worker asks of a lock that it holds, whichever lock that is.

use std::future::Future;

use zookeeper_recipes::{Curator, FencedError};

use crate::Result;
use crate::checker::Value;
use crate::guards::Guard;
use crate::log::{Counter, Mode, Name, Node, Outcome};
use crate::settings::COUNTER;

pub(crate) trait Held {
    fn name(&self) -> Name;
    fn nodes(&self) -> Vec<Node>;
    /// Of the hold's nodes.
    fn session(&self) -> i64;
    fn is_held(&self) -> bool;
    /// Why it is not.
    fn why(&self) -> String;
    /// Resolves at the loss.
    fn lost(&self) -> impl Future<Output = ()>;
    /// Whether the hold entitles to write there.
    fn counts_in(&self, counter: Counter) -> bool;
    fn read_counter(&self) -> impl Future<Output = Result<Value>>;
    fn write_counter(&self, number: u64) -> impl Future<Output = Outcome>;
}

/// The crate's.
pub(crate) struct Real<'a, G> {
    pub(crate) guard: &'a G,
    /// What the worker takes it for.
    pub(crate) mode: Mode,
    pub(crate) curator: &'a Curator,
    pub(crate) ignores_lease: bool,
}

impl<G: Guard> Held for Real<'_, G> {
    fn name(&self) -> Name {
        Name(self.mode, self.guard.nodes().first().map_or(0, |node| node.token))
    }

    fn nodes(&self) -> Vec<Node> {
        self.guard.nodes()
    }

    fn session(&self) -> i64 {
        // If the guard says yes after this, then no epoch began in between, and this is the hold's.
        self.curator.session_id().unwrap_or_default()
    }

    fn is_held(&self) -> bool {
        self.ignores_lease || self.guard.is_held()
    }

    fn why(&self) -> String {
        self.guard.why()
    }

    async fn lost(&self) {
        if self.ignores_lease {
            std::future::pending::<()>().await;
        }
        self.guard.lost().await;
    }

    fn counts_in(&self, counter: Counter) -> bool {
        self.mode.is_exclusive() && self.guard.counts_in(counter)
    }

    async fn read_counter(&self) -> Result<Value> {
        // No `sync` is needed. Our admission came to us over this session, and every write of those before us is older than
        // what admitted us; a session never sees the past again, whatever member it moves to.
        let (data, _) = self.curator.client()?.get_data(COUNTER).await?;
        decode(&data)
    }

    async fn write_counter(&self, number: u64) -> Outcome {
        let Some(fenced) = self.guard.fenced() else { return Outcome::Refused };
        let Name(_, token) = self.name();
        match fenced.set(COUNTER, &encode(number, token)).await {
            Ok(()) => Outcome::Accepted,
            Err(FencedError::Unknown { .. }) => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        }
    }
}

pub(crate) fn encode(number: u64, token: i64) -> Vec<u8> {
    format!("{number} {token}").into_bytes()
}

/// Of an empty node: never written.
pub(crate) fn decode(data: &[u8]) -> Result<Value> {
    let text = str::from_utf8(data)?;
    let Some((number, token)) = text.split_once(' ') else { return Ok((0, 0)) };
    Ok((number.parse()?, token.parse()?))
}
