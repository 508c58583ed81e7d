//! The pictures of the pages, each of a run of its own: `make pictures`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::simulation::{Direction, Ensemble, Process, in_this_process};
use zookeeper_recipes::{Curator, Error, Released, SlotHold};

const PATH: &str = "/locks/orders";
const SESSION: Duration = Duration::from_secs(6);

/// Draws all pictures into a folder.
pub(crate) fn draw(folder: &Path) -> Result<(), String> {
    let pictures = [
        ("hand-over", drawn(hand_over())),
        ("session-lease", drawn(silence())),
        ("pause", drawn(pause())),
        ("cut-off-follower", drawn(cut_off_follower())),
        ("rolling-restart", drawn(rolling_restart())),
        ("migration", drawn(migration())),
        ("sharded-workers", drawn(sharded_workers())),
    ];
    for (name, picture) in pictures {
        let file = folder.join(format!("{name}.svg"));
        fs::write(&file, picture).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

fn drawn(scene: impl Future<Output = String>) -> String {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime").block_on(scene)
}

/// Takes the lock, and keeps it for a time or until it is lost. Then it closes its session.
async fn worker(servers: String, holds: Duration) {
    let curator =
        Curator::builder().session_timeout(SESSION).connect(&servers).await.expect("a session");
    let guard = curator.mutex(PATH).expect("a path").acquire().await.expect("the lock");
    tokio::select! {
        biased;
        _ = guard.lost() => {}
        () = sleep(holds) => {
            let released = guard.release().await;
            assert_eq!(released.expect("a release"), Released::Confirmed);
        }
    }
    std::future::pending().await
}

/// Starts a worker in a process, and waits until it contends.
async fn start(ensemble: &Ensemble, name: &str, servers: &str, holds: Duration) -> Process {
    let before = ensemble.children(PATH).len();
    let process = ensemble.process().named(name);
    process.spawn(worker(servers.to_owned(), holds));
    ensemble.until(|ensemble| ensemble.children(PATH).len() > before).await;
    process
}

/// A holds for a second, and B waits meanwhile.
async fn hand_over() -> String {
    let trip = Duration::from_millis(20);
    let ensemble = Ensemble::builder(1).latency(trip..=trip).start();
    ensemble.record();
    let began = Instant::now();
    let servers = ensemble.connect_string();
    let _a = start(&ensemble, "A", servers, Duration::from_secs(1)).await;
    let _b = start(&ensemble, "B", servers, Duration::from_secs(1)).await;
    ensemble.until(|ensemble| ensemble.children(PATH).len() == 1).await;
    let deleted = began.elapsed();
    sleep(Duration::from_secs(1)).await;
    let window = deleted - Duration::from_millis(150)..deleted + Duration::from_millis(250);
    let picture = ensemble.picture().between(window);
    picture.title("A releases the lock: one delete, whose event wakes B").to_string()
}

/// Waits until the znode of the first holder is deleted, and draws the seconds before.
async fn until_taken_over(ensemble: &Ensemble, began: Instant, title: &str) -> String {
    ensemble.until(|ensemble| ensemble.children(PATH).len() == 1).await;
    sleep(Duration::from_secs(2)).await;
    let end = began.elapsed();
    ensemble
        .picture()
        .between(end.saturating_sub(Duration::from_secs(10))..end)
        .title(title)
        .to_string()
}

/// No message of A arrives any more.
async fn silence() -> String {
    let ensemble = Ensemble::start(2);
    ensemble.record();
    let began = Instant::now();
    let link = ensemble.link();
    let _a = start(&ensemble, "A", link.connect_string(), Duration::MAX).await;
    let _b = start(&ensemble, "B", ensemble.connect_string(), Duration::MAX).await;
    sleep(Duration::from_secs(2)).await;
    let _silence = link.stall(Direction::Both);
    let title = "A hears nothing: it loses the lock before its session ends and B holds";
    until_taken_over(&ensemble, began, title).await
}

/// A stands still for longer than its session lasts.
async fn pause() -> String {
    let ensemble = Ensemble::start(3);
    ensemble.record();
    let began = Instant::now();
    let servers = ensemble.connect_string();
    let a = start(&ensemble, "A", servers, Duration::MAX).await;
    let _b = start(&ensemble, "B", servers, Duration::MAX).await;
    sleep(Duration::from_secs(2)).await;
    a.pause();
    ensemble.until(|ensemble| ensemble.children(PATH).len() == 1).await;
    sleep(Duration::from_secs(1)).await;
    a.resume();
    let title = "A stands still: its first check says that it lost the lock before B held it";
    until_taken_over(&ensemble, began, title).await
}

/// A's server is cut off from the others, and answers reads all the same.
async fn cut_off_follower() -> String {
    let ensemble = Ensemble::builder(4).servers(3).start();
    ensemble.record();
    let began = Instant::now();
    let leader = ensemble.leader().expect("a leader");
    let follower = (leader + 1) % 3;
    let a = ensemble.link_to(follower);
    let b = ensemble.link_to(leader);
    let _a = start(&ensemble, "A", a.connect_string(), Duration::MAX).await;
    let _b = start(&ensemble, "B", b.connect_string(), Duration::MAX).await;
    sleep(Duration::from_secs(2)).await;
    let _cut = ensemble.isolate(follower);
    let title = format!("Server {follower}, which serves A, is cut off from the others");
    until_taken_over(&ensemble, began, &title).await
}

/// Three replicas are replaced one by one. Each gives the lock up as it ends.
async fn rolling_restart() -> String {
    let ensemble = Ensemble::builder(5).servers(3).start();
    ensemble.record();
    let mut replicas = Vec::new();
    for name in ["replica 1", "replica 2", "replica 3"] {
        replicas.push(replica(&ensemble, name).await);
    }
    for (name, old) in ["replica 1", "replica 2", "replica 3"].into_iter().zip(replicas) {
        sleep(Duration::from_secs(3)).await;
        assert_eq!(old.close().await, Released::Confirmed);
        sleep(Duration::from_secs(1)).await;
        drop(replica(&ensemble, name).await);
    }
    sleep(Duration::from_secs(3)).await;
    ensemble.picture().title("A rolling restart of three replicas that share a lock").to_string()
}

/// The first steps of the guide's migration, and back: each starts a new process before it ends an old one. Old and new ones run this
/// crate, because Curator's mutex makes the same requests for the same znodes.
async fn migration() -> String {
    let ensemble = Ensemble::start(6);
    ensemble.record();
    let mut running = BTreeMap::new();
    for name in ["old-1", "old-2"] {
        running.insert(name, biller(&ensemble, name).await);
    }
    let steps =
        [("new-1", ""), ("new-2", "old-1"), ("old-1", "new-2"), ("new-2", "old-1"), ("", "old-2")];
    for (starts, ends) in steps {
        sleep(Duration::from_secs(2)).await;
        if !starts.is_empty() {
            running.insert(starts, biller(&ensemble, starts).await);
            sleep(Duration::from_secs(1)).await;
        }
        if let Some(curator) = running.remove(ends) {
            assert_eq!(curator.close().await, Released::Confirmed);
        }
    }
    sleep(Duration::from_secs(2)).await;
    let picture = ensemble.picture().whole();
    picture
        .title("A migration: new-2 replaces old-1, which comes back, and replaces it again")
        .to_string()
}

/// Workers share shards as in `examples/sharded_workers.rs`. One is killed, another one stands still for longer than its session lasts.
async fn sharded_workers() -> String {
    let ensemble = Ensemble::start(7);
    ensemble.record();
    let workers = ["a", "b", "c", "d"].map(|name| {
        let process = ensemble.process().named(name);
        process.spawn(sharing(ensemble.connect_string().to_owned()));
        process
    });
    sleep(Duration::from_secs(3)).await;
    workers[0].kill();
    sleep(Duration::from_secs(9)).await;
    workers[1].pause();
    sleep(Duration::from_secs(9)).await;
    workers[1].resume();
    sleep(Duration::from_secs(4)).await;
    let picture = ensemble.picture().whole();
    picture
        .title("Four workers share six shards: a is killed, b stands still and takes part again")
        .to_string()
}

/// Takes a slot, and after a loss another one.
async fn sharing(servers: String) {
    let curator =
        Curator::builder().session_timeout(SESSION).connect(&servers).await.expect("a session");
    let slots = curator.slots("/slots", 4).expect("a path");
    loop {
        let _lost: Result<(), Error> =
            slots.run(async |slot| share_of_slot(&curator, slot).await).await;
    }
}

/// Holds the mutexes of the shards that fall to this slot among the members.
async fn share_of_slot(curator: &Curator, slot: SlotHold) -> Result<(), Error> {
    let id = format!("{:02}", slot.index());
    let _membership = curator.group_member("/workers", &id)?.join().await?;
    let mut observer = curator.observe_group("/workers")?;
    let mut shards = BTreeMap::new();
    loop {
        let members = observer.changed().await?;
        let place = members.ids().position(|member| member == id);
        let is_wanted = |shard: usize| place == Some(shard % members.len());
        // Dropping a shard's tasks releases the shard.
        shards.retain(|shard, _| is_wanted(*shard));
        for shard in (0..6).filter(|shard| is_wanted(*shard)) {
            shards.entry(shard).or_insert_with(|| {
                let mut tasks = JoinSet::new();
                tasks.spawn(in_this_process(hold_shard(curator.clone(), shard)));
                tasks
            });
        }
    }
}

async fn hold_shard(curator: Curator, shard: usize) {
    let mutex = curator.mutex(format!("/shards/{shard}")).expect("a path");
    while let Ok(guard) = mutex.acquire().await {
        guard.lost().await;
    }
}

/// Starts a process that bills under the lock, again and again, until its `Curator` is closed.
async fn biller(ensemble: &Ensemble, name: &str) -> Curator {
    let (process, curator) = connected(ensemble, name).await;
    let mutex = curator.mutex(PATH).expect("a path");
    process.spawn(async move {
        while let Ok(guard) = mutex.acquire().await {
            sleep(Duration::from_millis(500)).await;
            drop(guard);
        }
    });
    curator
}

/// Starts a process with a session.
async fn connected(ensemble: &Ensemble, name: &str) -> (Process, Curator) {
    let process = ensemble.process().named(name);
    let servers = ensemble.connect_string().to_owned();
    let connected = process.spawn(async move {
        Curator::builder().session_timeout(SESSION).connect(&servers).await.expect("a session")
    });
    let curator = connected.await.expect("a process that runs");
    (process, curator)
}

/// Starts a replica that holds or waits until its `Curator` is closed.
async fn replica(ensemble: &Ensemble, name: &str) -> Curator {
    let (process, curator) = connected(ensemble, name).await;
    let mutex = curator.mutex(PATH).expect("a path");
    let before = ensemble.children(PATH).len();
    process.spawn(async move {
        if let Ok(guard) = mutex.acquire().await {
            guard.lost().await;
        }
    });
    ensemble.until(|ensemble| ensemble.children(PATH).len() > before).await;
    curator
}
