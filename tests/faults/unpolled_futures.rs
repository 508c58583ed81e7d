//! Every future of the API is kept and no longer polled, after each number of polls.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::interop::{Revoker, SharedCount};
use zookeeper_recipes::simulation::Ensemble;
use zookeeper_recipes::{Curator, Error, ErrorKind, Lock, Released};
use zookeeper_recipes_dev::LONG;

use crate::product::dropped_after;

/// Longer than a turn takes, and far shorter than a session timeout, a lease or a connection timeout.
const TURN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Mutex,
    Read,
    Write,
    Semaphore,
    Latch,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Acquire,
    Try,
    Within,
    Run,
    With,
    Release,
}

type Kept = Pin<Box<dyn Future<Output = Box<dyn Any + Send>> + Send>>;

impl Kind {
    fn lock(self, curator: &Curator, path: &str) -> Arc<dyn Lock> {
        match self {
            Self::Mutex => curator.mutex(path).unwrap().into(),
            Self::Read => curator.read_write_lock(path).unwrap().read_half(),
            Self::Write => curator.read_write_lock(path).unwrap().write_half(),
            Self::Semaphore => curator.semaphore(path, 1).unwrap().into(),
            Self::Latch => panic!("it is no lock"),
        }
    }

    /// Of a contender that keeps out all others: a writer among readers.
    async fn turn(self, curator: Curator, path: String) -> Result<(), Error> {
        self.held(&curator, &path).await.map(drop)
    }

    async fn held(self, curator: &Curator, path: &str) -> Result<Box<dyn Any + Send>, Error> {
        if self == Self::Latch {
            let latch = curator.leader_latch(path)?;
            latch.leadership().await?;
            return Ok(any(latch));
        }
        let exclusive = if self == Self::Read { Self::Write } else { self };
        exclusive.lock(curator, path).acquire().await.map(any)
    }

    async fn tries(self, curator: Curator, path: String) {
        if self != Self::Latch {
            let _ = self.lock(&curator, &path).try_acquire().await;
        }
    }

    /// A future that is not polled yet; none where there is no such function.
    async fn asks(self, ask: Ask, curator: &Curator, path: &str) -> Option<Kept> {
        if self == Self::Latch {
            let latch = curator.leader_latch(path).unwrap();
            return match ask {
                Ask::Acquire => Some(Box::pin(async move { any(latch.leadership().await) })),
                Ask::Release => {
                    latch.leadership().await.unwrap();
                    Some(Box::pin(async move { any(latch.close().await) }))
                }
                _ => None,
            };
        }
        let lock = self.lock(curator, path);
        let held = if ask == Ask::Release { lock.acquire().await.ok() } else { None };
        Some(Box::pin(async move {
            match ask {
                Ask::Acquire => any(lock.acquire().await),
                Ask::Try => any(lock.try_acquire().await),
                Ask::Within => any(lock.acquire_timeout(LONG).await),
                Ask::Run => {
                    let body = async |_| {
                        sleep(TURN).await;
                        Ok::<_, Error>(())
                    };
                    any(lock.run(body).await)
                }
                Ask::With => any(lock.with(async |_| sleep(TURN).await).await),
                Ask::Release => any(held.expect("a guard").release().await),
            }
        }))
    }
}

fn any(outcome: impl Any + Send) -> Box<dyn Any + Send> {
    Box::new(outcome)
}

/// A kept future may hold the lock, as one that sleeps may; but a try behind it has its answer, a release has released, and
/// `close` ends its hold or its wait.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_not_polled_any_more_keeps_neither_a_try_nor_close() {
    let asks = [Ask::Acquire, Ask::Try, Ask::Within, Ask::Run, Ask::With, Ask::Release];
    for kind in [Kind::Mutex, Kind::Read, Kind::Write, Kind::Semaphore, Kind::Latch] {
        for (ask, busy) in asks.into_iter().flat_map(|ask| [(ask, false), (ask, true)]) {
            if busy && ask == Ask::Release {
                continue;
            }
            let mut polls = 0;
            while case(kind, ask, busy, polls).await {
                polls += 1;
                assert!(polls < 50, "{kind:?} {ask:?}: it never ends");
            }
        }
    }
}

/// Whether there are more polls. `busy`: a stranger holds meanwhile.
async fn case(kind: Kind, ask: Ask, busy: bool, polls: usize) -> bool {
    let what = format!("{kind:?} {ask:?} after {polls} polls, busy: {busy}");
    let ensemble = Ensemble::start(1);
    let [curator, rival, other] = [ensemble.curator(), ensemble.curator(), ensemble.curator()];
    let (curator, rival, other) = tokio::join!(curator, rival, other);
    let path = "/lock".to_owned();
    let holder = if busy { Some(kind.held(&other, &path).await.unwrap()) } else { None };
    let Some(mut kept) = kind.asks(ask, &curator, &path).await else { return false };
    let polled = timeout(TURN, dropped_after(polls, kept.as_mut())).await;
    let task = tokio::spawn(kind.turn(curator.clone(), path.clone()));
    let tries = tokio::spawn(kind.tries(curator.clone(), path.clone()));
    let stranger = tokio::spawn(kind.turn(rival.clone(), path.clone()));
    drop(holder);
    timeout(TURN, tries).await.expect(&what).expect(&what);
    sleep(TURN).await;
    if ask == Ask::Release && polls > 0 {
        assert!(task.is_finished() && stranger.is_finished(), "{what}: it is released");
    }
    let closed = timeout(TURN, curator.close()).await.expect(&what);
    assert_eq!(closed, Released::Confirmed, "{what}");
    timeout(TURN, stranger).await.expect(&what).expect(&what).expect(&what);
    if let Err(error) = timeout(TURN, task).await.expect(&what).expect(&what) {
        assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error:?}");
    }
    let is_cut = matches!(polled, Ok(None));
    if !matches!(polled, Ok(Some(_))) {
        timeout(2 * TURN, kept).await.unwrap_or_else(|_| panic!("{what}: it does not end"));
    }
    is_cut
}

