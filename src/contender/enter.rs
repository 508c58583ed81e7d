//! Entering the queue: the protected create.
//!
//! The create and the first listing are sent together: ZooKeeper answers one session's requests in
//! order, so the listing contains our own node. It counts only if that create was answered with Ok. Where the
//! [gap rule](super::gap) can be expected to do without, no listing is sent; where it has nothing to go by yet, a
//! watch on the parent is sent between the two.
//!
//! One GUID for each entering. Only the repetition of a create whose outcome is unknown keeps it;
//! whatever else is tried again draws a new one. An unknown outcome is resolved behind a barrier
//! (see [`duty`](crate::session::duty)): the node is adopted only if this very session owns it
//! (invariant 2; the check whose absence is CURATOR-604).

use std::sync::Arc;

use tokio::sync::oneshot;

use super::line::{Line, Lister, Verdict};
use super::lines::Lines;
use super::local::Spot;
use super::place::Place;
use super::trace::Trace;
use super::{Contender, HoldState, Request, Stop, refusal};
use crate::client::{Client, ClientError, Failure, LinkWatch, Listing, Write, WriteFailure};
use crate::contender_name::{is_safe_sequence, last_number, protected_prefix};
use crate::error::AcquireError;
use crate::metrics::{self, Operation};
use crate::random;
use crate::retry::Retry;
use crate::session::clock::Moment;
use crate::session::duty::{Duty, find};

/// What is known of a node's place in the queue.
#[derive(Debug)]
pub(super) enum Known {
    /// By the gap rule, or by somebody else of the same line.
    Verdict(Verdict),
    /// From a request that was sent behind the create; others may wait for what it says.
    Listing(Listing, Option<Lister>),
    Nothing,
    /// That it has stood in the queue before.
    Place,
}

/// How often a missing parent is made again at once: somebody may delete it as fast as we make it.
const PARENTS_AT_ONCE: usize = 3;

