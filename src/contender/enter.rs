//! Entering the queue: the protected create.
//!
//! The create and the first listing are sent together: ZooKeeper answers one session's requests in
//! order, so the listing contains our own node. It counts only if that create was answered with Ok.
//!
//! One GUID for each entering. Only the repetition of a create whose outcome is unknown keeps it;
//! whatever else is tried again draws a new one. An unknown outcome is resolved behind a barrier
//! (see [`duty`](crate::session::duty)): the node is adopted only if this very session owns it
//! (invariant 2; the check whose absence is CURATOR-604).

use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Answer, Contender, Stop, Trace, refusal};
use crate::client::{ClientError, Failure};
use crate::contender_name::{ContenderName, is_safe_sequence, protected_prefix};
use crate::error::AcquireError;
use crate::retry::Retry;
use crate::session::clock::Moment;
use crate::session::duty::{Duty, find};
use crate::session::epoch::Epoch;

/// A node of ours in the queue.
#[derive(Clone, Debug)]
pub(super) struct Entered {
    pub(super) name: String,
    /// Its path, under the namespace.
    pub(super) node: String,
    pub(super) czxid: i64,
}

/// What was listed along with the create, if that can be used.
pub(super) type Listing = Option<Vec<String>>;

/// How often a missing parent is made again at once: somebody may delete it as fast as we make it.
const PARENTS_AT_ONCE: usize = 3;

pub(super) async fn enter(
    contender: &Contender,
    epoch: &Arc<Epoch>,
    trace: &Trace,
    caller: &mut oneshot::Sender<Answer>,
) -> Result<(Entered, Listing), Stop> {
    let mut entering = Entering {
        contender,
        epoch,
        trace,
        began: Moment::now(),
        retry: contender.request.retry.start(),
        prefix: String::new(),
    };
    let mut parents_made = 0;
    entering.draw_guid();
    loop {
        if caller.is_closed() {
            return Err(Stop::Withdrawn);
        }
        match entering.create().await {
            Ok(entered) => return Ok(entered),
            Err(Failure::NoNode) => {
                parents_made += 1;
                contender.unless_stopped(caller, entering.make_parents()).await?;
                if parents_made % PARENTS_AT_ONCE == 0 {
                    contender.unless_stopped(caller, entering.pause(None)).await?;
                }
                entering.draw_guid();
            }
            Err(Failure::Unknown(cause)) => {
                let resolved = contender.unless_stopped(caller, entering.resolve()).await?;
                if let Some(entered) = resolved {
                    return Ok((entered, None));
                }
                contender.unless_stopped(caller, entering.pause(Some(cause))).await?;
            }
            Err(Failure::Refused(error)) => return Err(entering.refused("create", error)),
            Err(Failure::SessionOver(cause)) => return Err(Stop::Again(Some(cause))),
            Err(other @ (Failure::NotNow(_) | Failure::NodeExists)) => {
                contender.unless_stopped(caller, entering.pause(other.into_source())).await?;
                entering.draw_guid();
            }
        }
    }
}

struct Entering<'a> {
    contender: &'a Contender,
    epoch: &'a Arc<Epoch>,
    trace: &'a Trace,
    began: Moment,
    retry: Retry,
    /// The name up to the sequence number, GUID included.
    prefix: String,
}

