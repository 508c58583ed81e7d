//! One process of the service, from its start to its end.

use std::env;
use std::future::IntoFuture;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, timeout_at};
use zookeeper_recipes::{CancellationToken, Curator, Released};

use crate::http::Service;
use crate::{Fault, http, job};

/// Under the namespace.
const LEADER: &str = "/leader";
/// How long no process leads after a leader died, and up to a tick more. Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long requests that are under way, and the job's last step, may take when the process ends.
const LAST_WORK: Duration = Duration::from_secs(10);
/// How long the end may take in all. Kubernetes kills a process 30 s after it began to end the pod.
const SHUTDOWN: Duration = Duration::from_secs(20);

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
    let service = Service::new(&curator, &latch)?;

    let leaving = service.leaving.clone();
    let end_http = CancellationToken::new();
    let mut job = tokio::spawn(job::run(curator.clone(), latch.clone(), leaving.clone()));
    let serving = axum::serve(listener, http::routes(service))
        .with_graceful_shutdown(end_http.clone().cancelled_owned())
        .into_future();
    let http = tokio::spawn(serving);
    println!("listens on {address}");

    let ended = tokio::select! {
        () = either(&mut terminate, &mut interrupt) => None,
        // It ends by itself only if this process cannot be a candidate, or cannot do the job.
        ended = &mut job => Some(ended),
    };
    // 1. No new work: `/readyz` fails, and the job stops after its step.
    leaving.cancel();
    let last_work = Instant::now() + LAST_WORK;
    let last_moment = Instant::now() + SHUTDOWN;
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => timeout_at(last_work, job).await,
    };
    // 2. Another process leads one round trip later.
    match latch.close_timeout(left(last_work)).await {
        Ok(_) => println!("gave up its place"),
        Err(error) => eprintln!("{error}"), // the rest must end all the same
    }
    // 3. Requests that are under way end, and release their locks.
    end_http.cancel();
    if timeout_at(last_work, http).await.is_err() {
        eprintln!("requests are still under way"); // the close ends their holds
    }
    // 4. The session ends, and with it each lock that is still held. Nothing returns from `main` before this.
    if curator.close_timeout(left(last_moment)).await == Released::Pending {
        eprintln!("the locks of this process may stay taken for {SESSION_TIMEOUT:?}");
    }
    Ok(ended???)
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
