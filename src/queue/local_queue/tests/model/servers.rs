//! The servers of the model: the nodes of one lock path, and the requests, answers and watches of each session.
//!
//! The requests of a session are executed in order, and its answers and events are delivered in order. Sessions interleave freely.

use std::collections::{BTreeSet, VecDeque};

use crate::queue::local_queue::{HoldNumber, NodeId};

/// The contender of Curator, as the owner of a node. Smaller owners are processes.
pub(super) const CURATOR: usize = 9;

/// The kind of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Lock = 0,
    Write = 1,
    Read = 2,
}

/// The kind of the contender with this node. A node's id is four times its sequence number, plus its kind.
pub(super) fn kind_of(key: NodeId) -> Kind {
    match key % 4 {
        0 => Kind::Lock,
        1 => Kind::Write,
        _ => Kind::Read,
    }
}

/// The sequence number of a node. A companion read has the one of its write hold.
pub(super) fn sequence_of(key: NodeId) -> i64 {
    key / 4
}

/// The companion read of a write hold.
pub(super) fn companion_of(write: NodeId) -> NodeId {
    write - Kind::Write as NodeId + Kind::Read as NodeId
}

/// The name by which the rules of admission know a node.
pub(super) fn name_of(key: NodeId) -> String {
    let tag = match kind_of(key) {
        Kind::Lock => "lock-",
        Kind::Write => "__WRIT__",
        Kind::Read => "__READ__",
    };
    format!("_c_{key:04}-{tag}{:010}", sequence_of(key))
}

/// The inverse of [`name_of`].
pub(super) fn key_of(name: &str) -> NodeId {
    name[3..7].parse().expect("a name of the model")
}

/// A node at the servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Znode {
    pub(super) key: NodeId,
    pub(super) owner: usize,
    pub(super) guid: u8,
    pub(super) content: u8,
}

/// The reason for a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A create has this listing sent behind it.
    Entering,
    /// The entry with this node decides again.
    Again(NodeId),
    /// The listing shows whether this node is the sole contender.
    Sole(NodeId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Create {
        queue: usize,
        kind: Kind,
        guid: u8,
        content: u8,
    },
    List {
        queue: usize,
        purpose: Purpose,
        watch: bool,
    },
    Watch {
        queue: usize,
        own: NodeId,
        target: NodeId,
    },
    Delete(NodeId),
    /// A read alongside this write hold.
    Companion(NodeId),
    /// The search for the node of a create without an answer.
    Search {
        queue: usize,
        guid: u8,
    },
    Fenced {
        queue: usize,
        key: NodeId,
        hold: HoldNumber,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Created {
        queue: usize,
        key: NodeId,
    },
    Listing {
        queue: usize,
        purpose: Purpose,
        watch: bool,
        children: Vec<NodeId>,
    },
    Watching {
        queue: usize,
        own: NodeId,
        target: NodeId,
        exists: bool,
    },
    Accompanied {
        write: NodeId,
        created: bool,
    },
    Found {
        queue: usize,
        key: Option<NodeId>,
    },
    /// The event of the watch on the children. Nodes with a smaller sequence number than `before` had been created.
    Children {
        before: i64,
    },
    /// The event of the watch on this node.
    Deleted(NodeId),
}

impl Answer {
    fn is_event(&self) -> bool {
        matches!(self, Self::Children { .. } | Self::Deleted(_))
    }
}

/// A session: what the servers know of it, and what is on the way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session {
    /// The servers have not expired the session.
    pub(super) alive: bool,
    pub(super) connected: bool,
    /// The number of changes of the connection.
    pub(super) link: u8,
    /// The requests that were sent. After the connection broke, they may take effect until the client is connected again.
    pub(super) requests: VecDeque<Request>,
    /// The requests for the next connection.
    pub(super) unsent: VecDeque<Request>,
    pub(super) answers: VecDeque<Answer>,
    pub(super) watches_children: bool,
    pub(super) watched: BTreeSet<NodeId>,
}

impl Session {
    pub(super) fn new(link: u8) -> Self {
        Self {
            alive: true,
            connected: true,
            link,
            requests: VecDeque::new(),
            unsent: VecDeque::new(),
            answers: VecDeque::new(),
            watches_children: false,
            watched: BTreeSet::new(),
        }
    }

    pub(super) fn send(&mut self, request: Request) {
        match self.connected {
            true => self.requests.push_back(request),
            false => self.unsent.push_back(request),
        }
    }

    fn answer(&mut self, answer: Answer) {
        if self.connected {
            self.answers.push_back(answer);
        }
    }

    /// The client sets its watches again when it reconnects, and then gets the events that it missed.
    fn notify(&mut self, event: Answer) {
        self.answers.push_back(event);
    }

    /// Breaks the connection. Returns the requests without an answer, in order.
    pub(super) fn cut(&mut self) -> Vec<Lost> {
        self.connected = false;
        self.link += 1;
        let (events, answers): (VecDeque<_>, VecDeque<_>) =
            self.answers.drain(..).partition(Answer::is_event);
        self.answers = events;
        let answered = answers.into_iter().map(Lost::Answer);
        answered.chain(self.requests.iter().cloned().map(Lost::Request)).collect()
    }

