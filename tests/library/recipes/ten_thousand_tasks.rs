//! 10,000 tasks of one client wait for one lock.

use std::sync::Mutex;

use crate::prelude::*;

/// However many tasks of one client want a lock, they take turns under one node.
#[tokio::test(start_paused = true)]
async fn ten_thousand_tasks_of_one_client_are_one_node_and_one_create() {
    const TASKS: usize = 10_000;
    let testbed = Testbed::new().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let (link, curator) = testbed.linked(testbed.patient_builder()).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let holder = testbed.mutex(&curator).acquire().await.unwrap();
    for task in 0..TASKS {
        let (mutex, served) = (testbed.mutex(&curator), served.clone());
        tasks.spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            served.lock().unwrap().push(task);
            guard.release().await.unwrap();
        });
    }
    round_trip(&curator).await;
    assert_eq!(testbed.children().await.len(), 1);
    holder.release().await.unwrap();
    within("all are served", tasks.join_all()).await;
    assert!(served.lock().unwrap().iter().copied().eq(0..TASKS), "first come, first served");
    let took = [Operation::Create, Operation::Delete].map(|one| link.requests(one));
    assert_eq!(took, [1, 1]);
    testbed.children_are(0).await;
}
