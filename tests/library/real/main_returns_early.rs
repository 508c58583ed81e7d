//! Programs whose `main` returns by `?` while they hold a lock: the next holder does not wait for the session timeout.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use zookeeper_recipes::Curator;
use zookeeper_recipes_dev::{Testbed, within};

type AnyError = Box<dyn std::error::Error>;

const ENDED: i32 = 7;

/// A hold that is left behind lasts as long.
const SESSION: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_next_holder_has_the_lock_at_once() {
    let testbed = Testbed::real().await;
    let curator = testbed.curator().await;
    let mutex = curator.mutex(&testbed.path).unwrap();
    for round in 0..20 {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "real::main_returns_early::program", "--ignored"]);
        program.env("SERVERS", testbed.servers.connect_string()).env("LOCK", &testbed.path);
        program.stdout(Stdio::null()).kill_on_drop(true);
        let status = within("the program", program.status()).await.unwrap();
        assert_eq!(status.code(), Some(ENDED));
        let next = mutex.acquire_timeout(SESSION / 2).await;
        let next = next.unwrap_or_else(|error| panic!("{round}: it is still held: {error}"));
        next.release().await.unwrap();
    }
}

/// Not a test: what the other one runs.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn program() {
    let ended = main();
    assert_eq!(ended.unwrap_err().to_string(), "out of stock");
    std::process::exit(ENDED); // as `main` does when it returns: the runtime has ended
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let curator = Curator::builder().session_timeout(SESSION);
    let curator = curator.connect(&std::env::var("SERVERS")?).await?;
    let mutex = curator.mutex(std::env::var("LOCK")?)?;
    let billed = mutex.run(async |_hold| -> Result<u64, AnyError> { Ok(bill().await?) }).await?;
    println!("{billed}");
    Ok(())
}

async fn bill() -> std::io::Result<u64> {
    Err(std::io::Error::other("out of stock"))
}