    /// Returns true if a listing was asked for that shows whether the node is the sole contender.
    pub(super) fn asks_whether_sole(&self, node: NodeId) -> bool {
        let asks = |asked: &Purpose| *asked == Purpose::Sole(node);
        let mut requests = self.requests.iter().chain(&self.unsent);
        let mut answers = self.answers.iter();
        requests.any(|one| matches!(one, Request::List { purpose, .. } if asks(purpose)))
            || answers.any(|one| matches!(one, Answer::Listing { purpose, .. } if asks(purpose)))
    }

    /// Returns the event of the watch that the next answer, a listing, has armed, if the event has arrived as well.
    pub(super) fn event_behind_listing(&self) -> Option<i64> {
        let mut answers = self.answers.iter();
        let Some(Answer::Listing { watch: true, .. }) = answers.next() else { return None };
        answers.find_map(|answer| match answer {
            Answer::Children { before } => Some(*before),
            _ => None,
        })
    }

    pub(super) fn reconnect(&mut self) {
        self.connected = true;
        self.link += 1;
        self.requests = std::mem::take(&mut self.unsent);
    }
}

/// A request that the client gets no answer to.
#[derive(Debug)]
pub(super) enum Lost {
    /// The servers have executed it.
    Answer(Answer),
    Request(Request),
}

/// The nodes under the lock path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Servers {
    pub(super) nodes: Vec<Znode>,
    pub(super) next: i64,
    pub(super) sessions: Vec<Session>,
}

impl Servers {
    pub(super) fn new(processes: usize) -> Self {
        Self { nodes: Vec::new(), next: 1, sessions: vec![Session::new(0); processes] }
    }

    pub(super) fn find(&self, key: NodeId) -> Option<&Znode> {
        self.nodes.iter().find(|node| node.key == key)
    }

    /// Creates a node with the next sequence number.
    pub(super) fn create(&mut self, kind: Kind, owner: usize, guid: u8, content: u8) -> NodeId {
        let key = 4 * self.next + kind as NodeId;
        self.next += 1;
        self.nodes.push(Znode { key, owner, guid, content });
        self.children_changed();
        key
    }

    fn children_changed(&mut self) {
        let before = self.next;
        for session in self.sessions.iter_mut().filter(|session| session.alive) {
            if std::mem::take(&mut session.watches_children) {
                session.notify(Answer::Children { before });
            }
        }
    }

    /// Deletes a node. The owner is notified of what another client does.
    pub(super) fn delete(&mut self, key: NodeId, by: Option<usize>) {
        let Some(place) = self.nodes.iter().position(|node| node.key == key) else { return };
        let owner = self.nodes.remove(place).owner;
        self.children_changed();
        for (place, session) in self.sessions.iter_mut().enumerate() {
            let watches = session.watched.remove(&key);
            let loses = owner == place && by != Some(place);
            if session.alive && (watches || loses) {
                session.notify(Answer::Deleted(key));
            }
        }
    }

    /// Expires a session, and deletes its nodes.
    pub(super) fn expire(&mut self, owner: usize) {
        let session = &mut self.sessions[owner];
        session.alive = false;
        session.requests.clear();
        let of_owner = self.nodes.iter().filter(|node| node.owner == owner);
        for key in of_owner.map(|node| node.key).collect::<Vec<_>>() {
            self.delete(key, None);
        }
    }

    /// Executes the next request of a session.
    pub(super) fn execute(&mut self, owner: usize) -> Option<Request> {
        let request = self.sessions[owner].requests.pop_front()?;
        let answer = match request.clone() {
            Request::Create { queue, kind, guid, content } => {
                let key = self.create(kind, owner, guid, content);
                Some(Answer::Created { queue, key })
            }
            Request::List { queue, purpose, watch } => {
                // A watch of a broken connection is not set again, since its request has no answer.
                let session = &mut self.sessions[owner];
                session.watches_children |= watch && session.connected;
                let children = self.nodes.iter().map(|node| node.key).collect();
                Some(Answer::Listing { queue, purpose, watch, children })
            }
            Request::Watch { queue, own, target } => {
                let exists = self.find(target).is_some();
                if exists && self.sessions[owner].connected {
                    self.sessions[owner].watched.insert(target);
                }
                Some(Answer::Watching { queue, own, target, exists })
            }
            Request::Delete(key) => {
                self.delete(key, Some(owner));
                None
            }
            Request::Companion(write) => {
                let created = self.find(write).is_some();
                if created {
                    let key = companion_of(write);
                    self.nodes.push(Znode { key, owner, guid: u8::MAX, content: 0 });
                    self.children_changed();
                }
                Some(Answer::Accompanied { write, created })
            }
            Request::Search { queue, guid } => {
                let is_it = |node: &&Znode| (node.owner, node.guid) == (owner, guid);
                let key = self.nodes.iter().find(is_it).map(|node| node.key);
                Some(Answer::Found { queue, key })
            }
            Request::Fenced { .. } => None,
        };
        if let Some(answer) = answer {
            self.sessions[owner].answer(answer);
        }
        Some(request)
    }
}
