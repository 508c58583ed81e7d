//! A job that runs once, although several machines start it. Dying and cut-off machines are in the simulation and in `tests/faults`.

use std::sync::atomic::{AtomicUsize, Ordering};

use zookeeper_recipes::OnceOutcome;

use crate::prelude::*;

const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_record_says_who_ran_it_and_when() {
    let (testbed, curator) = Testbed::with_curator().await;
    let named = |name: &str| curator.with_identity(name).once(&testbed.path, "2026/11").unwrap();
    assert_eq!(named("a").run(async |_| Ok::<_, Error>(7)).await.unwrap(), OnceOutcome::Ran(7));
    let record = format!("{}/done/2026%2F11", testbed.path);
    let (_, stat) = testbed.admin.get_data(&record).await.unwrap();
    let later = named("b").run(async |_| -> Result<(), Error> { unreachable!() }).await.unwrap();
    let OnceOutcome::AlreadyDone { by, at, .. } = later else { panic!("{later:?}") };
    assert_eq!(by, "a");
    let since = at.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(i128::from(stat.ctime), i128::try_from(since.as_millis()).unwrap());
    let runs = format!("{}/runs/2026%2F11", testbed.path);
    assert_eq!(testbed.admin.list_children(&runs).await.unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_keys_beyond_those_that_are_kept_are_removed() {
    let (testbed, curator) = Testbed::with_curator().await;
    // Not in the order of their names.
    for key in ["d", "a", "c", "b"] {
        let job = curator.once(&testbed.path, key).unwrap().with_kept_keys(2);
        let once = job.run(async |_| Ok::<_, Error>(())).await.unwrap();
        assert_eq!(once, OnceOutcome::Ran(()));
    }
    let mut kept = testbed.admin.list_children(&format!("{}/done", testbed.path)).await.unwrap();
    kept.sort();
    assert_eq!(kept, ["b", "c"]);
}

/// An outage that begins in the body and outlasts all tries: not an error that says that nothing was done.
#[tokio::test(start_paused = true)]
async fn a_job_that_ran_is_lost_or_unknown_if_no_server_answers_any_more() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.short_lived_builder()).await;
    let curator = curator.with_retry(RetryPolicy::never());
    let job = curator.once(&testbed.path, "key").unwrap();
    let mut refused = None;
    let ran = job.run(async |_| {
        refused = Some(link.refuse());
        link.cut(Cut::Reset);
        Ok::<_, Error>(())
    });
    let error = within("the error", ran).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost | ErrorKind::OutcomeUnknown), "{error:?}");
    assert!(!error.is_transient());
}

/// A process that listed the records long ago must not remove one that was made since.
#[tokio::test(start_paused = true)]
async fn a_slow_clean_up_removes_no_record_that_is_newer_than_its_listing() {
    let testbed = Testbed::new().await;
    let (link, slow) = testbed.linked(testbed.patient_builder()).await;
    let quick = testbed.patient_curator().await;
    let job = |curator: &Curator, key| curator.once(&testbed.path, key).unwrap().with_kept_keys(2);
    let run = async |curator: &Curator, key| {
        job(curator, key).run(async |_| Ok::<_, Error>(())).await.unwrap()
    };
    for key in ["a", "b"] {
        assert_eq!(run(&quick, key).await, OnceOutcome::Ran(()));
    }
    // Its clean-up has listed all three, and is about to delete "a".
    let held = link.hold(Message::request(Operation::Multi).nth(2));
    let third = job(&slow, "c");
    let cleaning = tokio::spawn(async move { third.run(async |_| Ok::<_, Error>(())).await });
    struck_once(&held).await;
    for key in ["d", "a"] {
        let _ = run(&quick, key).await;
    }
    drop(held);
    let _ = within("the clean-up", cleaning).await.unwrap().unwrap();
    let _ = run(&quick, "e").await;
    let mut kept = testbed.admin.list_children(&format!("{}/done", testbed.path)).await.unwrap();
    kept.sort();
    assert_eq!(kept, ["d", "e"], "the newest two; \"a\" had run before");
}

/// One delete that is refused ends nothing.
#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_removed_does_not_keep_the_others() {
    let (testbed, curator) = Testbed::with_curator().await;
    let run = async |key| {
        let job = curator.once(&testbed.path, key).unwrap().with_kept_keys(1);
        job.run(async |_| Ok::<_, Error>(())).await.unwrap()
    };
    let _ = run("a").await;
    let stuck = format!("{}/done/a/child", testbed.path);
    testbed.admin.create(&stuck, b"", CreateMode::Persistent, &Acls::anyone_all()).await.unwrap();
    for key in ["b", "c"] {
        assert_eq!(run(key).await, OnceOutcome::Ran(()));
    }
    let mut kept = testbed.admin.list_children(&format!("{}/done", testbed.path)).await.unwrap();
    kept.sort();
    assert_eq!(kept, ["a", "c"]);
}

