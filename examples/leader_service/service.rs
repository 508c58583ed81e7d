//! One process of the service, from its start to its end.

use std::env;
use std::future::IntoFuture;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use zookeeper_recipes::{CancellationToken, Curator};

use crate::{Fault, http, job};

/// Under the namespace.
const LEADER: &str = "/leader";
/// How long no process leads after a leader died, and up to a tick more. Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long requests that are under way may take when it ends.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

pub(crate) async fn serve() -> Result<(), Fault> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?.to_string();

    // Does not wait for a connection: this process answers, and becomes a candidate once there is one.
    let curator = Curator::builder()
        .session_timeout(SESSION_TIMEOUT)
        .namespace(&env::var("NAMESPACE").unwrap_or_else(|_| "/leader-service".to_owned()))
        .identity(address.as_str()) // what an observer learns of the leader
        .connect_lazy(&env::var("ZOOKEEPER_CONNECT")?)?;
    let latch = curator.leader_latch(LEADER)?;
    let routes = http::routes(&curator, &latch)?;

    let (end_job, end_http) = (CancellationToken::new(), CancellationToken::new());
    let mut job = tokio::spawn(job::run(curator.clone(), latch.clone(), end_job.clone()));
    let serving = axum::serve(listener, routes)
        .with_graceful_shutdown(end_http.clone().cancelled_owned())
        .into_future();
    let http = tokio::spawn(serving);
    println!("listens on {address}");

    let ended = tokio::select! {
        () = either(&mut terminate, &mut interrupt) => None,
        // It ends by itself only if this process cannot be a candidate, or cannot do the job.
        ended = &mut job => Some(ended),
    };
    // First the job ends, so that another process may lead; then the place is given up, so that one does at once.
    end_job.cancel();
    let ended = match ended {
        None => job.await,
        Some(ended) => ended,
    };
    match latch.close().await {
        Ok(_) => println!("gave up its place"),
        Err(error) => eprintln!("{error}"), // the rest must end all the same
    }
    end_http.cancel();
    timeout(LAST_REQUESTS, http).await???;
    curator.close().await;
    Ok(ended??)
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
