//! Many waiters on one lock.

use tokio::task::JoinSet;
use zookeeper_recipes::Shortcuts;
use zookeeper_recipes::zookeeper_client::CreateMode;

use crate::harness::{Arena, Operation, within};

/// What many tasks of one client ask of the server when they enter at once.
#[tokio::test(start_paused = true)]
async fn of_many_that_enter_at_once_one_lists() {
    const TASKS: usize = 300;
    let arena = Arena::new().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    for (shortcuts, least, most) in
        [(Shortcuts::ALL, 1, 1), (Shortcuts { gap: false, ..Shortcuts::ALL }, TASKS, usize::MAX)]
    {
        // A delete that is answered late is repeated only after a twelfth of the session timeout.
        let builder = arena.patient_builder().shortcuts(shortcuts);
        let (link, curator) = arena.linked(builder).await;
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let mutex = arena.mutex(&curator);
            tasks.spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() });
        }
        within("all are served", tasks.join_all()).await;
        let listings = link.requests(Operation::List);
        assert!((least..=most).contains(&listings), "{listings} with {shortcuts:?}");
        let (creates, deletes) =
            (link.requests(Operation::Create), link.requests(Operation::Delete));
        assert_eq!((creates, deletes), (TASKS, TASKS), "{shortcuts:?}");
        arena.children_are(0).await;
    }
}
