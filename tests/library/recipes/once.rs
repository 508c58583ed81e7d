//! A job that runs once, although several machines start it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use zookeeper_recipes::simulation::Ensemble;
use zookeeper_recipes::{Attempt, Curator, Error, ErrorKind, Once};

use crate::harness::{Arena, eventually, fails, within};

const MILLISECOND: Duration = Duration::from_millis(1);

/// A job of 5 ms, on machines whose clocks differ by up to an hour: a lock alone would run it on both.
#[tokio::test(start_paused = true)]
async fn each_of_two_hundred_keys_runs_on_one_of_two_machines() {
    let (arena, curators) = Arena::with_curators::<2>().await;
    let hour = 3_600_000;
    // So that a key is under way, was just done, or was done long ago.
    let skews = [0, 1, 5, 20, if crate::harness::is_real() { 200 } else { hour }];
    for key in 0..200 {
        let bodies = Arc::new(AtomicUsize::new(0));
        let machines = [0, skews[key % skews.len()]].into_iter().zip(&curators);
        let machines = machines.map(|(skew, curator)| {
            let (job, bodies) = (curator.once(&arena.path, format!("day {key}")), bodies.clone());
            tokio::spawn(async move {
                tokio::time::sleep(MILLISECOND * skew).await;
                let body = async move |_| {
                    tokio::time::sleep(MILLISECOND * 5).await;
                    bodies.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Error>(())
                };
                job?.run(body).await
            })
        });
        let mut ran = 0;
        for machine in machines.collect::<Vec<_>>() {
            let limit = MILLISECOND * (2 * hour);
            let once = tokio::time::timeout(limit, machine).await.unwrap().unwrap().unwrap();
            ran += usize::from(matches!(once, Once::Ran(())));
        }
        assert_eq!((ran, bodies.load(Ordering::Relaxed)), (1, 1), "day {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_says_who_ran_it_and_when() {
    let (arena, curator) = Arena::with_curator().await;
    let named = |name: &str| curator.with_identity(name).once(&arena.path, "2026/11").unwrap();
    assert_eq!(named("a").run(async |_| Ok::<_, Error>(7)).await.unwrap(), Once::Ran(7));
    let record = format!("{}/done/2026%2F11", arena.path);
    let (_, stat) = arena.admin.get_data(&record).await.unwrap();
    let later = named("b").run(async |_| -> Result<(), Error> { unreachable!() }).await.unwrap();
    let Once::AlreadyDone { by, at, .. } = later else { panic!("{later:?}") };
    assert_eq!(by, "a");
    let since = at.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(i128::from(stat.ctime), i128::try_from(since.as_millis()).unwrap());
    assert!(
        arena
            .admin
            .list_children(&format!("{}/runs/2026%2F11", arena.path))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_leaves_no_record_and_the_waiting_process_takes_over() {
    let (arena, [one, other]) = Arena::with_curators().await;
    let job = |curator: &Curator| curator.once(&arena.path, "key").unwrap();
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = tokio::spawn({
        let (job, begun, end) = (job(&one), begun.clone(), end.clone());
        async move {
            let body = async move |_| {
                begun.notify_one();
                end.notified().await;
                Err::<(), _>(fails(job_that_fails().await, ErrorKind::InvalidInput))
            };
            job.run(body).await
        }
    });
    within("the first", begun.notified()).await;
    let busy = job(&other).try_run(async |_| Ok::<_, Error>(())).await.unwrap();
    assert!(matches!(busy, Attempt::Busy));
    let second = job(&other);
    let second = tokio::spawn(async move { second.run(async |_| Ok::<_, Error>("ran")).await });
    eventually("the second waits", async || job(&one).participants().await.unwrap().len() == 2)
        .await;
    end.notify_one();
    let error = within("the first", first).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "the body's own");
    let second = within("the second", second).await.unwrap().unwrap();
    assert_eq!(second, Once::Ran("ran"));
}

async fn job_that_fails() -> Result<(), Error> {
    "x".parse::<zookeeper_recipes::FencingToken>().map(drop)
}

#[tokio::test(start_paused = true)]
async fn the_oldest_keys_beyond_those_that_are_kept_are_removed() {
    let (arena, curator) = Arena::with_curator().await;
    // Not in the order of their names.
    for key in ["d", "a", "c", "b"] {
        let job = curator.once(&arena.path, key).unwrap().with_kept_keys(2);
        let once = job.run(async |_| Ok::<_, Error>(())).await.unwrap();
        assert_eq!(once, Once::Ran(()));
    }
    let mut kept = arena.admin.list_children(&format!("{}/done", arena.path)).await.unwrap();
    kept.sort();
    assert_eq!(kept, ["b", "c"]);
}

/// It does not come to run the job in vain.
#[tokio::test(start_paused = true)]
async fn a_lost_run_is_an_error_and_the_next_runs() {
    let (arena, curator) = Arena::with_curator().await;
    let job = curator.once(&arena.path, "key").unwrap();
    let admin = arena.admin.clone();
    let lost = job.run(async |hold| {
        admin.delete(hold.node(), None).await.unwrap();
        std::future::pending::<Result<(), Error>>().await
    });
    fails(within("the loss", lost).await, ErrorKind::Lost);
    assert_eq!(job.run(async |_| Ok::<_, Error>(())).await.unwrap(), Once::Ran(()));
}

/// As `kill -9` does, before, during and after the job: never two records, never a key without a run.
#[tokio::test(start_paused = true)]
async fn a_machine_that_dies_leaves_the_key_to_the_next_or_has_done_it() {
    let ensemble = Arc::new(Ensemble::start(7));
    for (at, done_by_the_first) in [("before", false), ("during", false), ("after", true)] {
        let process = ensemble.process();
        let reached = Arc::new(Notify::new());
        let connect = Curator::builder().connect(ensemble.connect_string()).await;
        let curator = connect.unwrap().with_identity("second");
        let servers = ensemble.connect_string().to_owned();
        let first = reached.clone();
        process.spawn(async move {
            let curator = Curator::builder().connect(&servers).await.unwrap();
            if at == "before" {
                let _held = curator.mutex(format!("/jobs/runs/{at}")).unwrap().acquire().await;
                first.notify_one();
                return std::future::pending::<()>().await;
            }
            let body = async |_| {
                if at == "during" {
                    first.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok::<_, Error>(())
            };
            curator
                .with_identity("first")
                .once("/jobs", at)
                .unwrap()
                .run(body)
                .await
                .map(drop)
                .unwrap();
            first.notify_one();
            std::future::pending().await
        });
        within("the first", reached.notified()).await;
        process.kill();
        let job = curator.once("/jobs", at).unwrap();
        let once = within(at, job.run(async |_| Ok::<_, Error>(()))).await.unwrap();
        match once {
            Once::Ran(()) => assert!(!done_by_the_first, "{at}"),
            Once::AlreadyDone { by, .. } => {
                assert_eq!((by.as_str(), done_by_the_first), ("first", true))
            }
        }
        curator.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_key_names_the_option() {
    let (arena, curator) = Arena::with_curator().await;
    assert_eq!(fails(curator.once(&arena.path, ""), ErrorKind::InvalidInput).option(), Some("key"));
    let error = fails(curator.once("jobs", "key"), ErrorKind::InvalidInput);
    assert_eq!(error.option(), Some("lock path"));
}
