//! For tasks that follow something from session to session: [`EachSession`], and [`NodeFollower`] within one session.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::connection::{Connection, NoSession};
use super::session::Session;
use crate::client::{Client, Failure, Node, NodeEvent, NodeWatch};
use crate::error::Error;

/// One session after another, until no further session will be opened.
#[derive(Debug)]
pub(crate) struct EachSession {
    connection: Arc<Connection>,
    last: Option<Arc<Session>>,
}

impl EachSession {
    pub(crate) fn of(connection: &Arc<Connection>) -> Self {
        Self { connection: connection.clone(), last: None }
    }

    /// Waits for the first or the next session. The error says why no further session will be opened.
    pub(crate) async fn next(&mut self) -> Result<Arc<Session>, Error> {
        loop {
            match self.connection.next_session(self.last.as_ref()).await {
                Ok(session) => {
                    self.last = Some(session.clone());
                    return Ok(session);
                }
                Err(NoSession::Closed(error)) => return Err(error),
                Err(NoSession::NotConnected) => {}
            }
        }
    }

    /// Runs `work` while the last session lasts; `None` if the session ends first, or the `Curator` is closed.
    pub(crate) async fn while_it_lasts<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(session) = &self.last else { return None };
        tokio::select! {
            biased;
            () = session.ended().cancelled() => None,
            () = self.connection.closing().cancelled() => None,
            value = work => Some(value),
        }
    }
}

/// Reads a node in one session, with a watch where there is room for one. A caller without a watch polls.
#[derive(Debug)]
pub(crate) struct NodeFollower {
    node: String,
    armed: Option<ArmedWatch>,
}

#[derive(Debug)]
struct ArmedWatch {
    watch: NodeWatch,
    _room: OwnedSemaphorePermit,
}

impl NodeFollower {
    pub(crate) fn new(node: String) -> Self {
        Self { node, armed: None }
    }

    /// Reads the node. If `room` is given, the node is watched from then on.
    pub(crate) async fn read(
        &mut self,
        client: &Client,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<Node, Failure> {
        let Some(room) = room else { return client.read(&self.node).await };
        let (node, watch) = client.read_and_watch(&self.node).await?;
        self.armed = Some(ArmedWatch { watch, _room: room });
        Ok(node)
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.armed.is_some()
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Waits until the watch fires, at most for `limit`: then `None`. The end of the session does not count as an event,
    /// because the caller waits for that as well.
    pub(crate) async fn changed(&mut self, limit: Option<Duration>) -> Option<NodeEvent> {
        let due = async {
            match limit {
                Some(limit) => sleep(limit).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            event = fired(&mut self.armed) => {
                self.armed = None;
                Some(event)
            }
            () = due => None,
        }
    }
}

async fn fired(armed: &mut Option<ArmedWatch>) -> NodeEvent {
    if let Some(armed) = armed {
        let event = (&mut armed.watch).await;
        if event != NodeEvent::SessionOver {
            return event;
        }
    }
    pending().await
}
