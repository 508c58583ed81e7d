use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Error, FencingToken};

/// `bill` is dropped at its next `await` when the lock is lost.
pub async fn run<F: Future<Output = ()>>(
    servers: &str,
    bill: impl Fn(FencingToken) -> F,
    stopping: CancellationToken,
) -> Result<(), Error> {
    let curator = Curator::builder()
        .namespace("/shop")
        .session_timeout(Duration::from_secs(10))
        .connection_timeout(Duration::from_secs(5))
        .retry(RetryPolicy::exponential_backoff(Duration::from_secs(1), 3))
        .connect_lazy(servers)?;
    let mutex = curator.mutex("/locks/billing")?;
    while !stopping.is_cancelled() {
        match mutex.acquire_timeout(Duration::from_secs(1)).await {
            Ok(guard) => {
                if let Err(lost) = guard.with(|hold| bill(hold.fencing_token())).await {
                    eprintln!("{lost}");
                }
            }
            Err(error) if error.is_busy() => {} // another instance bills
            Err(error) => {
                eprintln!("no lock: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    curator.close().await;
    Ok(())
}
