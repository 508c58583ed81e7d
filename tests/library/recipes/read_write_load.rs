//! Readers and writers of several clients at random, with a checker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{FencingToken, InterProcessReadWriteLock};

use crate::harness::{Arena, within};

/// Who is inside, as told by those who are.
#[derive(Debug, Default)]
struct Inside {
    readers: AtomicUsize,
    writes: AtomicBool,
    most_readers: AtomicUsize,
    reads: AtomicUsize,
    written: AtomicUsize,
    down_graded: AtomicUsize,
}

impl Inside {
    fn read_begins(&self) {
        let readers = self.readers.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(!self.writes.load(Ordering::SeqCst), "invariant 1: a reader beside a writer");
        self.most_readers.fetch_max(readers, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    fn read_ends(&self) {
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }

    fn write_begins(&self) {
        assert!(!self.writes.swap(true, Ordering::SeqCst), "invariant 1: two writers");
        let readers = self.readers.load(Ordering::SeqCst);
        assert_eq!(readers, 0, "invariant 1: a writer beside {readers} readers");
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    fn write_ends(&self) {
        assert!(self.writes.swap(false, Ordering::SeqCst));
    }
}

async fn a_moment(random: &mut fastrand::Rng) {
    tokio::time::sleep(Duration::from_millis(random.u64(1..10))).await;
}

/// One round in ten writes; one write in three goes on as a read. Tokens of one task grow.
async fn contend(
    lock: InterProcessReadWriteLock,
    inside: Arc<Inside>,
    mut random: fastrand::Rng,
    rounds: usize,
) {
    let mut last: Option<FencingToken> = None;
    for _ in 0..rounds {
        let token = if random.usize(..10) == 0 {
            let guard = lock.write().acquire().await.unwrap();
            let token = guard.fencing_token();
            inside.write_begins();
            a_moment(&mut random).await;
            assert!(guard.is_held(), "{:?}", guard.loss());
            if random.usize(..3) == 0 {
                let read = guard.read().await.unwrap();
                inside.write_ends();
                inside.read_begins();
                guard.release().await.unwrap();
                a_moment(&mut random).await;
                assert!(read.is_held(), "{:?}", read.loss());
                inside.down_graded.fetch_add(1, Ordering::SeqCst);
                inside.read_ends();
                read.release().await.unwrap();
            } else {
                inside.write_ends();
                guard.release().await.unwrap();
            }
            token
        } else {
            let guard = lock.read().acquire().await.unwrap();
            inside.read_begins();
            a_moment(&mut random).await;
            assert!(guard.is_held(), "{:?}", guard.loss());
            inside.read_ends();
            let token = guard.fencing_token();
            guard.release().await.unwrap();
            token
        };
        assert!(Some(token) > last, "invariant 4");
        last = Some(token);
    }
}

async fn all_are_served(clients: usize, tasks_each: usize, rounds: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let arena = Arena::new().await;
    let inside = Arc::new(Inside::default());
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let builder = arena.builder().session_timeout(Duration::from_secs(40));
        let curator = arena.connect(builder).await;
        for _ in 0..tasks_each {
            let (lock, random) = (arena.read_write(&curator), random.fork());
            tasks.spawn(contend(lock, inside.clone(), random, rounds));
        }
    }
    let all = tokio::time::timeout(Duration::from_secs(180), tasks.join_all());
    all.await.expect("all are served");
    println!("{inside:?}");
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    assert!(count(&inside.reads) > 0 && count(&inside.written) > 0);
    assert!(count(&inside.most_readers) > 1, "readers never read together");
    let rounds = clients * tasks_each * rounds;
    let (reads, written) = (count(&inside.reads), count(&inside.written));
    assert_eq!(reads - count(&inside.down_graded) + written, rounds);
    within("nothing is left", arena.children_are(0)).await;
}

/// Curator: TestInterProcessReadWriteLock#testBasic.
#[tokio::test(start_paused = true)]
async fn eight_clients() {
    all_are_served(8, 1, 100).await;
}

#[tokio::test(start_paused = true)]
async fn one_client_with_sixteen_tasks() {
    all_are_served(1, 16, 40).await;
}
