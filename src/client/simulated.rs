//! The seam's requests to simulated servers, each the twin of one in [`Client`](super::Client).

use std::future::Future;

use zookeeper_client::{Acl, Error as ServerError};

use super::data::{Change, Listing, Mode, Node, Write};
use super::failure::{Failure, WriteFailure};
use super::watch::{ChildrenWatch, NodeEvent, NodeWatch, Watcher};
use crate::simulation::{self, Answer, Client, Happened, Op, Refused, Watch, plain};

impl Client {
    fn asked<T, F>(
        &self,
        op: Op,
        of: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        F: FnOnce(Answer, Option<Watch>) -> Option<T> + Send,
    {
        let sent = self.ask(op);
        async move {
            let (answer, watch) = sent.await.map_err(|refused| Failure::of(refused.error))?;
            of(answer, watch).ok_or(Failure::of(ServerError::Unimplemented))
        }
    }

    pub(super) fn create_contender(
        &self,
        prefix: &str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<(i64, i64), Failure>> + Send + use<> {
        let (path, data, acls) = (prefix.to_owned(), data.to_vec(), plain(acls));
        let length = path.len();
        let op = Op::Create { path, data, acls, mode: simulation::Mode::EphemeralSequential };
        self.asked(op, move |answer, _| match answer {
            Answer::Created(path, stat) => Some((path[length..].parse().ok()?, stat.czxid)),
            _ => None,
        })
    }

    pub(super) fn create(
        &self,
        path: &str,
        data: &[u8],
        acls: &[Acl],
        mode: Mode,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<> {
        let mode = match mode {
            Mode::Persistent => simulation::Mode::Persistent,
            Mode::Container => simulation::Mode::Container,
        };
        let op = Op::Create { path: path.to_owned(), data: data.to_vec(), acls: plain(acls), mode };
        self.asked(op, |answer, _| match answer {
            Answer::Created(_, stat) => Some(Change::of(&stat)),
            _ => None,
        })
    }

    pub(super) fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<> {
        let op = Op::SetData { path: path.to_owned(), data: data.to_vec(), version };
        self.asked(op, |answer, _| match answer {
            Answer::Stat(Some(stat)) => Some(Change::of(&stat)),
            _ => None,
        })
    }

    pub(super) fn list(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Listing, Failure>> + Send + use<> {
        self.asked(Op::List { path: path.to_owned(), watch: false }, |answer, _| listing(answer))
    }

    pub(super) fn list_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Listing, ChildrenWatch), Failure>> + Send + use<> {
        self.asked(Op::List { path: path.to_owned(), watch: true }, |answer, watch| {
            Some((listing(answer)?, ChildrenWatch::new(watcher(watch?))))
        })
    }

    pub(super) fn read(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Node, Failure>> + Send + use<> {
        self.asked(Op::GetData { path: path.to_owned(), watch: false }, |answer, _| node(answer))
    }

    pub(super) fn read_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Node, NodeWatch), Failure>> + Send + use<> {
        self.asked(Op::GetData { path: path.to_owned(), watch: true }, |answer, watch| {
            let node = node(answer)?;
            let czxid = node.change.czxid;
            Some((node, NodeWatch::new(watcher(watch?), czxid)))
        })
    }

    pub(super) fn look(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Node>, Failure>> + Send + use<> {
        self.asked(Op::Exists { path: path.to_owned(), watch: false }, |answer, _| origin(answer))
    }

    pub(super) fn look_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Node>, NodeWatch), Failure>> + Send + use<> {
        self.asked(Op::Exists { path: path.to_owned(), watch: true }, |answer, watch| {
            let node = origin(answer)?;
            let czxid = node.as_ref().map_or(0, |node| node.change.czxid);
            Some((node, NodeWatch::new(watcher(watch?), czxid)))
        })
    }

    pub(super) fn are_gone(
        &self,
        paths: Vec<String>,
    ) -> impl Future<Output = Result<Vec<bool>, Failure>> + Send + use<> {
        self.asked(Op::AreGone(paths), |answer, _| match answer {
            Answer::Gone(gone) => Some(gone),
            _ => None,
        })
    }

    pub(super) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let op = Op::Delete { path: path.to_owned(), version: None };
        self.asked(op, |_, _| Some(()))
    }

    pub(super) fn write_while_there(
        &self,
        other: &str,
        path: &str,
        write: &Write<'_>,
    ) -> impl Future<Output = Result<(), WriteFailure>> + Send + use<> {
        let path = path.to_owned();
        let write = match write {
            Write::Create { data, acls, ephemeral } => {
                let mode = match ephemeral {
                    true => simulation::Mode::Ephemeral,
                    false => simulation::Mode::Persistent,
                };
                Op::Create { path, data: data.to_vec(), acls: plain(acls), mode }
            }
            Write::Set { data } => Op::SetData { path, data: data.to_vec(), version: None },
            Write::Delete => Op::Delete { path, version: None },
        };
        let sent = self.ask(Op::Multi(vec![Op::Check { path: other.to_owned() }, write]));
        async move {
            let Err(Refused { step, error }) = sent.await else { return Ok(()) };
            Err(WriteFailure::at(step, error))
        }
    }

    pub(super) fn sync(&self) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.asked(Op::Sync, |_, _| Some(()))
    }
}

fn listing(answer: Answer) -> Option<Listing> {
    match answer {
        Answer::Children(children, stat) => Some(Listing::new(children, &stat)),
        _ => None,
    }
}

fn node(answer: Answer) -> Option<Node> {
    match answer {
        Answer::Data(data, stat) => Some(Node::new(data, &stat)),
        _ => None,
    }
}

fn origin(answer: Answer) -> Option<Option<Node>> {
    match answer {
        Answer::Stat(stat) => Some(stat.map(|stat| Node::new(Vec::new(), &stat))),
        _ => None,
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
