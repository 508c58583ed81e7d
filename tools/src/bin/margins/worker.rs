//! Our worker process. `MarginPeer.java` is Curator's, with the same orders on its standard input and the same events on its
//! standard output:
//!
//! * `hold NUMBER RECIPE SERVERS PATH MILLISECONDS`: a holder of a `mutex`, or a candidate of a `latch`, in a session of its own.
//! * `end`: all sessions are closed. The end of the input ends the process.
//!
//! An event is `NUMBER WHAT NANOSECONDS MORE`, by the monotonic clock that all processes of a machine share. `Holds` has the
//! fencing token as its fourth word; `Lost`, which is when the process first saw that it is not the holder, has the
//! moment at which it last saw that it is. Both processes look every 2 ms, and report a notice at once.

use std::convert::Infallible;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tools::{Failure, now};
use zookeeper_recipes::leader::LeaderLatch;
use zookeeper_recipes::{Curator, Error, Guard, Hold};

const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

pub(crate) async fn run() -> Result<(), Failure> {
    let mut holders = JoinSet::new();
    let mut orders = BufReader::new(stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        let words: Vec<_> = order.split(' ').map(str::to_owned).collect();
        if let ["hold", number, ..] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            let number = number.to_owned();
            holders.spawn(async move {
                let Err(error) = hold(&words[1..]).await;
                eprintln!("holder {number}: {error}");
            });
        } else {
            holders.shutdown().await;
        }
    }
    Ok(())
}

async fn hold(words: &[String]) -> Result<Infallible, Failure> {
    let [number, recipe, servers, path, timeout] = words else { return Err("bad order".into()) };
    let say = |what: &str, more: i128| println!("{number} {what} {} {more}", now().as_nanos());
    let timeout = Duration::from_millis(timeout.parse()?);
    let curator = Curator::builder().session_timeout(timeout).connect(servers).await?;
    let mut term: Option<Hold> = None;
    let (mut guard, mut latch): (Option<Guard>, _) = (None, None);
    if recipe == "mutex" {
        term = Some(guard.insert(curator.mutex(path)?.acquire().await?).view());
    } else {
        latch = Some(curator.leader_latch(path)?);
    }
    // Since when it holds as far as it was said, and the last look that saw that.
    let mut held = None;
    loop {
        let asked = now();
        match (&term, held) {
            (Some(term), None) if term.is_held() => {
                say("Holds", term.fencing_token().value().into());
                held = Some(asked);
            }
            (Some(term), Some(_)) if term.is_held() => held = Some(asked),
            (_, Some(last)) => {
                say("Lost", i128::try_from(last.as_nanos())?);
                held = None;
            }
            _ => {}
        }
        tokio::select! {
            next = next(latch.as_ref(), term.as_ref()) => {
                // A term may have ended and the next one begun.
                if let Some(last) = held.take() {
                    say("Lost", i128::try_from(last.as_nanos())?);
                }
                term = next?;
            }
            () = sleep(BETWEEN_LOOKS) => {}
        }
    }
}

/// Waits until the term of a latch is lost, or the next one begins.
async fn next(latch: Option<&LeaderLatch>, term: Option<&Hold>) -> Result<Option<Hold>, Error> {
    match (latch, term) {
        (None, _) => std::future::pending().await,
        (Some(_), Some(term)) => {
            term.lost().await;
            Ok(None)
        }
        (Some(latch), None) => latch.leadership().await.map(Some),
    }
}
