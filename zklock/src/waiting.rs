//! What is said while a lock is waited for.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::Curator;

use crate::connection::is_connected;
use crate::contenders::{Contender, contenders, held_by};
use crate::exit::say;
use crate::observe::until;
use crate::supervision::bury_all;
use crate::text::{ordinal, visible};

/// Nothing is said of a lock that is acquired within this time.
const BEFORE_FIRST: Duration = Duration::from_millis(300);
/// The pause between two looks, and what each contender in the queue adds to it: many waiters must not overload the servers.
const ASK: Duration = Duration::from_secs(2);
const ASK_EACH: Duration = Duration::from_millis(20);

/// Waits, and says meanwhile who holds what is waited for: one line, and another one when the holder changes. Only on a terminal
/// or if `verbose`.
pub(crate) async fn shown<T>(
    curator: &Curator,
    paths: &[String],
    verbose: bool,
    wait: impl Future<Output = T>,
) -> T {
    let shown = async {
        if verbose || io::stderr().is_terminal() {
            follow(curator, paths).await
        } else {
            std::future::pending().await
        }
    };
    tokio::select! {
        biased;
        done = wait => done,
        never = shown => match never {},
        never = bury_all() => match never {},
    }
}

async fn follow(curator: &Curator, paths: &[String]) -> Infallible {
    sleep(BEFORE_FIRST).await;
    let (mut said, mut states) = (None, curator.watch_state());
    loop {
        let queue = tokio::select! {
            biased;
            queue = read(curator, paths) => queue,
            () = until(&mut states, false) => None,
        };
        let is_silent = queue.is_none() && !is_connected(curator);
        let holder = queue.as_ref().and_then(|queue| queue.holder());
        // Without the age, which changes all the time.
        let has_place = queue.as_ref().is_some_and(|queue| queue.place.is_some());
        let news = (is_silent, has_place, holder.map(|holder| holder.participant.path.clone()));
        let text = match &queue {
            Some(queue) => queue.to_string(),
            None => format!("{}: no server answers", visible(paths.join(", ").as_bytes())),
        };
        if (queue.is_some() || is_silent) && said.as_ref() != Some(&news) {
            say(&format!("waiting for {text}"));
            said = Some(news);
        }
        let count = queue.as_ref().map_or(0, |queue| queue.before.len());
        let pause = ASK + ASK_EACH * u32::try_from(count).unwrap_or(u32::MAX);
        sleep(pause).await;
        // One small request, however long the queue is.
        while let Some(holder) = holder
            && let Ok(client) = curator.client()
            && let Ok(Some(_)) = client.check_stat(&holder.participant.path).await
        {
            sleep(pause).await;
        }
    }
}

struct Queue {
    /// Where this process waits.
    path: String,
    /// From 1; `None` where its node is not there yet.
    place: Option<usize>,
    /// The holders, and the waiters before it.
    before: Vec<Contender>,
}

impl Queue {
    fn holder(&self) -> Option<&Contender> {
        self.before.iter().find(|one| one.participant.holds)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", visible(self.path.as_bytes()))?;
        if let Some(place) = self.place {
            write!(f, "{} in the queue, ", ordinal(place))?;
        }
        f.write_str(&held_by(&self.before))
    }
}

/// Reads the queue at the first path where this process waits. `None` while the servers do not answer.
async fn read(curator: &Curator, paths: &[String]) -> Option<Queue> {
    for path in paths {
        let all = contenders(curator, path).await.ok()?;
        // Asked for after the listing, in case a new session began meanwhile.
        let session = curator.session_id().ok()?;
        let is_ours = |one: &&Contender| one.participant.session == session;
        // Its locks at the paths before it are held.
        let ours = all.iter().filter(is_ours).find(|ours| !ours.participant.holds).cloned();
        if ours.is_some() || paths.len() == 1 {
            let is_before = |one: &Contender| match &ours {
                Some(ours) => one.queue() == ours.queue() && one.place < ours.place,
                None => true,
            };
            let before: Vec<_> = all.into_iter().filter(is_before).collect();
            let place = ours.map(|_| before.len() + 1);
            return Some(Queue { path: path.clone(), place, before });
        }
    }
    None
}