/// A thousand old records cost one trip, and a tenth more than are kept is left to later runs.
#[tokio::test(start_paused = true)]
async fn a_clean_up_takes_the_same_time_however_many_records_there_are() {
    let (testbed, curator) = Testbed::with_curator().await;
    let run = async |key: String| {
        let job = curator.once(&testbed.path, key).unwrap().with_kept_keys(20);
        job.run(async |_| Ok::<_, Error>(())).await.unwrap()
    };
    let done = format!("{}/done", testbed.path);
    let count = async || testbed.admin.list_children(&done).await.unwrap().len();
    for key in 0..22 {
        let _ = run(format!("{key}")).await;
    }
    assert_eq!(count().await, 22, "up to a tenth more");
    for key in 22..300 {
        let record = format!("{done}/{key}");
        testbed
            .admin
            .create(&record, b"", CreateMode::Persistent, &Acls::anyone_all())
            .await
            .unwrap();
    }
    let began = Instant::now();
    let _ = run("last".to_owned()).await;
    assert_eq!(count().await, 20);
    assert!(began.elapsed() < 200 * MILLISECOND, "{:?}: one after the other", began.elapsed());
}

/// Two branches of one task belong to one owner, and a run inside a run would wait for itself.
#[tokio::test(start_paused = true)]
async fn a_key_does_not_run_twice_at_once_in_an_owner() {
    let (testbed, curator) = Testbed::with_curator().await;
    let job = curator.once(&testbed.path, "key").unwrap();
    let bodies = AtomicUsize::new(0);
    let run = || {
        job.run(async |_| {
            bodies.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(MILLISECOND * 50).await;
            Ok::<_, Error>(())
        })
    };
    let (one, other) = Owner::new().scope(async { tokio::join!(run(), run()) }).await;
    let (ran, refused) = if one.is_ok() { (one, other) } else { (other, one) };
    assert_eq!(ran.unwrap(), OnceOutcome::Ran(()));
    fails(refused, ErrorKind::WouldDeadlock);
    assert_eq!(bodies.load(Ordering::Relaxed), 1);
    let other = curator.once(&testbed.path, "other").unwrap();
    let owner = Owner::new();
    let inner = owner.scope(other.run(async |_| {
        fails(other.run(async |_| Ok::<_, Error>(())).await, ErrorKind::WouldDeadlock);
        Ok::<_, Error>(())
    }));
    assert_eq!(within("the run", inner).await.unwrap(), OnceOutcome::Ran(()));
}

/// As by a server that had not shown the record when the body began.
#[tokio::test(start_paused = true)]
async fn a_record_that_appears_during_the_run_says_who_recorded() {
    let (testbed, curator) = Testbed::with_curator().await;
    let job = curator.once(&testbed.path, "key").unwrap();
    let record = format!("{}/done/key", testbed.path);
    let ran = job.run(async |_| {
        let theirs = b"theirs\n/another/node";
        let acls = Acls::anyone_all();
        testbed.admin.create(&record, theirs, CreateMode::Persistent, &acls).await.unwrap();
        Ok::<_, Error>(())
    });
    let OnceOutcome::AlreadyDone { by, .. } = ran.await.unwrap() else { panic!("it ran alone") };
    assert_eq!(by, "theirs");
}

/// A run that was lost, or whose body failed, leaves no record.
#[tokio::test(start_paused = true)]
async fn a_run_without_success_is_an_error_and_the_next_runs() {
    let (testbed, curator) = Testbed::with_curator().await;
    let job = curator.once(&testbed.path, "key").unwrap();
    let admin = testbed.admin.clone();
    let lost = job.run(async |hold| {
        admin.delete(hold.node(), None).await.unwrap();
        std::future::pending::<Result<(), Error>>().await
    });
    fails(within("the loss", lost).await, ErrorKind::Lost);
    let failed = job.run(async |_| {
        let busy = job.try_run(async |_| Ok::<_, Error>(())).await;
        assert_eq!(fails(busy, ErrorKind::Busy).path(), Some(job.path()));
        curator.mutex("").map(drop)
    });
    fails(within("the body's own error", failed).await, ErrorKind::InvalidInput);
    assert_eq!(job.run(async |_| Ok::<_, Error>(())).await.unwrap(), OnceOutcome::Ran(()));
}

