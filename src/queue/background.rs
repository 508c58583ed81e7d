//! The tasks of a znode that may be passed on, or is kept without a hold.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::client::WatchPermit;
use tokio_util::sync::CancellationToken;

use super::driver::{QueueDriver, SharedWatch};
use super::node::Znode;
use crate::clock::BootInstant;
use crate::lock_path::LockPath;
use crate::session::lease::TermKind;

/// Lists the contenders, with a watch on the children, to see whether the znode is the sole one. `path` has the contenders.
pub(super) async fn ask_whether_sole(
    driver: Arc<QueueDriver>,
    znode: Arc<Znode>,
    path: LockPath,
    room: WatchPermit,
) {
    let session = &znode.session;
    let listed = async {
        let client = session.client()?;
        client.list_and_watch(path.as_str()).await
    };
    let listed = tokio::select! {
        biased;
        () = session.ended().cancelled() => None,
        () = driver.connection().closing().cancelled() => None,
        listed = listed => listed.ok(),
    };
    driver.listed(znode.czxid, listed.map(|(listing, watch)| (listing, watch.with(room))));
}

/// Gives a retained znode up at the first event of any kind, or when the retention has passed.
pub(super) async fn await_retention_end(
    driver: Arc<QueueDriver>,
    znode: Arc<Znode>,
    end: CancellationToken,
    retention: Duration,
    kind: TermKind,
) {
    let session = &znode.session;
    let event = async {
        let term = session.lease.term(kind, BootInstant::now())?;
        let mut link = session.client().ok()?.watch_link();
        let room = session.try_reserve_spare_watch(&znode.path)?;
        let watch = {
            let client = session.client().ok()?;
            client.watch(&znode.path).await.ok()?
        };
        if znode.is_on_its_link() {
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
        () = driver.limit_changed() => {}
        _ = event => {}
        () = tokio::time::sleep(retention) => {}
    }
    driver.retention_over(znode.czxid);
}

/// Gives a retained znode up when another contender comes or leaves.
pub(super) async fn await_news(
    driver: Arc<QueueDriver>,
    watch: SharedWatch,
    end: CancellationToken,
) {
    let news = std::future::poll_fn(|context| {
        let mut watch = watch.lock();
        // The next task that awaits this watch must not lose its waker to one that is over.
        if end.is_cancelled() { Poll::Pending } else { watch.poll_fired(context) }
    });
    tokio::select! {
        biased;
        () = end.cancelled() => return,
        () = news => {}
    }
    driver.news(&end);
}