/// Enters the queue; the place is left in the trace.
pub(super) async fn enter<C: Send>(
    contender: &Contender,
    lines: &Arc<Lines>,
    line: &Arc<Line>,
    trace: &Trace,
    caller: &mut oneshot::Sender<C>,
) -> Result<(Arc<Spot>, Known), Stop> {
    let mut entering = Entering {
        contender,
        lines,
        line,
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
        let created = match &contender.request.beside {
            None => entering.create().await,
            Some(write) => entering.create_beside(write).await,
        };
        contender.beside_lasts()?;
        match created {
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
                metrics::unknown(Operation::Create);
                let resolved = contender.unless_stopped(caller, entering.resolve()).await?;
                if let Some(spot) = resolved {
                    let beside = contender.request.beside.as_ref();
                    let verdict = beside.map(|_| line.admitted(&spot));
                    return Ok((spot, verdict.map_or(Known::Nothing, Known::Verdict)));
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
    lines: &'a Arc<Lines>,
    line: &'a Arc<Line>,
    trace: &'a Trace,
    began: Moment,
    retry: Retry,
    /// The name up to the sequence number, GUID included.
    prefix: String,
}

impl Entering<'_> {
    fn draw_guid(&mut self) {
        let Request { kind, beside, .. } = &self.contender.request;
        self.prefix = protected_prefix(random::guid(), *kind);
        if let Some(write) = beside {
            // The whole name: a down-graded read has its writer's number.
            self.prefix.push_str(write.digits());
        }
        self.trace.nothing();
    }

    async fn create(&self) -> Result<(Arc<Spot>, Known), Failure> {
        let request = &self.contender.request;
        let epoch = &self.lines.epoch;
        let client = epoch.client()?;
        let path = request.path.child(&self.prefix);
        let search = Duty::Search { parent: request.path.clone(), prefix: self.prefix.clone() };
        self.trace.search(search);
        let (ticket, lister, sent) = self.line.create(|list, watch| {
            let stamp = Moment::now();
            let create = client.create_contender(&path, &request.data, &request.acls);
            // Before the listing: that is to be from after the watch.
            let watch = watch.then(|| watch_parent(self.line, &client));
            let list = list.then(|| client.list(request.path.as_str()));
            (stamp, create, watch, list)
        });
        let (stamp, create, watch, list) = sent;
        let (sequence, czxid) = match epoch.proven(stamp, create).await {
            Ok(created) => created,
            Err(failure @ (Failure::Unknown(_) | Failure::SessionOver(_))) => return Err(failure),
            Err(definite) => {
                self.trace.nothing();
                return Err(definite);
            }
        };
        let name = format!("{}{sequence:010}", self.prefix);
        let spot = self.entered(&client, &name, sequence, czxid).await?;
        let verdict = self.line.settle(ticket, &spot).await;
        if let Some(watch) = watch {
            watch.await;
        }
        let known = match (verdict, list) {
            (Some(verdict), _) => Known::Verdict(verdict),
            (None, Some(list)) => match list.await {
                Ok(listing) => Known::Listing(listing, lister),
                Err(_) => Known::Nothing,
            },
            (None, None) => Known::Nothing,
        };
        Ok((spot, known))
    }

    /// Creates a read beside a write hold, in one transaction with a look whether that is there: so no writer can have
    /// come in between.
    async fn create_beside(&self, write: &HoldState) -> Result<(Arc<Spot>, Known), Failure> {
        let request = &self.contender.request;
        let epoch = &self.lines.epoch;
        let client = epoch.client()?;
        let path = request.path.child(&self.prefix);
        let search = Duty::Search { parent: request.path.clone(), prefix: self.prefix.clone() };
        self.trace.search(search);
        let stamp = Moment::now();
        let read = Write::Create { data: &request.data, acls: &request.acls, ephemeral: true };
        let sent = client.write_while_there(write.node(), &path, &read);
        match epoch.proven(stamp, sent).await {
            Ok(()) => {}
            Err(WriteFailure::NotThere) => {
                self.trace.nothing();
                write.node_is_gone();
                return Err(Failure::NoNode);
            }
            // Only we know this name: an earlier try took effect.
            Err(WriteFailure::Write(exists @ Failure::NodeExists)) => {
                return Err(exists.into_source().map_or(Failure::NoNode, Failure::Unknown));
            }
            Err(WriteFailure::Check(failure) | WriteFailure::Write(failure)) => {
                if !matches!(failure, Failure::Unknown(_) | Failure::SessionOver(_)) {
                    self.trace.nothing();
                }
                return Err(failure);
            }
        }
        // Not every server tells of a node that was created in a transaction.
        let spot = self.entered(&client, &self.prefix, write.sequence(), 0).await?;
        let verdict = self.line.admitted(&spot);
        Ok((spot, Known::Verdict(verdict)))
    }

    /// Takes the place of a node that is known to be ours.
    async fn entered(
        &self,
        client: &Client,
        name: &str,
        sequence: i64,
        mut czxid: i64,
    ) -> Result<Arc<Spot>, Failure> {
        let node = self.contender.request.path.child(name);
        if czxid <= 0 {
            // Servers before 3.5 do not tell at the create.
            let read = client.read(&node).await.map_err(|failure| match failure {
                // The create was answered: what follows must not be taken for its failure.
                Failure::NotNow(error) | Failure::Refused(error) => Failure::Unknown(error),
                failure => failure,
            });
            czxid = read?.change.czxid;
        }
        Ok(self.take_place(node, sequence, czxid))
    }

    fn take_place(&self, node: String, sequence: i64, czxid: i64) -> Arc<Spot> {
        let asker = self.contender.asker;
        let shared = self.contender.request.is_shared();
        let spot = Arc::new(Spot::new(node, czxid, sequence, shared, asker));
        let take = |room| Place::new(spot.clone(), self.line.clone(), self.lines.clone(), room);
        self.trace.place(take);
        spot
    }

    /// Finds out what became of a create.
    async fn resolve(&self) -> Result<Option<Arc<Spot>>, Stop> {
        let request = &self.contender.request;
        let epoch = &self.lines.epoch;
        let search = || async {
            for name in find(epoch, &request.path, &self.prefix).await? {
                match epoch.client()?.read(&request.path.child(&name)).await {
                    Ok(node) if node.owner == epoch.session_id() => {
                        return Ok(Some((name, node.change.czxid)));
                    }
                    Ok(_) | Err(Failure::NoNode) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Ok(None)
        };
        match self.contender.session().retried(&request.retry, search).await {
            Ok(Some((name, czxid))) => {
                tracing::debug!(name, "the create had taken effect");
                let sequence = last_number(&name).unwrap_or(-1);
                Ok(Some(self.take_place(request.path.child(&name), sequence, czxid)))
            }
            Ok(None) => Ok(None),
            Err(Failure::Refused(error)) => Err(self.refused("list", error)),
            Err(Failure::SessionOver(cause)) => Err(Stop::Again(Some(cause))),
            Err(failure) => Err(self.exhausted(failure.into_source())),
        }
    }

    async fn make_parents(&self) -> Result<(), Stop> {
        let request = &self.contender.request;
        let parent = self.contender.session().absolute(&request.path);
        let make = || async {
            let client = self.lines.epoch.client()?;
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
        match self.contender.session().retried(&request.retry, make).await {
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
        metrics::retried(Operation::Create);
        self.contender.session().pause(pause).await;
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

/// Asks for the watch on the parent; the future notes the answer in the line.
fn watch_parent<'a>(
    line: &'a Line,
    client: &'a Client,
) -> impl Future<Output = ()> + Send + use<'a> {
    /// However it ends, somebody else may ask again.
    struct Asked<'a> {
        line: &'a Line,
        link: Option<LinkWatch>,
    }
    impl Drop for Asked<'_> {
        fn drop(&mut self) {
            if self.link.is_some() {
                self.line.parent_watched(None);
            }
        }
    }
    let mut asked = Asked { line, link: Some(client.watch_link()) };
    let sent = client.watch(line.path.as_str());
    async move {
        if let Ok(watch) = sent.await
            && let Some(link) = asked.link.take()
        {
            line.parent_watched(Some((watch, link)));
        }
    }
}

/// Refuses a place so close to the wrap of the sequence numbers that order would end.
pub(super) fn check_sequence(contender: &Contender, spot: &Spot) -> Result<(), Stop> {
    if is_safe_sequence(spot.sequence) {
        return Ok(());
    }
    Err(Stop::Failed(AcquireError::SequenceExhausted {
        path: contender.request.path.to_string(),
        sequence: spot.sequence,
    }))
}
