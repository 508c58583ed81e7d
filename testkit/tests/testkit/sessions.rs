//! Sessions: short ones are granted, and one can be killed for real.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{CreateMode, SessionState};
use zookeeper_testkit::{Backend, TestServer, TestkitError, kill_session, random_path};

use crate::support::{LIMIT, connect, create, server};

#[tokio::test]
async fn kill_session_deletes_and_expires() {
    let server = server().await;
    let connect = || connect(server.connect_string());
    let (victim, witness) = (connect().await, connect().await);
    let path = random_path("victim");
    create(&victim, &path, CreateMode::Ephemeral).await;
    let mut states = victim.state_watcher();

    kill_session(server.connect_string(), victim.session()).await.expect("killed");

    let stat = witness.check_stat(&path).await.expect("an answer");
    assert!(stat.is_none(), "gone when the call returns");
    let terminal = async { while !states.changed().await.is_terminated() {} };
    timeout(LIMIT, terminal).await.expect("in time");
    assert_eq!(victim.state(), SessionState::Expired);

    // An answer that comes late counts as a cut, and then the session had been alive.
    let refused = async {
        loop {
            if let Err(error) = kill_session(server.connect_string(), victim.session()).await {
                return error;
            }
        }
    };
    let error = timeout(LIMIT, refused).await.expect("in time");
    assert!(matches!(error, TestkitError::KillSession { .. }), "{error:?}");
}

#[tokio::test]
async fn container_checks() {
    let builder = TestServer::builder().backend(Backend::Process);
    let builder = builder.container_check_interval(Duration::from_millis(50));
    let server = builder.start().await.expect("a server");
    let client = connect(server.connect_string()).await;
    let container = random_path("container");
    create(&client, &container, CreateMode::Container).await;
    let child = format!("{container}/child");
    create(&client, &child, CreateMode::Persistent).await;
    let (_, watcher) = client.check_and_watch_stat(&container).await.expect("an answer");
    client.delete(&child, None).await.expect("deleted");
    timeout(LIMIT, watcher.changed()).await.expect("the empty container goes soon");
}
