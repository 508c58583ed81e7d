//! Persistent nodes and group members beside those of Curator.

use std::sync::Arc;

use zookeeper_recipes::group::Membership;
use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{Curator, PersistentNodeState};
use zookeeper_recipes_dev::{Testbed, eventually, within};
use zookeeper_testkit::kill_session;

use crate::beside_the_locks::curators;
use crate::support::peer_process::Peer;

struct Group {
    testbed: Testbed,
    client: Client,
    curator: Curator,
    peer: Arc<Peer>,
}

impl Group {
    /// `None` if Curator's classes cannot run.
    async fn new() -> Option<Self> {
        let testbed = Testbed::real().await;
        let peer = curators(&testbed).await?;
        let client = testbed.client().await;
        let curator = Curator::connect(testbed.server.connect_string()).await.unwrap();
        Some(Self { testbed, client, curator, peer })
    }

    async fn data(&self, path: &str) -> Option<String> {
        let (data, stat) = self.client.get_data(path).await.ok()?;
        assert_ne!(stat.ephemeral_owner, 0, "{path}");
        Some(String::from_utf8(data).unwrap())
    }

    async fn becomes(&self, path: &str, wanted: Option<&str>) {
        let is_so = async || self.data(path).await.as_deref() == wanted;
        eventually(&format!("{path}: {wanted:?}"), is_so).await;
    }

    async fn kill_our_session(&self) {
        let session = self.curator.client().unwrap().session().clone();
        kill_session(self.testbed.server.connect_string(), &session).await.unwrap();
    }

    async fn join(&self, id: &str) -> Membership {
        let member = self.curator.group_member(&self.testbed.path, id).unwrap();
        within("to join", member.with_data("rust").join()).await.unwrap()
    }

    /// Curator's member sees these.
    async fn curator_sees(&self, wanted: &str) {
        let sees = async || self.peer.ask(format!("members {}", self.testbed.path)).await == wanted;
        eventually(wanted, sees).await;
    }
}

/// Curator: `TestPersistentEphemeralNode#testRecreatesNodeWhenSessionReconnects`.
#[tokio::test]
async fn a_persistent_node_of_either_is_created_again_after_the_end_of_its_session() {
    let Some(group) = Group::new().await else { return };
    let path = &group.testbed.path;
    let node = group.curator.persistent_node(path, "rust").unwrap();
    let hold = within("the znode", node.start()).await.unwrap();
    assert_eq!(group.peer.ask(format!("cached {path}")).await, "rust");
    group.kill_our_session().await;
    within("the loss", hold.lost()).await;
    let next = within("the next one", node.start()).await.unwrap();
    assert!(next.fencing_token() > hold.fencing_token());
    within("the close", node.close()).await.unwrap();

    group.peer.ask(format!("persist {path} java")).await;
    group.becomes(path, Some("java")).await;
    group.client.delete(path, None).await.unwrap();
    group.becomes(path, Some("java")).await;
    group.peer.ask(format!("unpersist {path}")).await;
    group.becomes(path, None).await;
}

/// Ours waits for Curator's. Curator's writes over ours, which is then written again and stays ours.
#[tokio::test]
async fn two_persistent_nodes_at_one_path() {
    let Some(group) = Group::new().await else { return };
    let path = &group.testbed.path;
    group.peer.ask(format!("persist {path} java")).await;
    let node = group.curator.persistent_node(path, "rust").unwrap();
    let start = {
        let node = node.clone();
        tokio::spawn(async move { node.start().await })
    };
    let is_taken = async || matches!(node.state(), PersistentNodeState::Taken { .. });
    eventually("it is taken", is_taken).await;
    assert_eq!(group.data(path).await.as_deref(), Some("java"));
    group.peer.ask(format!("unpersist {path}")).await;
    let hold = within("its turn", start).await.unwrap().unwrap();

    group.peer.ask(format!("persist {path} java")).await;
    group.becomes(path, Some("rust")).await;
    assert!(hold.is_held());
    // Curator takes our znode for its own, and deletes it.
    group.peer.ask(format!("unpersist {path}")).await;
    within("the loss", hold.lost()).await;
    within("the next one", node.start()).await.unwrap();
    group.becomes(path, Some("rust")).await;
}

/// Curator: `TestGroupMember#testBasic`.
#[tokio::test]
async fn both_are_members_of_one_group() {
    let Some(group) = Group::new().await else { return };
    let path = &group.testbed.path;
    group.peer.ask(format!("join {path} java one")).await;
    let mut observer = group.curator.observe_group(path).unwrap();
    let membership = group.join("rust").await;
    let slashed = group.join("10.0.0.7:8080/a").await;
    group.curator_sees("10.0.0.7:8080%2Fa=rust,java=one,rust=rust").await;
    loop {
        let members = within("a report", observer.changed()).await.unwrap();
        let ids: Vec<_> = members.ids().collect();
        if ids == ["10.0.0.7:8080/a", "java", "rust"] {
            assert_eq!(members.get("java").unwrap().data, b"one");
            break;
        }
    }
    slashed.leave().await.unwrap();
    group.curator_sees("java=one,rust=rust").await;
    membership.set_data("two").await.unwrap();
    group.curator_sees("java=one,rust=two").await;
    let hold = within("the hold", membership.joined()).await.unwrap();
    group.kill_our_session().await;
    within("the loss", hold.lost()).await;
    let next = within("the next one", membership.joined()).await.unwrap();
    group.curator_sees("java=one,rust=two").await;
    assert!(next.is_held());
    membership.leave().await.unwrap();
    group.curator_sees("java=one").await;
    group.peer.ask(format!("leave {path}")).await;
    group.becomes(&format!("{path}/java"), None).await;
}
