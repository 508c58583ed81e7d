//! Calls of twenty tasks or processes at once that nothing else shows, and the best outcome that the znodes allow.
//!
//! | twenty at once | best outcome |
//! | --- | --- |
//! | wait, and the limit rises from 0 to 20 | all hold |
//! | release while twenty wait, and the limit has fallen to 3 | three hold, and the others in turn |
//! | read alongside one write, which is released | no writer until the last of them releases |

use crate::prelude::*;
use crate::support::leases::{asks, served};

#[tokio::test(start_paused = true)]
async fn the_limit_rises_and_falls_for_twenty_waiters() {
    for processes in [1, 4, 20] {
        let (testbed, all) = Testbed::with_curators::<20>().await;
        let path = format!("{}-limit", testbed.path);
        let mut semaphores = Vec::new();
        for curator in all.iter().take(processes) {
            let limit = SharedCount::start(curator, &path, 0).await.unwrap();
            let semaphore =
                InterProcessSemaphoreV2::with_shared_count(curator, &testbed.path, &limit);
            semaphores.push(semaphore.unwrap());
        }
        let limit = SharedCount::start(&all[0], &path, 0).await.unwrap();
        let becomes = async |value: usize| {
            limit.set(i32::try_from(value).unwrap()).await.unwrap();
            for semaphore in &semaphores {
                eventually("the limit", async || semaphore.limit() == value).await;
            }
        };
        let twenty = || (0..20).map(|number| asks(&semaphores[number % processes]));
        let waiting: Vec<_> = twenty().collect();
        tokio::time::sleep(BUSY).await;
        becomes(20).await;
        let held = join_all(waiting.into_iter().map(served)).await;
        let waiting: Vec<_> = twenty().collect();
        tokio::time::sleep(BUSY).await;
        becomes(3).await;
        drop(held);
        tokio::time::sleep(BUSY).await;
        assert_eq!(waiting.iter().filter(|asks| asks.is_finished()).count(), 3);
        join_all(waiting.into_iter().map(async |asks| drop(served(asks).await))).await;
        testbed.nodes_are(0, 0).await;
    }
}