/// Makes a future of the API, which owns a handle.
type Make = fn(Curator) -> Kept;

/// The other futures that send requests. The paths are those of [`the_session_of_a_closed_curator`].
const OTHERS: &[(&str, Make)] = &[
    ("once.run", |curator| {
        kept(async move {
            let job = curator.once("/jobs", "c")?.with_kept_keys(1);
            job.run(async |_| Ok(())).await
        })
    }),
    ("once.run of a recorded key", |curator| {
        kept(async move { curator.once("/jobs", "b")?.run(async |_| Ok(())).await })
    }),
    ("participants", |curator| kept(async move { curator.mutex("/other")?.participants().await })),
    ("leader", |curator| kept(async move { curator.leader_latch("/leader")?.leader().await })),
    ("attempt_revoke", |curator| {
        kept(async move {
            let others = curator.mutex("/other")?.participants().await?;
            Revoker::new(&curator).attempt_revoke(&others[0].node).await
        })
    }),
    ("multi_lock.acquire", |curator| {
        kept(async move { curator.multi_lock(["/a", "/b"])?.acquire().await })
    }),
    ("acquire_many", |curator| {
        kept(async move { curator.semaphore("/s", 3)?.acquire_many(2).await })
    }),
    ("slots.acquire", |curator| kept(async move { curator.slots("/s", 3)?.acquire().await })),
    ("SharedCount::start", |curator| {
        kept(async move { SharedCount::start(&curator, "/new/count", 1).await })
    }),
    ("count.set", |curator| {
        kept(async move { SharedCount::start(&curator, "/count", 1).await?.set(2).await })
    }),
    ("count.try_set", |curator| {
        kept(async move {
            let count = SharedCount::start(&curator, "/count", 1).await?;
            count.try_set(&count.versioned(), 3).await
        })
    }),
    ("fenced writes", |curator| {
        kept(async move {
            let guard = curator.mutex("/mine")?.acquire().await?;
            guard.fenced().create("/mine/data", b"").await?;
            guard.fenced().set("/mine/data", b"x").await
        })
    }),
    ("revocation_requested", |curator| {
        kept(async move {
            let guard = curator.mutex("/mine")?.acquire().await?;
            tokio::select! {
                () = guard.revocation_requested() => Ok(None),
                loss = guard.lost() => Ok(Some(loss)),
            }
        })
    }),
];

fn kept<T: Send + 'static>(
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Kept {
    Box::pin(async move { any(future.await) })
}

/// Invariant 7: a kept future keeps no session, so the locks of a closed process are free at once.
#[tokio::test(start_paused = true)]
async fn no_kept_future_keeps_the_session_of_a_closed_curator() {
    for (name, make) in OTHERS {
        let mut polls = 0;
        while the_session_of_a_closed_curator(name, *make, polls).await {
            polls += 1;
            assert!(polls < 80, "{name}: it never ends");
        }
        assert!(polls > 0, "{name}: it sends no request");
    }
}

async fn the_session_of_a_closed_curator(name: &str, make: Make, polls: usize) -> bool {
    let what = format!("{name} after {polls} polls");
    let ensemble = Ensemble::start(1);
    let [curator, rival] = [ensemble.curator(), ensemble.curator()];
    let (curator, rival) = tokio::join!(curator, rival);
    for key in ["a", "b"] {
        let job = rival.once("/jobs", key).unwrap().with_kept_keys(1);
        let _ = job.run(async |_| Ok::<_, Error>(())).await.unwrap();
    }
    drop(SharedCount::start(&rival, "/count", 1).await.unwrap());
    let _other = rival.mutex("/other").unwrap().acquire().await.unwrap();
    let held = curator.mutex("/lock").unwrap().acquire().await.unwrap();
    let mut kept = make(curator.clone());
    let polled = timeout(TURN, dropped_after(polls, kept.as_mut())).await;
    // What was sent is answered meanwhile.
    sleep(TURN).await;
    timeout(TURN, curator.close()).await.unwrap_or_else(|_| panic!("{what}: close hangs"));
    let taken = timeout(TURN, rival.mutex("/lock").unwrap().acquire()).await;
    drop(taken.unwrap_or_else(|_| panic!("{what}: the lock stays taken")).unwrap());
    assert!(!held.is_held(), "{what}");
    if !matches!(polled, Ok(Some(_))) {
        timeout(2 * TURN, kept).await.unwrap_or_else(|_| panic!("{what}: it does not end"));
    }
    matches!(polled, Ok(None))
}
