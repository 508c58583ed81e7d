use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zookeeper_recipes::{ConfigError, Curator, FencingToken, InterProcessMutex, RetryPolicy};

/// `bill` is dropped at its next `await` when the lock is lost.
pub async fn run<F: Future<Output = ()>>(
    servers: &str,
    bill: impl Fn(FencingToken) -> F,
    stopping: CancellationToken,
) -> Result<(), ConfigError> {
    let curator = Curator::builder()
        .namespace("/shop")
        .session_timeout(Duration::from_secs(10))
        .connection_timeout(Duration::from_secs(5))
        .retry(RetryPolicy::exponential_backoff(Duration::from_secs(1), 3))
        .start(servers)?;
    let mutex = InterProcessMutex::new(&curator, "/locks/billing")?;
    while !stopping.is_cancelled() {
        let guard = match mutex.acquire_timeout(Duration::from_secs(1)).await {
            Ok(Some(guard)) => guard,
            Ok(None) => continue, // another instance bills
            Err(error) => {
                eprintln!("no lock: {error:?}");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let lost = guard.cancellation_token(); // before another instance can bill
        lost.run_until_cancelled(bill(guard.fencing_token())).await;
        if let Err(error) = guard.release().await {
            eprintln!("the lock was lost, or nobody confirmed its release: {error}");
        }
    }
    if let Err(error) = curator.close().await {
        eprintln!("the session ends by its timeout: {error}");
    }
    Ok(())
}
