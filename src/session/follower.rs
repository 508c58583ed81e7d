//! Parts of tasks that follow something from session to session: [`EachSession`], and within one session [`NodeFollower`] and
//! [`list_or_await_create`].

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::timeout;

use super::connection::{Connection, NoSession};
use super::session::Session;
use crate::client::{Client, Failure, Listing, Node, NodeEvent, NodeWatch, WatchPermit};
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
        let session = match self.connection.next_session(self.last.as_ref()).await {
            Ok(session) => session,
            Err(NoSession::Closed(error)) => return Err(error),
            // The arm is for the type alone: this call waits for a session.
            Err(NoSession::NotConnected) => return Err(Error::closed()),
        };
        self.last = Some(session.clone());
        Ok(session)
    }

    /// Runs `work` while the last session lasts; `None` if the session ends first, or the `Curator` is closed.
    pub(crate) async fn while_it_lasts<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let session = self.last.as_ref()?;
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
    pub(crate) node: String,
    armed: Option<(NodeWatch, WatchPermit)>,
}

impl NodeFollower {
    /// Reads a node as [`read_or_look`] does, with a watch if the session has room to spare.
    pub(crate) async fn of(
        session: &Session,
        client: &Client,
        node: &str,
    ) -> Result<(Self, Node), Failure> {
        let mut follower = Self::new(node);
        let room = session.try_reserve_spare_watch(node);
        let read = read_or_look(session, node, follower.read(client, room)).await?;
        Ok((follower, read))
    }

    pub(crate) fn new(node: &str) -> Self {
        Self { node: node.to_owned(), armed: None }
    }

    /// Reads the node. If `room` is given, the node is watched from then on.
    pub(crate) async fn read(
        &mut self,
        client: &Client,
        room: Option<WatchPermit>,
    ) -> Result<Node, Failure> {
        let Some(room) = room else { return client.read(&self.node).await };
        let (node, watch) = client.read_and_watch(&self.node).await?;
        self.armed = Some((watch, room));
        Ok(node)
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.armed.is_some()
    }

    /// Waits until the watch fires, at most for `limit`: then `None`. Never returns after the end of the session, for which the
    /// caller waits as well.
    pub(crate) async fn changed(&mut self, limit: Option<Duration>) -> Option<NodeEvent> {
        let fired = async {
            match &mut self.armed {
                Some((watch, _)) => watch.await,
                None => pending().await,
            }
        };
        let event = match limit {
            Some(limit) => timeout(limit, fired).await.ok()?,
            None => fired.await,
        };
        if event == NodeEvent::SessionOver {
            return pending().await;
        }
        self.armed = None;
        Some(event)
    }
}

/// Awaits a read of a node. Without the permission to read it, the node is looked at, without a watch: any client that may list the
/// path may know that the node exists, but a server that hides a node need not report its deletion.
pub(crate) async fn read_or_look(
    session: &Session,
    node: &str,
    read: impl Future<Output = Result<Node, Failure>>,
) -> Result<Node, Failure> {
    match read.await {
        Err(Failure::Refused(error)) if error.is_no_auth() => {
            session.request(|client| client.look(node)).await?.ok_or(Failure::NoNode)
        }
        read => read,
    }
}

/// Lists the children of a path, with a future that resolves when they change. `None` if the path does not exist, and the future then
/// waits for its create. If the path is not known to `exist`, it is not listed first.
pub(crate) async fn list_or_await_create(
    client: &Client,
    path: &str,
    room: WatchPermit,
    mut exists: bool,
) -> Result<(Option<Listing>, BoxFuture<'static, ()>), Failure> {
    loop {
        if exists {
            match client.list_and_watch(path).await {
                Ok((listing, watch)) => {
                    return Ok((Some(listing), watch.with(room).fired().boxed()));
                }
                Err(Failure::NoNode) => {}
                Err(failure) => return Err(failure),
            }
        }
        // A watch that was set after the create is dropped.
        if let (None, watch) = client.look_and_watch(path).await? {
            let created = async move {
                watch.await;
                drop(room);
            };
            return Ok((None, created.boxed()));
        }
        exists = true;
    }
}
