//! Messages during the wait for a lock.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::Curator;

use crate::connection::is_connected;
use crate::contenders::{Contender, contenders, held_by};
use crate::log::Event;
use crate::observe::until;
use crate::supervision::reap_all;
use crate::text::ordinal;

/// The first message comes after this time; a lock that is acquired sooner causes none.
const BEFORE_FIRST: Duration = Duration::from_millis(300);
/// The pause between two queries, and the addition for each contender in the queue: many waiters must not overload
/// the servers.
const ASK: Duration = Duration::from_secs(2);
const ASK_EACH: Duration = Duration::from_millis(20);

/// Returns true if the holder is shown during a wait.
pub(crate) fn shows(verbose: bool) -> bool {
    verbose || io::stderr().is_terminal()
}

/// Waits, and if `shows`, reports the holder meanwhile: one line, and another one when the holder changes.
pub(crate) async fn shown<T>(
    curator: &Curator,
    paths: &[String],
    shows: bool,
    wait: impl Future<Output = T>,
) -> T {
    let shown =
        async { if shows { follow(curator, paths).await } else { std::future::pending().await } };
    tokio::select! {
        biased;
        done = wait => done,
        never = shown => match never {},
        never = reap_all() => match never {},
    }
}

async fn follow(curator: &Curator, paths: &[String]) -> Infallible {
    sleep(BEFORE_FIRST).await;
    let mut said = None;
    let mut states = curator.watch_state();
    loop {
        let queue = tokio::select! {
            biased;
            queue = read(curator, paths) => queue,
            () = until(&mut states, false) => None,
        };
        let is_known = queue.is_some() || !is_connected(curator);
        let (path, place, before) = queue.unwrap_or_else(|| (paths.join(", "), None, Vec::new()));
        let holder = before.iter().find(|one| one.holds);
        let holder = holder.map(|holder| holder.node.clone());
        // Compared without the age, which changes all the time.
        let news = (is_connected(curator), place.is_some(), holder.clone());
        if is_known && said.as_ref() != Some(&news) {
            let place = place.map(|place| format!("{} in the queue, ", ordinal(place)));
            let queue = if news.0 { held_by(&before) } else { "no server answers".to_owned() };
            Event::Waiting
                .say(&format!("waiting for {path}: {}{queue}", place.unwrap_or_default()));
            said = Some(news);
        }
        let pause = ASK + ASK_EACH * u32::try_from(before.len()).unwrap_or(u32::MAX);
        sleep(pause).await;
        // This is one small request, however long the queue is.
        while let Some(holder) = &holder
            && let Ok(client) = curator.client()
            && let Ok(Some(_)) = client.check_stat(holder).await
        {
            sleep(pause).await;
        }
    }
}

/// Returns the first path where this process waits, its place there from 1 unless its node does not exist yet, and
/// the holders and waiters before it. `None` while the servers do not answer.
async fn read(
    curator: &Curator,
    paths: &[String],
) -> Option<(String, Option<usize>, Vec<Contender>)> {
    for path in paths {
        let mut all = contenders(curator, path).await.ok()?;
        // Read after the listing, in case a new session began meanwhile.
        let session = curator.session_id().ok()?;
        // This process holds its locks at the earlier paths.
        let is_ours = |one: &&Contender| one.session_id == Some(session) && !one.holds;
        let ours = all.iter().find(is_ours).map(|ours| (ours.queue(), ours.place));
        if ours.is_some() || paths.len() == 1 {
            all.retain(|one| {
                ours.is_none_or(|(queue, place)| one.queue() == queue && one.place < place)
            });
            return Some((path.clone(), ours.map(|_| all.len() + 1), all));
        }
    }
    None
}
