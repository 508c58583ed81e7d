//! Tasks for a node that may be passed on, or has no hold.

use std::sync::Arc;
use std::time::Duration;

use crate::client::WatchPermit;
use tokio_util::sync::CancellationToken;

use super::driver::{QueueDriver, SharedWatch};
use super::node::SharedNode;
use crate::clock::Moment;
use crate::session::lease::LossPolicy;

/// Lists the children of a node's path, with a watch.
pub(super) async fn ask_whether_sole(
    driver: Arc<QueueDriver>,
    node: SharedNode,
    room: WatchPermit,
) {
    let SharedNode { node, path_nodes, nodes } = node;
    let asked = async {
        let client = nodes.session.client()?;
        client.list_and_watch(path_nodes.path.as_str()).await
    };
    let answer = tokio::select! {
        biased;
        () = nodes.session.ended().cancelled() => None,
        () = driver.connection().closing().cancelled() => None,
        answer = asked => answer.ok(),
    };
    driver.answered(node.czxid, answer.map(|(listing, watch)| (listing, watch.with(room))));
}

/// Gives up a retained node at the first event of any kind, or when its time is over.
pub(super) async fn retain(
    driver: Arc<QueueDriver>,
    node: SharedNode,
    end: CancellationToken,
    retention: Duration,
    loss_policy: LossPolicy,
) {
    let SharedNode { node, nodes, .. } = node;
    let session = &nodes.session;
    let happens = async {
        let term = session.lease.term(loss_policy, Moment::now())?;
        let mut link = session.client().ok()?.watch_link();
        let room = session.try_reserve_spare_watch(&node.path)?;
        let watch = {
            let client = session.client().ok()?;
            client.watch(&node.path).await.ok()?
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
        () = driver.connection().closing().cancelled() => {}
        _ = happens => {}
        () = tokio::time::sleep(retention) => {}
    }
    driver.retention_over(node.czxid);
}

/// Gives up a retained node when another contender comes, or leaves.
pub(super) async fn until_news(
    driver: Arc<QueueDriver>,
    watch: SharedWatch,
    end: CancellationToken,
) {
    let news = std::future::poll_fn(|context| watch.lock().poll_fired(context));
    tokio::select! {
        biased;
        () = end.cancelled() => return,
        () = news => {}
    }
    driver.news(&end);
}
