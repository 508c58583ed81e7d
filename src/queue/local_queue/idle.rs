//! Tasks for a node without a hold, or that may be passed on.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::state::LocalQueue;
use crate::client::ChildrenWatch;
use crate::clock::Moment;
use crate::lock::Mutex;
use crate::queue::node::SharedNode;
use crate::queue::request::Request;

/// Asks for the children of a node's path, with a watch.
pub(super) async fn ask_whether_alone(
    queue: Arc<LocalQueue>,
    node: SharedNode,
    room: OwnedSemaphorePermit,
) {
    let SharedNode { node, siblings, nodes } = node;
    let asked = async {
        let client = nodes.epoch.client()?;
        client.list_and_watch(siblings.path.as_str()).await
    };
    let answer = tokio::select! {
        biased;
        () = nodes.epoch.over().cancelled() => None,
        () = queue.session().closing().cancelled() => None,
        answer = asked => answer.ok(),
    };
    queue.answered(node.czxid, answer.map(|(listing, watch)| (listing, watch.with(room))));
}

/// Gives up a node without a hold at the first event of any kind, or when its time is over.
pub(super) async fn keep_for(
    queue: Arc<LocalQueue>,
    node: SharedNode,
    request: Arc<Request>,
    end: CancellationToken,
) {
    let SharedNode { node, nodes, .. } = node;
    let epoch = &nodes.epoch;
    let happens = async {
        let term = epoch.lease.term(request.loss_policy, Moment::now())?;
        let mut link = epoch.client().ok()?.watch_link();
        let room = epoch.spare_room(&node.node)?;
        let watch = {
            let client = epoch.client().ok()?;
            client.watch(&node.node).await.ok()?
        };
        if node.is_on_its_link() {
            tokio::select! {
                biased;
                () = term.ended().cancelled() => {}
                _ = link.changed() => {}
                _ = watch => {}
            }
        }
        drop(room);
        Some(())
    };
    tokio::select! {
        biased;
        () = end.cancelled() => return,
        () = queue.session().closing().cancelled() => {}
        _ = happens => {}
        () = tokio::time::sleep(request.retention) => {}
    }
    queue.ends_keeping(node.czxid);
}

/// Gives up a kept node when another contender comes, or leaves.
pub(super) async fn until_news(
    queue: Arc<LocalQueue>,
    watch: Arc<Mutex<ChildrenWatch>>,
    end: CancellationToken,
) {
    let news = std::future::poll_fn(|context| watch.lock().poll_fired(context));
    tokio::select! {
        biased;
        () = end.cancelled() => return,
        () = news => {}
    }
    queue.news(&end);
}
