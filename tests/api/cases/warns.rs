//! Programs that compile and do nothing of use: the compiler says so of each.
#![allow(dead_code)]

use std::time::Duration;

use zookeeper_recipes::{Curator, Error, Hold, InterProcessMutex, InterProcessSemaphoreV2};

async fn nothing_is_locked(mutex: InterProcessMutex, semaphore: InterProcessSemaphoreV2) -> Result<(), Error> {
    mutex.acquire().await?; //~ unused_must_use
    mutex.try_acquire().await?; //~ unused_must_use
    mutex.acquire_timeout(Duration::from_secs(1)).await?; //~ unused_must_use
    semaphore.try_acquire_many(3).await?; //~ unused_must_use
    mutex.acquire(); //~ unused_must_use
    mutex.run(async |_| Ok::<_, Error>(())); //~ unused_must_use
    mutex.try_run(async |_| Ok::<_, Error>(())); //~ unused_must_use
    mutex.run_timeout(Duration::from_secs(1), async |_| Ok::<_, Error>(())); //~ unused_must_use
    mutex.with(async |_| "x".parse::<u8>()).await?; //~ unused_must_use
    Ok(())
}

async fn nothing_takes_part(curator: Curator) -> Result<(), Error> {
    Curator::connect("zk").await?; //~ unused_must_use
    Curator::builder(); //~ unused_must_use
    curator.with_identity("audit-7"); //~ unused_must_use
    curator.mutex("/a")?; //~ unused_must_use
    curator.mutex("/a")?.with_node_per_hold(); //~ unused_must_use
    curator.read_write_lock("/a")?; //~ unused_must_use
    curator.multi_lock(["/a"])?; //~ unused_must_use
    curator.once("/a", "b")?; //~ unused_must_use
    curator.once("/a", "b")?.run(async |_| Ok::<_, Error>(())).await?; //~ unused_must_use
    curator.once("/a", "b")?.try_run(async |_| Ok::<_, Error>(())).await?; //~ unused_must_use
    curator.leader_latch("/a")?; //~ unused_must_use
    curator.leader_selector("/a")?; //~ unused_must_use
    curator.leader_selector("/a")?.run(async |_| ()); //~ unused_must_use
    curator.observe_leader("/a")?; //~ unused_must_use
    Ok(())
}

async fn nothing_is_asked(hold: &Hold, mutex: InterProcessMutex) -> Result<(), Error> {
    hold.is_held(); //~ unused_must_use
    hold.fencing_token(); //~ unused_must_use
    hold.cancellation_token(); //~ unused_must_use
    hold.fenced(); //~ unused_must_use
    hold.view(); //~ unused_must_use
    hold.lost(); //~ unused_must_use
    hold.session_lease_left(); //~ unused_must_use
    let guard = mutex.acquire().await?;
    guard.reenter(); //~ unused_must_use
    guard.release(); //~ unused_must_use
    let guard = mutex.acquire().await?;
    guard.release().await; //~ unused_must_use
    Ok(())
}

fn main() {}