/// The limit is for the wait: the body itself may take longer.
#[tokio::test(start_paused = true)]
async fn a_limit_ends_the_wait_for_another_run_and_not_the_own_one() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let [ours, theirs] = [&curator, &other].map(|one| one.once(&testbed.path, "key").unwrap());
    let (begun, begins) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(async move {
        let body = async move |_| {
            begun.send(()).unwrap();
            tokio::time::sleep(3 * BUSY).await;
            curator.mutex("").map(drop)
        };
        theirs.run_timeout(BUSY, body).await
    });
    begins.await.unwrap();
    let began = Instant::now();
    let uncalled = async |_| -> Result<(), Error> { panic!("the body of a busy run") };
    let error = fails(ours.run_timeout(BUSY, uncalled).await, ErrorKind::Busy);
    assert!((BUSY..2 * BUSY).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(error.path(), Some(ours.path()));
    let text = format!("another contender has the key key of {}", ours.path());
    assert_eq!(error.to_string(), text);
    fails(within("its end", running).await.unwrap(), ErrorKind::InvalidInput);
    let ran = ours.run_timeout(BUSY, async |_| Ok::<_, Error>(7)).await.unwrap();
    assert_eq!(ran, OnceOutcome::Ran(7));
    let done = ours.run_timeout(BUSY, uncalled).await.unwrap();
    assert!(matches!(done, OnceOutcome::AlreadyDone { .. }), "{done:?}");
}

/// While it reads the record, queues up, reads the record again under the lock, and makes the folder of the records.
#[tokio::test(start_paused = true)]
async fn a_limit_holds_at_each_request_that_is_not_answered() {
    for operation in [Operation::GetData, Operation::Create] {
        for number in 1.. {
            let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
            let job = curator.once(&testbed.path, "key").unwrap();
            let held = link.hold(Message::reply(operation).nth(number));
            let bodies = AtomicUsize::new(0);
            let body = async |_| Ok::<_, Error>(bodies.fetch_add(1, Ordering::Relaxed));
            let began = Instant::now();
            let ran = within("the limit", job.run_timeout(BUSY, body)).await;
            if held.strikes() == 0 {
                assert_eq!(ran.unwrap(), OnceOutcome::Ran(0));
                assert!(number > 3, "{operation:?}");
                break;
            }
            fails(ran, ErrorKind::Unavailable);
            assert!((BUSY..2 * BUSY).contains(&began.elapsed()), "{:?}", began.elapsed());
            held.heal();
            assert_eq!(job.run(body).await.unwrap(), OnceOutcome::Ran(0), "{operation:?} {number}");
        }
    }
}

/// The node is deleted without the runner's knowledge: another process may run the key by now.
#[tokio::test(start_paused = true)]
async fn a_runner_whose_node_is_deleted_records_nothing() {
    let testbed = Testbed::new().await;
    // A long session: the node is not checked within the test's time.
    let curator = testbed.patient_curator().await;
    let job = curator.once(&testbed.path, "key").unwrap();
    let robbed = job.run(async |hold| {
        testbed.remove(hold.node()).await;
        Ok::<_, Error>(())
    });
    assert_eq!(lost_by(within("the loss", robbed).await), Loss::NodeDeleted);
    assert_eq!(testbed.data(&format!("{}/done/key", testbed.path)).await, None);
    assert_eq!(job.run(async |_| Ok::<_, Error>(())).await.unwrap(), OnceOutcome::Ran(()));
}

/// The record has the identity of both, since each test client has the same one.
#[tokio::test(start_paused = true)]
async fn a_record_that_another_process_made_meanwhile_is_not_the_runners() {
    let testbed = Testbed::new().await;
    let (curator, other) = (testbed.patient_curator().await, testbed.patient_curator().await);
    let [job, theirs] = [curator, other].map(|one| one.once(&testbed.path, "key").unwrap());
    let robbed = job.run(async |hold| {
        testbed.remove(hold.node()).await;
        assert_eq!(theirs.run(async |_| Ok::<_, Error>(2)).await?, OnceOutcome::Ran(2));
        Ok::<_, Error>(1)
    });
    assert_eq!(lost_by(within("the loss", robbed).await), Loss::NodeDeleted);
    let done = job.run(async |_| Ok::<_, Error>(1)).await.unwrap();
    assert!(matches!(done, OnceOutcome::AlreadyDone { .. }), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bad_key_names_the_option() {
    let (testbed, curator) = Testbed::with_curator().await;
    assert_eq!(
        fails(curator.once(&testbed.path, ""), ErrorKind::InvalidInput).option(),
        Some("key")
    );
    let error = fails(curator.once("jobs", "key"), ErrorKind::InvalidInput);
    assert_eq!(error.option(), Some("lock path"));
}
