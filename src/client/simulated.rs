//! Requests to simulated servers, and the conversion of their answers to those of the seam.

use std::future::Future;

use zookeeper_client::Error as ServerError;

use super::failure::Failure;
use super::types::{Change, Listing, Node};
use super::watch::{NodeEvent, Watcher};
use crate::simulation::{Answer, Client, Happened, Op, Watch};

impl Client {
    /// Sends a request. `of` converts the answer to a real server's; it returns `None` for the answer to another request.
    pub(super) fn asked<T, F>(
        &self,
        op: Op,
        of: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        F: FnOnce(Answer, Option<Watcher>) -> Option<T> + Send,
    {
        let sent = self.ask(op);
        async move {
            let (answer, watch) = sent.await.map_err(|refused| Failure::of(refused.error))?;
            of(answer, watch.map(watcher)).ok_or(Failure::of(ServerError::Unimplemented))
        }
    }
}

impl Answer {
    pub(super) fn change(self) -> Option<Change> {
        match self {
            Self::Created(_, stat) | Self::Stat(Some(stat)) => Some(Change::of(&stat)),
            _ => None,
        }
    }

    pub(super) fn listing(self) -> Option<Listing> {
        match self {
            Self::Children(children, stat) => Some(Listing::new(children, &stat)),
            _ => None,
        }
    }

    pub(super) fn node(self) -> Option<Node> {
        match self {
            Self::Data(data, stat) => Some(Node::new(data, &stat)),
            _ => None,
        }
    }

    pub(super) fn origin(self) -> Option<Option<Node>> {
        match self {
            Self::Stat(stat) => Some(stat.as_ref().map(Node::without_data)),
            _ => None,
        }
    }
}

fn watcher(watch: Watch) -> Watcher {
    Watcher::new(async move {
        match watch.await {
            None => NodeEvent::SessionOver,
            Some(Happened::Deleted) => NodeEvent::Deleted,
            Some(_) => NodeEvent::Changed,
        }
    })
}
