//! The spans and events of `tracing` that a recipe emits.
//! The subscriber is that of the process, so it notes what other tests do as well.

use std::fmt::{Debug, Write};
use std::sync::{LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use zookeeper_recipes::simulation::Ensemble;

use crate::prelude::*;
use crate::recipes::contract::locks;

/// What the whole process told. Tests find what is theirs by their path.
static NOTES: LazyLock<Notes> = LazyLock::new(|| {
    let notes = Notes::default();
    let subscriber = tracing_subscriber::registry().with(notes.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    notes
});

/// Notes every span and event of the crate.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// Number, name and fields. The number of a span that ended may be used again.
    spans: Vec<(u64, &'static str, String)>,
    events: Vec<(Level, String)>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Notes {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("zookeeper_recipes")
    }

    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = String::new();
        span.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().spans.push((id.into_u64(), span.metadata().name(), fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut noted = self.0.lock().unwrap();
        let mut latest_first = noted.spans.iter_mut().rev();
        let (.., fields) = latest_first.find(|(number, ..)| *number == id.into_u64()).unwrap();
        values.record(&mut Fields(fields));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = String::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().events.push((*event.metadata().level(), fields));
    }
}

impl Notes {
    fn has_span(&self, name: &str, fields: &[&str]) -> bool {
        let mut spans = self.0.lock().unwrap().spans.clone().into_iter();
        spans.any(|(_, n, f)| n == name && fields.iter().all(|field| f.contains(field)))
    }

    fn has_event(&self, level: Level, words: &[&str]) -> bool {
        self.events(level, words) > 0
    }

    fn events(&self, level: Level, words: &[&str]) -> usize {
        let noted = self.0.lock().unwrap();
        let is_one =
            |(l, f): &&(Level, String)| *l == level && words.iter().all(|word| f.contains(word));
        noted.events.iter().filter(is_one).count()
    }
}

#[tokio::test(start_paused = true)]
async fn spans_name_path_and_contender_and_losses_are_warnings() {
    let notes = &*NOTES;
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    assert!(notes.has_span("connect", &[testbed.servers.connect_string()]));
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let contender = guard.node().rsplit('/').next().unwrap().to_owned();
    let session = format!("{:#x}", curator.session_id().unwrap());
    assert!(notes.has_span("acquire", &[&testbed.path, &contender, &session]));
    let token = format!("token={}", guard.fencing_token());
    let holds = [testbed.path.as_str(), guard.node(), &token, &session, "holds"];
    assert!(notes.has_event(Level::DEBUG, &holds), "{:#?}", notes.0.lock().unwrap());
    drop(testbed.waits(&other).await);
    let wait = [testbed.path.as_str(), "contender"];
    eventually("a wait", async || notes.has_span("wait", &wait)).await;
    guard.release().await.unwrap();
    assert!(notes.has_span("release", &[&testbed.path, &contender]));
    let lost = testbed.mutex(&curator).acquire().await.unwrap();
    testbed.kill_session(&curator).await;
    within("the loss", lost.lost()).await;
    until(&curator, ConnectionState::Reconnected).await;
    for (level, words) in [
        // The servers may tell of the end of the node before that of the session.
        (Level::WARN, vec![testbed.path.as_str(), "the hold"]),
        (Level::INFO, vec!["connection state", "Lost"]),
        (Level::INFO, vec!["connection state", "Reconnected"]),
    ] {
        eventually(&format!("{level} {words:?}"), async || notes.has_event(level, &words)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_oneself_is_a_warning() {
    let notes = &*NOTES;
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    let words = [testbed.path.as_str(), "this very task holds"];
    let guard = mutex.acquire().await.unwrap();
    // Another task waits for it: nothing to warn of.
    let other = mutex.clone();
    let other = tokio::spawn(async move { other.acquire_timeout(BUSY).await });
    assert!(other.await.unwrap().unwrap_err().is_busy());
    assert!(!notes.has_event(Level::WARN, &words));
    assert!(mutex.acquire_timeout(BUSY).await.unwrap_err().is_busy());
    assert!(notes.has_event(Level::WARN, &words));
    drop(guard);
}

/// The session outlives the lease, so the znode stays until the guard is dropped.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_own_lost_guard_is_a_warning() {
    let notes = &*NOTES;
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let mutex = testbed.mutex(&curator);
    let words = [testbed.path.as_str(), "this very task holds"];
    let guard = mutex.acquire().await.unwrap();
    let cut = cut_off(&link).await;
    let lost = timeout(Duration::from_secs(120), guard.lost()).await;
    assert_eq!(lost.unwrap(), Loss::LeaseEnded);
    cut.heal();
    until(&curator, ConnectionState::Reconnected).await;
    assert!(!notes.has_event(Level::WARN, &words));
    assert!(mutex.acquire_timeout(BUSY).await.unwrap_err().is_busy());
    assert_eq!(notes.events(Level::WARN, &words), 1);
    drop(guard);
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(notes.events(Level::WARN, &words), 1, "the guard is dropped");
}

/// Behind another client, and a try also behind the very task that tries.
#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_no_warning() {
    let notes = &*NOTES;
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    for (ours, theirs) in locks(&testbed, &curator).iter().zip(locks(&testbed, &other)) {
        let held = within("the lock", theirs.acquire()).await.unwrap();
        if !ours.path().ends_with("/read") {
            fails(within("a try", ours.try_acquire()).await, ErrorKind::Busy);
            fails(within("a limit", ours.acquire_timeout(BUSY)).await, ErrorKind::Busy);
            fails(within("a try", theirs.try_acquire()).await, ErrorKind::Busy);
        }
        held.release().await.unwrap();
    }
    let job = curator.once(format!("{}/once", testbed.path), "key").unwrap();
    let inner = async |_| job.try_run(async |_| Ok::<_, Error>(())).await.map(drop);
    fails(within("a try", job.run(inner)).await, ErrorKind::Busy);
    for level in [Level::WARN, Level::ERROR] {
        assert_eq!(notes.events(level, &[&testbed.path]), 0, "{level}");
    }
    assert!(notes.has_event(Level::DEBUG, &[&testbed.path]), "it would be noted");
}

/// A folder of other locks may have the name of a contender.
#[tokio::test(start_paused = true)]
async fn waiting_behind_a_znode_that_no_session_owns_is_a_warning() {
    let notes = &*NOTES;
    let (testbed, curator) = Testbed::with_curator().await;
    let folder = format!("{}/x-lock-0000000000", testbed.path);
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    testbed.create(&folder, CreateMode::Persistent).await;
    let words = [folder.as_str(), "no session owns"];
    let mutex = testbed.mutex(&curator);
    assert!(mutex.try_acquire().await.unwrap_err().is_busy());
    assert!(!notes.has_event(Level::WARN, &words), "a try does not wait");
    assert!(mutex.acquire_timeout(BUSY).await.unwrap_err().is_busy());
    assert!(notes.has_event(Level::WARN, &words));
}

/// Each half of a read-write lock in a read hold, which need not be the first: up-grading, and a read that a waiting
/// writer keeps out.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_behind_itself_is_warned() {
    let notes = &*NOTES;
    let warned = async |upgrades| {
        let (testbed, [curator, other]) = Testbed::with_curators().await;
        let lock = testbed.read_write(&curator);
        let words = [testbed.path.as_str(), "this very task holds"];
        let reader = lock.clone();
        let first = tokio::spawn(async move { reader.read().await }).await.unwrap().unwrap();
        assert!(lock.write_timeout(BUSY).await.unwrap_err().is_busy());
        assert!(!notes.has_event(Level::WARN, &words), "another task holds it");
        let guard = lock.read().await.unwrap();
        if upgrades {
            assert!(lock.write_timeout(BUSY).await.unwrap_err().is_busy());
        } else {
            let stranger = testbed.read_write(&other);
            let waiting = tokio::spawn(async move { stranger.write().await });
            testbed.children_are(2).await;
            assert!(lock.read_timeout(BUSY).await.unwrap_err().is_busy());
            waiting.abort();
        }
        assert!(notes.has_event(Level::WARN, &words), "{upgrades}");
        drop((first, guard));
    };
    tokio::join!(warned(true), warned(false));
}

/// Neither keeps the other out, and each has reasons to be where the other is: an election beside a semaphore, a path
/// that was a semaphore's. So both go on, and say so.
#[tokio::test(start_paused = true)]
async fn a_semaphore_and_a_mutex_on_one_path_are_a_warning_to_both() {
    let notes = &*NOTES;
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let semaphore = curator.semaphore(&testbed.path, 3).unwrap();
    let lease = within("a lease", semaphore.acquire()).await.unwrap();
    let words = [testbed.path.as_str(), "semaphore"];
    assert!(!notes.has_event(Level::WARN, &words));
    let guard = within("the mutex", testbed.mutex(&other).acquire()).await.unwrap();
    assert!(notes.has_event(Level::WARN, &[&testbed.path, "a semaphore is or was at this path"]));
    let theirs = other.semaphore(&testbed.path, 3).unwrap();
    let second = within("a second lease", theirs.acquire()).await.unwrap();
    let node = guard.node().rsplit('/').next().unwrap();
    eventually("the semaphore's warning", async || {
        notes.has_event(Level::WARN, &[&testbed.path, node, "a semaphore does not keep out"])
    })
    .await;
    for lease in [lease, second] {
        lease.release().await.unwrap();
    }
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn data_that_are_no_count_are_one_warning() {
    let notes = &*NOTES;
    let (testbed, curator) = Testbed::with_curator().await;
    let count = SharedCount::start(&curator, &testbed.path, 3).await.unwrap();
    let mut watch = count.watch();
    let words = [testbed.path.as_str(), "keeps the last count"];
    for (warnings, value) in [(1, 4_i32), (2, 5)] {
        for foreign in [b"".as_slice(), b"seventeen", b"\0\0\0\0\0"] {
            testbed.admin.set_data(&testbed.path, foreign, None).await.unwrap();
            within("a warning", async {
                while notes.events(Level::WARN, &words) < warnings {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            })
            .await;
        }
        testbed.admin.set_data(&testbed.path, &value.to_be_bytes(), None).await.unwrap();
        assert_eq!(within("a count", watch.changed()).await.unwrap(), value);
        assert_eq!(notes.events(Level::WARN, &words), warnings, "one until it is a count again");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_closed_on_purpose_is_no_warning() {
    let notes = &*NOTES;
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    let held = mutex.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    within("the end", curator.close()).await;
    fails(within("the waiter", waiting).await.unwrap(), ErrorKind::Closed);
    assert_eq!(lost_by(held.release().await), Loss::Closed);
    let warned = notes.0.lock().unwrap().events.clone();
    let warned: Vec<_> = warned.into_iter().filter(|(level, _)| *level == Level::WARN).collect();
    assert!(!notes.has_event(Level::WARN, &[&testbed.path]), "{warned:?}");
}

/// An outage costs what is held sooner than its owner has planned.
#[tokio::test(start_paused = true)]
async fn a_shorter_session_timeout_than_asked_for_is_a_warning() {
    let notes = &*NOTES;
    let seconds = Duration::from_secs;
    let granted = seconds(4)..=seconds(37);
    let ensemble = Ensemble::builder(1).session_timeouts(granted).start();
    for (asked, warned) in [(37, 0), (601, 1)] {
        let builder = Curator::builder().session_timeout(seconds(asked));
        drop(builder.connect(ensemble.connect_string()).await.unwrap());
        let words = [&*format!("asked={asked}s"), "granted=37s", "maxSessionTimeout"];
        assert_eq!(notes.events(Level::WARN, &words), warned);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_is_a_warning_if_something_was_held() {
    let notes = &*NOTES;
    let testbed = Testbed::new().await;
    let other = testbed.patient_curator().await;
    let taken = testbed.mutex(&other).acquire().await.unwrap();
    for holds in [false, true] {
        let (link, curator) = testbed.linked(testbed.short_lived_builder()).await;
        let session = format!("{:#x}", curator.session_id().unwrap());
        let held = match holds {
            true => Some(curator.mutex(format!("{}/own", testbed.path)).unwrap().acquire().await),
            false => None,
        };
        let waiting = testbed.waits(&curator).await;
        round_trip(&curator).await;
        let _refused = cut_off(&link).await;
        until(&curator, ConnectionState::Lost).await;
        let warned = notes.has_event(Level::WARN, &[&session, "the lease ended"]);
        assert_eq!(warned, holds);
        waiting.abort();
        drop(held);
        testbed.children_are(1 + usize::from(holds)).await;
    }
    drop(taken);
}

#[tokio::test(start_paused = true)]
async fn a_refused_candidate_is_one_warning_for_each_cause() {
    let notes = &*NOTES;
    let testbed = Testbed::with_parent().await;
    let curator = testbed.curator().await;
    let stray = testbed.stranger().await;
    let latch = testbed.latch(&curator);
    let warnings = || notes.events(Level::WARN, &[testbed.path.as_str(), "does not come to lead"]);
    let causes = [ErrorKind::UnusablePath, ErrorKind::PermissionDenied];
    for (number, cause) in causes.into_iter().enumerate() {
        for _ in 0..10 {
            assert_eq!(latch.leadership().await.unwrap_err().kind(), cause);
            assert_eq!(warnings(), 1 + number, "{cause:?}");
        }
        testbed.admin.set_acl(&testbed.path, &[anyone(Permission::ADMIN)]).await.unwrap();
    }
    testbed.open().await;
    testbed.remove(&stray).await;
    let term = within("leadership", latch.leadership()).await.unwrap();
    // The same cause after a term is another event.
    let stray = testbed.stranger().await;
    testbed.kill_session(&curator).await;
    within("the loss", term.lost()).await;
    let error = latch.leadership().await.unwrap_err();
    assert_eq!((error.kind(), warnings()), (ErrorKind::UnusablePath, 3));
    testbed.remove(&stray).await;
    within("leadership", latch.leadership()).await.unwrap();
    assert_eq!(warnings(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_short_terms_is_one_warning() {
    let notes = &*NOTES;
    let (testbed, curator) = Testbed::with_curator().await;
    let words = [testbed.path.as_str(), "a term ended by itself within a second"];
    let selector = testbed.selector(&curator);
    // A run that does not queue again by itself has no pause.
    within("a term", selector.run(async |_| ()).into_future()).await.unwrap();
    let quiet = selector.clone().auto_requeue().with_requeue_pause(Duration::ZERO);
    let run = quiet.run(async |_| ());
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.close().await.unwrap();
    assert_eq!(notes.events(Level::WARN, &words), 0);
    for runs in 1..3 {
        let run = selector.clone().auto_requeue().run(async |_| ());
        tokio::time::sleep(Duration::from_secs(10)).await;
        run.close().await.unwrap();
        assert_eq!(notes.events(Level::WARN, &words), runs);
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_ran_nothing_is_one_warning_a_minute() {
    let notes = &*NOTES;
    let ensemble = Ensemble::start(1);
    let process = ensemble.process();
    let servers = ensemble.connect_string().to_owned();
    let connected = process.spawn(async move { Curator::connect(&servers).await.unwrap() });
    let curator = connected.await.unwrap();
    let session = format!("{:#x}", curator.session_id().unwrap());
    let warnings = || notes.events(Level::WARN, &[&session, "the runtime ran nothing for"]);
    for warned in [1, 1, 2] {
        process.pause();
        tokio::time::sleep(Duration::from_secs(5)).await;
        process.resume();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(warnings(), warned);
        if warned == 1 && warnings() == 1 {
            tokio::time::sleep(Duration::from_secs(25)).await;
        }
    }
    curator.close().await;
}

/// Its own lost hold is in nobody's way: the latch contends again with the same node.
#[tokio::test(start_paused = true)]
async fn a_latch_that_leads_again_on_its_node_is_no_warning() {
    let notes = &*NOTES;
    let testbed = Testbed::new().await;
    let builder = testbed.builder().session_timeout(Duration::from_secs(12));
    let (link, curator) = testbed.linked(builder).await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    let silence = link.stall(Direction::ToClient);
    assert_eq!(within("the loss", leads.lost()).await, Loss::LeaseEnded);
    silence.heal();
    let again = within("the leadership", latch.leadership()).await.unwrap();
    assert_eq!(again.node(), leads.node());
    let words = [testbed.path.as_str(), "this very task holds"];
    assert_eq!(notes.events(Level::WARN, &words), 0);
    latch.close().await.unwrap();
}
