//! What Prometheus sees: a page at `/metrics` of an HTTP server, as a service would have it. The example waits for a lock,
//! holds it, loses it, scrapes itself once, prints that and ends.
//!
//! Runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. Needs the feature `metrics`.
#![allow(clippy::disallowed_methods)] // its tasks are its own

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zookeeper_recipes::Curator;
use zookeeper_recipes::session::ConnectionState;
use zookeeper_testkit::{TestServer, kill_session, random_path};

/// Seconds, for acquiring and for holding. Without buckets there are summaries, which cannot be added up over processes.
const SECONDS: &[f64] = &[0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];
/// Parts of a whole lease.
const PARTS: &[f64] = &[0.1, 0.25, 0.5, 0.7, 0.8];

fn recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_ratio".to_owned()), PARTS)?
        .install_recorder()?;
    let kept = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            kept.run_upkeep(); // between two scrapes, else samples pile up
        }
    });
    Ok(handle)
}

async fn serve(handle: PrometheusHandle) -> Result<SocketAddr, Box<dyn Error>> {
    let pages = Router::new().route("/metrics", get(async move || handle.render()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, pages).await });
    Ok(address)
}

/// As Prometheus does.
async fn scrape(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    // In version 1.0 the answer ends with the connection.
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_once("\r\n\r\n").ok_or("no answer")?.1.to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before anything is counted.
    let address = serve(recorder()?).await?;
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());

    // There are few of these locks, so each has time series of its own.
    let label = |path: &str| path.starts_with("/jobs/").then(|| path.to_owned());
    let namespace = random_path("metrics-example");
    let builder = || Curator::builder().namespace(&namespace).metrics_path_label(label);
    let curator = builder().connect(server.connect_string()).await?;
    let other = builder().connect(server.connect_string()).await?;
    let nightly = curator.mutex("/jobs/nightly")?;
    let theirs = other.mutex("/jobs/nightly")?;

    let guard = nightly.acquire().await?;
    let busy = theirs.try_acquire().await;
    assert!(busy.is_err_and(|error| error.is_busy()));
    let waiting = tokio::spawn(async move { theirs.acquire().await });
    // As if the servers had expired the session: the hold is lost, and the next in the queue has the lock.
    let session = curator.client()?.session().clone();
    kill_session(server.connect_string(), &session).await?;
    println!("we lost it: {}", guard.lost().await);
    let next = waiting.await??;

    println!("http://{address}/metrics says:\n\n{}", scrape(address).await?);

    next.release().await?;
    drop(guard);
    // Between two sessions no server can confirm the end of the last one.
    let mut state = curator.watch_state();
    state.wait_for(|state| *state == ConnectionState::Reconnected).await?;
    curator.close().await;
    other.close().await;
    server.close().await?;
    Ok(())
}
