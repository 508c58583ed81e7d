//! A link goes silent for twice the session timeout: the holder is told before the server gives the lock away.
//!
//! `cargo run --example fault_proxy` runs against a ZooKeeper that the testkit starts, or the one server that
//! `ZOOKEEPER_CONNECT` names. It prints when the holder was told, when the server deleted its node, and the margin between.
//! A model for tests of code that uses locks: its `Curator` connects through a proxy, and the test breaks the link.

use std::error::Error;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{Curator, InterProcessMutex};
use zookeeper_testkit::{Direction, FaultProxy, TestServer, random_path};

const SESSION: Duration = Duration::from_secs(6);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().tick_time(Duration::from_millis(200)).start().await?;
    let proxy = FaultProxy::start(server.connect_string()).await?;
    let curator = Curator::builder().session_timeout(SESSION);
    let curator = curator.connect(proxy.connect_string()).await?;
    let guard = InterProcessMutex::new(&curator, &random_path("lock"))?.acquire().await?;

    // An administrator, beside the proxy, sees what the server does.
    let administrator = Client::connect(server.connect_string()).await?;
    let (_, watcher) = administrator.check_and_watch_stat(guard.node()).await?;

    println!("both directions stall for {:?}, the session timeout is {SESSION:?}", SESSION * 2);
    let stall = proxy.stall(Direction::Both);
    let start = Instant::now();
    let told = async { (guard.lost().await, start.elapsed()) };
    let deleted = async { (watcher.changed().await.event_type, start.elapsed()) };
    let healing = async {
        sleep(SESSION * 2).await;
        stall.heal();
    };
    let ((loss, told), (event, deleted), ()) = tokio::join!(told, deleted, healing);

    println!("after {told:.3?} the holder was told: {loss}");
    println!("after {deleted:.3?} the server deleted its node: {event:?}");
    if told >= deleted {
        return Err(format!("the holder was told {:.3?} too late", told - deleted).into());
    }
    println!("margin: {:.3?}", deleted - told);

    drop((guard, curator, administrator)); // the session is gone, there is nothing to close
    proxy.close().await;
    server.close().await?;
    Ok(())
}
