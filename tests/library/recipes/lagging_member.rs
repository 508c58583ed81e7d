//! What a client asks a member of an ensemble that has not applied what the others confirmed.

use super::contract::locks;
use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn what_was_released_elsewhere_is_free_on_every_member() {
    // A follower that hears nothing for ten ticks leaves its leader: longer than a test lasts on a busy machine.
    let testbed = Testbed::three(Duration::from_secs(3), 10).await;
    let (leader, members) = (testbed.servers.leader().await, testbed.servers.members());
    let follower = (leader + 1) % 3;
    // We ask the follower by a link of our own, and another client asks the leader.
    let link = members[follower].link().await;
    let builder = testbed.builder().session_timeout(Duration::from_secs(60));
    let ours = builder.clone().connect(link.connect_string()).await.unwrap();
    let other = builder.connect(members[leader].connect_string()).await.unwrap();
    for (mine, theirs) in locks(&testbed, &ours).into_iter().zip(locks(&testbed, &other)) {
        if mine.path().ends_with("/read") {
            continue; // readers hold together
        }
        let held = within("the lock", theirs.acquire()).await.unwrap();
        fails(within("busy", mine.try_acquire()).await, ErrorKind::Busy);
        let parted = testbed.servers.part(follower, leader);
        held.release().await.unwrap();
        let listed = link.requests(Operation::List);
        let path = mine.path().to_owned();
        let trying = tokio::spawn(async move { mine.try_acquire().await });
        eventually("it asks", async || link.requests(Operation::List) > listed).await;
        drop(parted);
        let tried = within("its answer", trying).await.unwrap();
        tried.unwrap_or_else(|error| panic!("{path} is free: {error}")).release().await.unwrap();
    }
}
