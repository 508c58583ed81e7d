//! Writes of a shared count whose request or reply gets lost: what became of them is found out, or said to be unknown.

use tokio::task::JoinHandle;
use zookeeper_recipes::interop::SharedCount;
use zookeeper_recipes::{Error, ErrorKind};

use crate::harness::{Arena, Fault, Link, Message, Operation, eventually, fails, within};

struct Linked {
    arena: Arena,
    link: Link,
    count: SharedCount,
}

impl Linked {
    /// Behind a proxy, with 1 as the count, and the watch on its node in place.
    async fn new() -> Self {
        let (arena, link, curator) = Arena::with_link(Arena::builder).await;
        let count = SharedCount::start(&curator, &arena.path, 1).await.unwrap();
        eventually("a watch", async || link.replies(Operation::GetData) >= 2).await;
        Self { arena, link, count }
    }

    async fn stored(&self) -> (i32, i32) {
        let (data, stat) = self.arena.admin.get_data(&self.arena.path).await.unwrap();
        (i32::from_be_bytes(data.try_into().unwrap()), stat.version)
    }

    async fn write(&self, value: i32) {
        self.arena.admin.set_data(&self.arena.path, &value.to_be_bytes(), None).await.unwrap();
    }

    /// A write over what is known, of 2, whose message gets lost; there is no connection until the fault heals.
    async fn swap_and_lose(&self, lost: Message) -> (Fault, JoinHandle<Result<bool, Error>>) {
        let refused = self.link.refuse();
        let lost = self.link.lose(lost);
        let count = self.count.clone();
        let writing = tokio::spawn(async move { count.try_set(&count.versioned(), 2).await });
        within("the loss", lost.struck()).await;
        within("a refusal", refused.struck()).await;
        (refused, writing)
    }
}

/// That it is there does not say that it was ours: somebody else may have counted to 2.
#[tokio::test(start_paused = true)]
async fn a_write_over_a_version_whose_reply_is_lost_is_unknown() {
    let linked = Linked::new().await;
    let (refused, writing) = linked.swap_and_lose(Message::reply(Operation::SetData)).await;
    refused.heal();
    fails(within("the write", writing).await.unwrap(), ErrorKind::OutcomeUnknown);
    // Once.
    assert_eq!(linked.stored().await, (2, 1));
    eventually("it is known", async || linked.count.value() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_write_that_another_value_overtook_did_not_happen() {
    let linked = Linked::new().await;
    let (refused, writing) = linked.swap_and_lose(Message::request(Operation::SetData)).await;
    linked.write(9).await;
    refused.heal();
    assert!(!within("the write", writing).await.unwrap().unwrap());
    assert_eq!(linked.stored().await, (9, 1));
    assert_eq!(linked.count.value(), 9, "read again");
}

#[tokio::test(start_paused = true)]
async fn a_lost_write_over_a_node_that_is_gone_is_unknown() {
    let linked = Linked::new().await;
    let (refused, writing) = linked.swap_and_lose(Message::request(Operation::SetData)).await;
    linked.arena.admin.delete(&linked.arena.path, None).await.unwrap();
    refused.heal();
    fails(within("the write", writing).await.unwrap(), ErrorKind::OutcomeUnknown);
}
