//! Looking at nodes that have no watch, in turn: some each time, in one request.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use super::hold::Znode;
use super::path_nodes::PathNodes;
use crate::client::Failure;
use crate::session::Session;

/// How many nodes are looked at each time.
pub(super) const BATCH: usize = 64;

/// How many where the servers cannot be asked about several in one request.
const SINGLY: usize = 8;

/// So many such requests in a row have no answer before that is taken for granted.
const UNANSWERED: u32 = 3;

/// Of so few nodes those that are gone are forgotten only in their turn.
const FEW: usize = 1024;

/// A node that is looked after.
#[derive(Clone, Debug)]
pub(super) struct Monitored {
    pub(super) path_nodes: Arc<PathNodes>,
    pub(super) node: Arc<Znode>,
}

type Look = Pin<Box<dyn Future<Output = (Vec<Monitored>, Result<Vec<bool>, Failure>)> + Send>>;

#[derive(Default)]
pub(super) struct NodePoller {
    nodes: VecDeque<Monitored>,
    /// From so many on those that are gone are looked for.
    many: usize,
    under_way: Option<Look>,
    unanswered: u32,
}

impl NodePoller {
    pub(super) fn add(&mut self, own: Monitored) {
        self.nodes.push_back(own);
        if self.nodes.len() > self.many.max(FEW) {
            self.nodes.retain(|own| own.path_nodes.has(&own.node));
            self.many = 2 * self.nodes.len();
        }
    }

    /// Looks at the next ones, unless the last answer is missing still.
    pub(super) fn go_on(&mut self, session: &Arc<Session>) {
        if self.under_way.is_some() {
            return;
        }
        let together = self.unanswered < UNANSWERED;
        let batch = if together { BATCH } else { SINGLY };
        let mut next = Vec::new();
        while next.len() < batch
            && let Some(own) = self.nodes.pop_front()
        {
            if own.path_nodes.has(&own.node) {
                next.push(own);
            }
        }
        if !next.is_empty() {
            self.under_way = Some(Box::pin(look(session.clone(), next, together)));
        }
    }

    /// Waits for the answer; gives those that are gone.
    pub(super) async fn looked(&mut self) -> Vec<Monitored> {
        let (nodes, gone) = match &mut self.under_way {
            Some(look) => look.await,
            None => pending().await,
        };
        self.under_way = None;
        if self.unanswered < UNANSWERED {
            self.unanswered = match &gone {
                Ok(_) => 0,
                Err(Failure::Refused(_)) => UNANSWERED,
                Err(_) => self.unanswered + 1,
            };
        }
        let gone = gone.unwrap_or_default();
        let mut found = Vec::new();
        for (place, own) in nodes.into_iter().enumerate() {
            if gone.get(place) == Some(&true) {
                found.push(own);
            } else {
                self.nodes.push_back(own);
            }
        }
        found
    }
}

async fn look(
    session: Arc<Session>,
    nodes: Vec<Monitored>,
    together: bool,
) -> (Vec<Monitored>, Result<Vec<bool>, Failure>) {
    let gone = async {
        let client = session.client()?;
        if together {
            return client.are_gone(nodes.iter().map(|own| own.node.path.as_str())).await;
        }
        let asked: Vec<_> = nodes.iter().map(|own| client.exists(&own.node.path)).collect();
        let mut gone = Vec::new();
        for exists in asked {
            gone.push(matches!(exists.await, Ok(false) | Err(Failure::NoNode)));
        }
        Ok(gone)
    };
    let gone = gone.await;
    (nodes, gone)
}
