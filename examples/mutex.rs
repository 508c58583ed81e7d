//! The README's example: one lock, and what to know while it is held.
//!
//! Runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use zookeeper_recipes::{Curator, InterProcessMutex};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connect = std::env::var("ZOOKEEPER_CONNECT").unwrap();
    let curator = Curator::connect(&connect).await?;
    let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;
    for _ in 0..3 {
        let guard = mutex.acquire().await?;
        println!("{guard:?}");
        println!("{:?}", mutex.participants().await?);
        println!("{:?}", mutex.try_acquire().await?);
        println!(
            "{:?}",
            mutex
                .acquire_timeout(std::time::Duration::from_millis(100))
                .await?
        );
        println!("{:?}", guard.release().await?);
        println!("{:?}", mutex.participants().await?);
    }
    println!("{:?}", mutex.with(async |hold| hold.fencing_token()).await?);
    curator.close().await?;
    println!("{:?}", mutex.acquire().await);
    Ok(())
}
