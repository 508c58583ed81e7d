//! Messages during the wait for a lock.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::Curator;

use crate::connection::is_connected;
use crate::contenders::{Contender, contenders, held_by};
use crate::diagnosis;
use crate::exit::Failure;
use crate::log::Event;
use crate::observe::until;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::reap_all;
use crate::text;

/// The first message comes after this time; a lock that is acquired sooner causes none.
const BEFORE_FIRST: Duration = Duration::from_millis(300);
/// The pause between two queries, and the addition for each contender in the queue: many waiters must not overload
/// the servers.
const ASK: Duration = Duration::from_secs(2);
const ASK_EACH: Duration = Duration::from_millis(20);

/// The first message of a wait without a terminal, and the pause between two.
const FIRST_LINE: Duration = Duration::from_secs(10);
const NEXT_LINE: Duration = Duration::from_secs(60);

const SILENCE: &str = "no server answers";

/// The messages during a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    Nothing,
    /// One when the wait begins, and one when the holder changes.
    Changes,
    /// One after ten seconds and then each minute: a job whose output is a log must not look hung.
    Minutes,
}

impl Messages {
    /// Those of a wait that is followed by people, or by nobody.
    pub(crate) fn of_standby(verbose: bool) -> Self {
        if verbose || io::stderr().is_terminal() { Self::Changes } else { Self::Nothing }
    }

    /// Those of a job.
    pub(crate) fn of_job(verbose: bool, quiet: bool) -> Self {
        match Self::of_standby(verbose) {
            _ if quiet => Self::Nothing,
            Self::Nothing => Self::Minutes,
            messages => messages,
        }
    }
}

/// Waits, and meanwhile says what this process waits for.
pub(crate) async fn shown<T>(
    curator: &Curator,
    paths: &[String],
    messages: Messages,
    wait: impl Future<Output = T>,
) -> T {
    let shown = async {
        match messages {
            Messages::Nothing => pending().await,
            Messages::Changes => follow(curator, paths).await,
            Messages::Minutes => remind(async || queue_now(curator, paths).await).await,
        }
    };
    tokio::select! {
        biased;
        done = wait => done,
        never = shown => match never {},
        never = reap_all() => match never {},
    }
}

/// Connects, unless a signal ends that, and meanwhile says how the servers react.
pub(crate) async fn connected<T>(
    settings: &Settings,
    messages: Messages,
    signals: &mut Signals,
    connect: impl Future<Output = T>,
) -> Result<T, Failure> {
    let began = Instant::now();
    let reactions =
        async || format!("ZooKeeper: {}", diagnosis::diagnose(settings, diagnosis::PATIENCE).await);
    let shown = async {
        match messages {
            Messages::Nothing => pending().await,
            Messages::Changes | Messages::Minutes => remind(reactions).await,
        }
    };
    let connected = async {
        tokio::select! {
            biased;
            connected = connect => connected,
            never = shown => match never {},
        }
    };
    let what = format!("ZooKeeper ({})", settings.server);
    let connected = signals.unless_ended(connected).await;
    connected.map_err(|failure| interrupted(failure, began, &what))
}

/// Adds to the failure of a signal what this process has waited for since `began`.
pub(crate) fn interrupted(failure: Failure, began: Instant, what: &str) -> Failure {
    let waited = text::age(began.elapsed());
    Failure::new(failure.code(), format!("{failure} after {waited} of waiting for {what}"))
}

/// Says after a while, and then each minute, what this process waits for.
async fn remind(what: impl AsyncFn() -> String) -> Infallible {
    let began = Instant::now();
    sleep(FIRST_LINE).await;
    loop {
        let what = what().await;
        let waited = text::age(began.elapsed());
        Event::Waiting.say(&format!("waiting for {what} (for {waited} so far)"));
        sleep(NEXT_LINE).await;
    }
}

async fn queue_now(curator: &Curator, paths: &[String]) -> String {
    match timeout(ASK, Queue::read(curator, paths)).await {
        Ok(Some(queue)) => queue.shown(),
        _ => {
            let why = if is_connected(curator) { "its queue is not read yet" } else { SILENCE };
            format!("{}: {why}", paths.join(", "))
        }
    }
}

async fn follow(curator: &Curator, paths: &[String]) -> Infallible {
    sleep(BEFORE_FIRST).await;
    let mut said = None;
    let mut states = curator.watch_state();
    loop {
        let queue = tokio::select! {
            biased;
            queue = Queue::read(curator, paths) => queue,
            () = until(&mut states, false) => None,
        };
        let is_connected = is_connected(curator);
        let holder = queue.as_ref().and_then(Queue::holder);
        let is_queued = queue.as_ref().is_some_and(|queue| queue.place.is_some());
        // Compared without the age, which changes all the time.
        let news = (is_connected, is_queued, holder.clone());
        if (queue.is_some() || !is_connected) && said.as_ref() != Some(&news) {
            let text = match &queue {
                Some(queue) if is_connected => queue.shown(),
                _ => format!("{}: {SILENCE}", paths.join(", ")),
            };
            Event::Waiting.say(&format!("waiting for {text}"));
            said = Some(news);
        }
        let before = queue.map_or(0, |queue| queue.before.len());
        let pause = ASK + ASK_EACH * u32::try_from(before).unwrap_or(u32::MAX);
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

/// The queue at the first path where this process waits.
struct Queue {
    path: String,
    /// This process's place from 1, unless its node does not exist yet.
    place: Option<usize>,
    /// The holders and the waiters before it.
    before: Vec<Contender>,
}

impl Queue {
    /// Reads the queue in which this process waits. `None` while the servers do not answer.
    async fn read(curator: &Curator, paths: &[String]) -> Option<Self> {
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
                let place = ours.map(|_| all.len() + 1);
                return Some(Self { path: path.clone(), place, before: all });
            }
        }
        None
    }

    fn holder(&self) -> Option<String> {
        let holder = self.before.iter().find(|one| one.holds);
        holder.map(|holder| holder.node.clone())
    }

    fn shown(&self) -> String {
        let place = self.place.map(|place| format!("number {place} in the queue, "));
        let queue = held_by(&self.before);
        format!("{}: {}{queue}", self.path, place.unwrap_or_default())
    }
}
