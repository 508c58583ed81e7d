//! A stale holder is refused: by ZooKeeper itself, and by a store of one's own that compares tokens.
//!
//! Runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::error::Error;

use zookeeper_recipes::testkit::{TestServer, random_path};
use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{Curator, FencedError, FencingToken, InterProcessMutex};

/// Stands for a database: it keeps the largest token it has seen next to the value, and compares in the
/// same transaction in which it writes.
#[derive(Default)]
struct Store {
    seen: Option<FencingToken>,
    value: String,
}

impl Store {
    fn write(&mut self, token: FencingToken, value: &str) -> Result<(), String> {
        match self.seen {
            Some(seen) if token < seen => Err(format!("token {token} is older than {seen}")),
            _ => {
                (self.seen, self.value) = (Some(token), value.to_owned());
                Ok(())
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = TestServer::start().await?;
    let (old, new) = (
        Curator::connect(server.connect_string()).await?,
        Curator::connect(server.connect_string()).await?,
    );
    let (path, node) = (random_path("lock"), random_path("config"));
    let mut store = Store::default();

    let stale = InterProcessMutex::new(&old, &path)?.acquire().await?;
    stale.fenced().create(&node, b"by the old holder").await?;
    store.write(stale.fencing_token(), "by the old holder")?;
    println!("the old holder wrote under token {}", stale.fencing_token());

    // An administrator deletes the holder's node, and the lock passes on. The old holder could as well
    // have been stopped for longer than its session, between its last check and its next write.
    let administrator = Client::connect(server.connect_string()).await?;
    administrator.delete(stale.node(), None).await?;
    let next = InterProcessMutex::new(&new, &path)?.acquire().await?;
    next.fenced().set(&node, b"by the new holder").await?;
    store.write(next.fencing_token(), "by the new holder")?;
    println!("the new holder wrote under token {}", next.fencing_token());
    println!("the old holder believes that it holds: {}", stale.is_held());

    match store.write(stale.fencing_token(), "stale") {
        Err(refused) => println!("the store refuses it: {refused}"),
        Ok(()) => return Err("the store took a stale write".into()),
    }
    match stale.fenced().set(&node, b"stale").await {
        Err(refused @ FencedError::Lost { .. }) => println!("ZooKeeper refuses it: {refused}"),
        other => return Err(format!("ZooKeeper took a stale write: {other:?}").into()),
    }
    println!("the old holder believes that it holds: {}", stale.is_held());

    let (data, _) = administrator.get_data(&node).await?;
    println!("the node holds {:?}, the store {:?}", String::from_utf8_lossy(&data), store.value);
    next.fenced().delete(&node).await?;
    next.release().await?;
    drop((stale, administrator));
    server.close().await?;
    Ok(())
}
