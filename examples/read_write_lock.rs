//! One writer, or any number of readers; and a writer that goes on reading what it wrote.
//!
//! `cargo run --example read_write_lock` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! two readers at a time, a writer that finds them busy, then a writer that a reader waits for, and that reads on beside it.
#![allow(clippy::disallowed_methods)] // an example owns the tasks that it starts

use std::error::Error;

use zookeeper_recipes::{Curator, InterProcessReadWriteLock, Owner};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());

    let curator = Curator::connect(server.connect_string()).await?;
    let lock = InterProcessReadWriteLock::new(&curator, &random_path("catalogue"))?;

    // Readers read together, in this process and in others.
    let (one, two) = (lock.read().acquire().await?, lock.read().acquire().await?);
    println!(
        "two read {}, under tokens {} and {}",
        lock.path(),
        one.fencing_token(),
        two.fencing_token()
    );
    assert!(lock.write().try_acquire().await?.is_none());
    println!("whoever wants to write finds it busy");
    one.release().await?;
    two.release().await?;

    // A writer is alone. A reader that comes now waits behind it.
    let write = lock.write().acquire().await?;
    println!("one writes, under token {}", write.fencing_token());
    let reader = tokio::spawn({
        let reader = lock.read();
        async move { reader.acquire().await }
    });
    while lock.participants().await?.len() < 2 {
        tokio::task::yield_now().await;
    }

    // It goes on reading what it wrote: the reader gets in, and no writer in between.
    let down = write.downgrade().await?;
    let reader = reader.await??;
    for participant in lock.participants().await? {
        assert!(participant.holds);
        println!("{} reads (node {})", participant.id(), participant.path);
    }
    down.release().await?;
    reader.release().await?;

    // An owner reads in its write, and is told at once that it cannot write in its read.
    let owned = async {
        let write = lock.write().acquire().await?;
        let read = lock.read().acquire().await?;
        drop(write);
        let refused = lock.write().acquire().await.err().ok_or("it wrote in its read")?;
        println!("to write in a read: {refused}");
        drop(read);
        Ok::<_, Box<dyn Error>>(())
    };
    Owner::new().scope(owned).await?;

    curator.close().await?;
    server.close().await?;
    Ok(())
}
