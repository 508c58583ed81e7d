//! The limit within one process: `tokio::sync::Mutex`, without a server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tools::{Failure, now};

use crate::load::{Contender, Held, Lap, Load, turn, work};

pub(crate) async fn run(load: Load) -> Result<Lap, Failure> {
    let locks: Vec<_> = (0..load.locks).map(|_| Arc::<Mutex<()>>::default()).collect();
    let contenders = (0..load.tasks).map(|task| Local(locks[task % load.locks].clone()));
    turn(contenders.collect(), load.hold, load.turn).await
}

struct Local(Arc<Mutex<()>>);

impl Contender for Local {
    async fn cycle(&self, hold: Duration) -> Result<Held, Failure> {
        let guard = self.0.lock().await;
        let acquired = now();
        work(hold).await;
        let released = now();
        drop(guard);
        Ok(Held { acquired, released })
    }
}