impl Entering<'_> {
    fn draw_guid(&mut self) {
        self.prefix = protected_prefix(Uuid::new_v4(), self.contender.request.kind);
        self.trace.set(None);
    }

    async fn create(&self) -> Result<(Entered, Listing), Failure> {
        let request = &self.contender.request;
        let client = self.epoch.client()?;
        let path = request.path.child(&self.prefix);
        let search = Duty::Search { parent: request.path.clone(), prefix: self.prefix.clone() };
        self.trace.set(Some(search));
        let stamp = Moment::now();
        let create = client.create_contender(&path, &request.data, &request.acls);
        let list = client.list(request.path.as_str());
        let created = self.epoch.proven(stamp, create).await;
        let (sequence, czxid) = match created {
            Ok(created) => created,
            Err(failure @ (Failure::Unknown(_) | Failure::SessionOver(_))) => return Err(failure),
            Err(definite) => {
                self.trace.set(None);
                return Err(definite);
            }
        };
        let name = format!("{}{sequence:010}", self.prefix);
        let mut entered = self.entered(name, czxid);
        if czxid <= 0 {
            // Servers before 3.5 do not tell at the create.
            let read = client.read(&entered.node).await.map_err(|failure| match failure {
                // The create was answered: what follows must not be taken for its failure.
                Failure::NotNow(error) | Failure::Refused(error) => Failure::Unknown(error),
                failure => failure,
            });
            entered.czxid = read?.czxid;
        }
        Ok((entered, list.await.ok()))
    }

    /// Notes a node that is known to be ours.
    fn entered(&self, name: String, czxid: i64) -> Entered {
        let node = self.contender.request.path.child(&name);
        self.trace.set(Some(Duty::Delete(node.clone())));
        Entered { name, node, czxid }
    }

    /// Finds out what became of a create.
    async fn resolve(&self) -> Result<Option<Entered>, Stop> {
        let request = &self.contender.request;
        let search = || async {
            for name in find(self.epoch, &request.path, &self.prefix).await? {
                match self.epoch.client()?.read(&request.path.child(&name)).await {
                    Ok(node) if node.owner == self.epoch.session_id() => {
                        return Ok(Some((name, node.czxid)));
                    }
                    Ok(_) | Err(Failure::NoNode) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Ok(None)
        };
        match self.contender.session.retried(&request.retry, search).await {
            Ok(Some((name, czxid))) => {
                tracing::debug!(name, "the create had taken effect");
                Ok(Some(self.entered(name, czxid)))
            }
            Ok(None) => Ok(None),
            Err(Failure::Refused(error)) => Err(self.refused("list", error)),
            Err(Failure::SessionOver(cause)) => Err(Stop::Again(Some(cause))),
            Err(failure) => Err(self.exhausted(failure.into_source())),
        }
    }

    async fn make_parents(&self) -> Result<(), Stop> {
        let request = &self.contender.request;
        let parent = self.contender.session.absolute(&request.path);
        let make = || async {
            let client = self.epoch.client()?;
            let made = client.make_parents(&parent, &request.acls).await;
            Ok::<_, Failure>(match made {
                Ok(()) => None,
                // Deleted while we made it: the next create tells.
                Err(gone) if matches!(gone.failure, Failure::NoNode) => None,
                Err(refused) => match refused.failure {
                    Failure::Refused(error) => Some((refused.path, error)),
                    failure => return Err(failure),
                },
            })
        };
        match self.contender.session.retried(&request.retry, make).await {
            Ok(None) => Ok(()),
            Ok(Some((path, error))) => Err(Stop::Failed(refusal(&path, "create", error))),
            Err(Failure::SessionOver(cause)) => Err(Stop::Again(Some(cause))),
            Err(failure) => Err(self.exhausted(failure.into_source())),
        }
    }

    async fn pause(&mut self, cause: Option<ClientError>) -> Result<(), Stop> {
        let Some(pause) = self.retry.next_pause(self.began.elapsed()) else {
            return Err(self.exhausted(cause));
        };
        tracing::debug!(?cause, ?pause, "creates again");
        self.contender.session.pause(pause).await;
        Ok(())
    }

    fn refused(&self, operation: &'static str, error: ClientError) -> Stop {
        Stop::Failed(refusal(self.contender.request.path.as_str(), operation, error))
    }

    fn exhausted(&self, source: Option<ClientError>) -> Stop {
        let path = self.contender.request.path.to_string();
        Stop::Failed(AcquireError::RetriesExhausted { path, source })
    }
}

/// Refuses a place so close to the wrap of the sequence numbers that order would end.
pub(super) fn check_sequence(contender: &Contender, entered: &Entered) -> Result<(), Stop> {
    let request = &contender.request;
    match ContenderName::parse(&entered.name, request.kind) {
        Some(name) if is_safe_sequence(name.sequence()) => Ok(()),
        name => Err(Stop::Failed(AcquireError::SequenceExhausted {
            path: request.path.to_string(),
            sequence: name.map_or(-1, |name| name.sequence()),
        })),
    }
}
