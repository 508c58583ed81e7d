//! What an attempt at a busy lock sends.

use tools::Failure;
use zookeeper_testkit::Operation;

use crate::bench_server::{BenchServer, Link};
use crate::crew::{Crew, Peer};

const ATTEMPTS: usize = 10;

/// Reads and writes of one attempt, on the mean; `None` if the peer is missing.
pub(crate) async fn attempts(
    crew: &mut Crew,
    bench_server: &BenchServer,
    peer: Peer,
) -> Result<Option<(f64, f64)>, Failure> {
    let path = format!("{}/0", bench_server.place(&format!("busy-{peer}"), 1).await?);
    let link = bench_server.connect_string(Link::Counted);
    let holder = crew.ours.session(bench_server.connect_string(Link::Direct), 0).await?;
    let guard = holder.mutex(&path)?.acquire().await?;
    // The session is there before anything is counted.
    let acquired = if peer == Peer::Ours {
        let mutex = crew.ours.session(link, 0).await?.mutex(&path)?;
        bench_server.counted.clear_log();
        let mut acquired = 0;
        for _ in 0..ATTEMPTS {
            match mutex.try_acquire().await {
                Ok(_) => acquired += 1,
                Err(error) if error.is_busy() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Some(acquired)
    } else {
        let connected = crew.attempts(link, &path, 0).await;
        bench_server.counted.clear_log();
        if connected.is_some() { crew.attempts(link, &path, ATTEMPTS).await } else { None }
    };
    let log = bench_server.counted.log();
    guard.release().await?;
    match acquired {
        None => Ok(None),
        Some(0) => {
            let writes = log.iter().filter(|request| is_write(**request)).count();
            let of_one = |count: usize| count as f64 / ATTEMPTS as f64;
            Ok(Some((of_one(log.len() - writes), of_one(writes))))
        }
        Some(count) => Err(format!("{peer} acquired a lock that is held, {count} times").into()),
    }
}

fn is_write(request: Operation) -> bool {
    matches!(request, Operation::Create | Operation::Delete | Operation::SetData | Operation::Multi)
}
