//! The recipes of docs/guide/beside-the-locks.md beside those of Curator whose znodes they share. The page is a copy of the
//! functions here, which the house test checks.

use std::sync::Arc;

use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};
use zookeeper_recipes_dev::{Testbed, does_not_apply, within};

use crate::support::peer_process::Peer;
use crate::support::peers::{is_curator_2_7_1, java, source, start};

/// Adds to the number at a path, and returns the sum.
async fn add(client: &Client, path: &str, more: i64) -> Result<i64, Box<dyn std::error::Error>> {
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    loop {
        let read = match client.get_data(path).await {
            Err(ClientError::NoNode) => None,
            read => Some(read?),
        };
        let before = match &read {
            Some((data, _)) if !data.is_empty() => i64::from_be_bytes(data.as_slice().try_into()?),
            _ => 0,
        };
        let sum = before.wrapping_add(more);
        let bytes = sum.to_be_bytes();
        let written = match &read {
            Some((_, stat)) => client.set_data(path, &bytes, Some(stat.version)).await.map(drop),
            None => client.create(path, &bytes, &persistent).await.map(drop),
        };
        match written {
            Ok(()) => return Ok(sum),
            Err(ClientError::BadVersion | ClientError::NodeExists) => {} // another process was faster
            Err(error) => return Err(error.into()),
        }
    }
}

/// Calls `seen` with each value of a znode that is read, and with `None` while there is no znode.
async fn follow(
    client: &Client,
    path: &str,
    mut seen: impl FnMut(Option<&[u8]>),
) -> Result<(), ClientError> {
    loop {
        match client.get_and_watch_data(path).await {
            Ok((data, _, watcher)) => {
                seen(Some(&data));
                watcher.changed().await;
            }
            Err(ClientError::NoNode) => {
                seen(None);
                if let (None, watcher) = client.check_and_watch_stat(path).await? {
                    watcher.changed().await;
                }
            }
            Err(error) => return Err(error), // also at the end of the session: go on with the next
        }
    }
}

/// Waits while the barrier is set, as `waitOnBarrier` does.
async fn wait_on_barrier(client: &Client, path: &str) -> Result<(), ClientError> {
    while let (Some(_), watcher) = client.check_and_watch_stat(path).await? {
        watcher.changed().await;
    }
    Ok(())
}

/// Starts a process of Curator's recipes with a session. `None` if they cannot run, for a reason that is printed.
pub(crate) async fn curators(testbed: &Testbed) -> Option<Arc<Peer>> {
    if is_curator_2_7_1() {
        does_not_apply("Curator 2.7.1 has no `PersistentNode`");
        return None;
    }
    let program = java("BesideTheLocks", &["Answers.java", "BesideTheLocks.java"].map(source))?;
    let peer = start("Curator's other recipes", &program);
    peer.ask(format!("connect {}", testbed.server.connect_string())).await;
    Some(peer)
}

/// Curator: `TestDistributedAtomicLong#testSimulation` and `#testCorruptedValue`.
#[tokio::test]
async fn both_count_in_one_distributed_atomic_long() {
    let testbed = Testbed::real().await;
    let Some(peer) = curators(&testbed).await else { return };
    let client = testbed.client().await;
    let path = &testbed.path;
    for values in [[5, i64::MIN], [i64::MAX, 1], [-1, -1]] {
        let [ours, theirs] = values;
        assert_eq!(add(&client, path, ours).await.unwrap(), ours);
        let sum = ours.wrapping_add(theirs);
        assert_eq!(peer.ask(format!("add {path} {theirs}")).await, sum.to_string());
        assert_eq!(add(&client, path, 0).await.unwrap(), sum);
        assert_eq!(client.get_data(path).await.unwrap().0, sum.to_be_bytes());
        client.delete(path, None).await.unwrap();
    }
    // Each adds twenty times, over what the other adds meanwhile.
    let theirs = async {
        for _ in 0..20 {
            while peer.ask(format!("add {path} 1")).await == "no" {}
        }
    };
    let ours = async {
        for _ in 0..20 {
            add(&client, path, 1).await.unwrap();
        }
    };
    tokio::join!(theirs, ours);
    assert_eq!(peer.ask(format!("add {path} 0")).await, "40");
    client.set_data(path, b"", None).await.unwrap(); // is zero to both
    assert_eq!(peer.ask(format!("add {path} 2")).await, "2");
    client.set_data(path, b"", None).await.unwrap();
    assert_eq!(add(&client, path, 3).await.unwrap(), 3);
    client.set_data(path, b"three", None).await.unwrap(); // is an error to both
    assert!(peer.begin(format!("add {path} 2")).outcome().await.is_err());
    assert!(add(&client, path, 3).await.is_err());
    client.delete(path, None).await.unwrap();
}

#[tokio::test]
async fn a_follower_sees_a_znode_come_change_and_go() {
    let testbed = Testbed::real().await;
    let client = testbed.client().await;
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    let seen = |value: Option<&[u8]>| tx.send(value.map(<[u8]>::to_vec)).unwrap();
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let changes = async {
        assert_eq!(rx.recv().await.unwrap(), None);
        client.create(&testbed.path, b"1", &persistent).await.unwrap();
        assert_eq!(rx.recv().await.unwrap().unwrap(), b"1");
        client.set_data(&testbed.path, b"2", None).await.unwrap();
        assert_eq!(rx.recv().await.unwrap().unwrap(), b"2");
        client.delete(&testbed.path, None).await.unwrap();
        assert_eq!(rx.recv().await.unwrap(), None);
    };
    tokio::select! {
        followed = follow(&client, &testbed.path, seen) => panic!("{followed:?}"),
        () = within("the changes", changes) => {}
    }
}

/// Curator: `TestDistributedBarrier#testBasic` and `#testNoBarrier`.
#[tokio::test]
async fn either_waits_for_the_others_barrier() {
    let testbed = Testbed::real().await;
    let Some(peer) = curators(&testbed).await else { return };
    let client = testbed.client().await;
    let path = &testbed.path;
    within("no barrier", wait_on_barrier(&client, path)).await.unwrap();

    peer.ask(format!("set-barrier {path}")).await;
    let (_, stat) = client.get_data(path).await.unwrap();
    assert_eq!(stat.ephemeral_owner, 0);
    let waits = wait_on_barrier(&client, path);
    tokio::pin!(waits);
    assert!(futures_util::poll!(&mut waits).is_pending());
    peer.ask(format!("remove-barrier {path}")).await;
    within("it is removed", waits).await.unwrap();

    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(path, b"", &persistent).await.unwrap();
    assert_eq!(peer.ask(format!("wait-on-barrier {path} 100")).await, "set");
    let theirs = peer.begin(format!("wait-on-barrier {path} 60000"));
    client.delete(path, None).await.unwrap();
    assert_eq!(theirs.await, "open");
}
