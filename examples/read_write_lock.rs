//! One writer, or any number of readers; and a writer that goes on reading what it wrote.
//!
//! `cargo run --example read_write_lock` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use zookeeper_recipes::{Curator, Error};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let curator = Curator::connect(server.connect_string()).await?;
    let catalogue = curator.read_write_lock(random_path("catalogue"))?;

    // A writer is alone.
    let write = catalogue.write().await?;
    let written = write.run(async |hold| -> Result<_, Error> {
        println!("writing under token {}", hold.fencing_token());
        Ok("version 1")
    });
    println!("wrote {}", written.await?);

    // Readers read together, in this process and in others.
    let (one, two) = (catalogue.read().await?, catalogue.read().await?);
    println!("two readers, under tokens {} and {}", one.fencing_token(), two.fencing_token());
    let busy = catalogue.try_write().await;
    assert!(busy.is_err_and(|error| error.is_busy()));
    one.release().await?;
    two.release().await?;

    // A reader that comes now waits for the writer. The writer reads on, and no other writer gets in between.
    let write = catalogue.write().await?;
    let downgraded = async {
        while catalogue.participants().await?.len() < 2 {
            tokio::task::yield_now().await;
        }
        write.downgrade().await
    };
    let (reader, down) = tokio::try_join!(catalogue.read(), downgraded)?;
    for participant in catalogue.participants().await? {
        assert!(participant.holds);
        println!("a reader has node {}", participant.node_name());
    }
    reader.release().await?;
    down.release().await?;

    curator.close().await;
    server.close().await?;
    Ok(())
}
