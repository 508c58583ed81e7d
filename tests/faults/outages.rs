//! All servers are away, at once: they refuse connections, as servers that restart do, or they are silent. A hold, a leadership and
//! a place in a queue outlast each such outage that ends a second before half of the session timeout.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::simulation::{Cut, Ensemble, Link, Operation};
use zookeeper_recipes::{Curator, Guard};
use zookeeper_recipes_dev::{eventually, within};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    Refused,
    Silent,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    servers: usize,
    session_timeout: Duration,
    outage: Outage,
    length: Duration,
}

impl Case {
    /// Returns what was lost.
    async fn losses(self) -> Vec<&'static str> {
        let Self { seed, servers, session_timeout, outage, length } = self;
        let ensemble = Ensemble::builder(seed).servers(servers).start();
        let link = ensemble.link();
        let builder = Curator::builder().session_timeout(session_timeout);
        let curator = builder.connect(link.connect_string()).await.unwrap();
        let other = ensemble.curator().await;
        let hold = curator.mutex("/held").unwrap().acquire().await.unwrap();
        let latch = curator.leader_latch("/led").unwrap();
        let leadership = within("leadership", latch.leadership()).await.unwrap();
        let first = other.mutex("/waited").unwrap().acquire().await.unwrap();
        let mutex = curator.mutex("/waited").unwrap();
        let waiting = tokio::spawn(async move { mutex.acquire().await });
        eventually("a place", async || ensemble.children("/waited").len() == 2).await;
        let creates = link.requests(Operation::Create);
        // The probes of the lease come in turns.
        sleep(session_timeout.mul_f64(seed as f64 / 21.0)).await;

        let refusal = (outage == Outage::Refused).then(|| link.refuse());
        let partition = (outage == Outage::Silent).then(|| ensemble.partition(&curator));
        if refusal.is_some() {
            link.cut(Cut::Reset);
        }
        sleep(length).await;
        drop((refusal, partition));
        sleep(session_timeout).await;

        let mut losses = Vec::new();
        losses.extend((!hold.is_held()).then_some("a hold"));
        losses.extend((!leadership.is_held()).then_some("a leadership"));
        first.release().await.unwrap();
        drop(within("its turn", waiting).await.unwrap());
        losses.extend((link.requests(Operation::Create) > creates).then_some("a place"));
        losses
    }
}

/// Outages of `lengths`, with each number of servers, at several times between two probes.
async fn assert_kept(
    session_timeout: Duration,
    outage: Outage,
    lengths: impl Iterator<Item = Duration>,
) {
    let mut lost = Vec::new();
    for (seed, length) in (0..).zip(lengths) {
        for servers in [1, 3, 5] {
            let case = Case { seed: seed % 3, servers, session_timeout, outage, length };
            let losses = case.losses().await;
            if !losses.is_empty() {
                lost.push(format!("{case:?}: {losses:?}"));
            }
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

/// The last outage ends a second before half of the session timeout.
fn lengths(session_timeout: Duration, count: u32) -> impl Iterator<Item = Duration> {
    let longest = session_timeout / 2 - SECOND;
    (1..=count).map(move |part| longest * part / count)
}

#[tokio::test(start_paused = true)]
async fn what_is_held_outlasts_servers_that_refuse() {
    for (session_timeout, count) in [(15, 13), (30, 14), (60, 10)] {
        let session_timeout = session_timeout * SECOND;
        assert_kept(session_timeout, Outage::Refused, lengths(session_timeout, count)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_outlasts_servers_that_are_silent() {
    for session_timeout in [15, 30] {
        let session_timeout = session_timeout * SECOND;
        assert_kept(session_timeout, Outage::Silent, lengths(session_timeout, 6)).await;
    }
}

/// A follower falls silent. Its clients leave it within nine twentieths of the session timeout, if that is 13 s or more; with less
/// later, but before their leases end.
#[tokio::test(start_paused = true)]
async fn what_is_held_outlasts_one_silent_server_of_several() {
    for (seed, seconds) in (0..).zip([5, 6, 8, 10, 12, 13, 15, 20, 30]) {
        for servers in [3, 5] {
            let session_timeout = seconds * SECOND;
            let ensemble = Ensemble::builder(seed).servers(servers).start();
            ensemble.serving().await;
            let mut processes = Vec::new();
            for process in 0..10 {
                let builder = Curator::builder().session_timeout(session_timeout);
                let curator = builder.connect(ensemble.connect_string()).await.unwrap();
                let hold = curator.mutex(format!("/{process}")).unwrap().acquire().await.unwrap();
                processes.push((curator, hold));
            }
            let follower = (ensemble.leader().unwrap() + 1) % servers;
            ensemble.pause(follower);
            let paused = Instant::now();
            for (process, (curator, _)) in processes.iter().enumerate() {
                let mutex = curator.mutex(format!("/next/{process}")).unwrap();
                drop(within("an answer", mutex.acquire()).await.unwrap());
            }
            let answered = paused.elapsed();
            let in_time = session_timeout * 9 / 20 + Duration::from_millis(100);
            assert!(seconds < 13 || answered < in_time, "{servers}, {seconds} s: {answered:?}");
            sleep(session_timeout).await;
            assert!(processes.iter().all(|(_, hold)| hold.is_held()), "{servers}, {seconds} s");
        }
    }
}

/// A hundred processes come back at once.
#[tokio::test(start_paused = true)]
async fn a_hundred_processes_are_connected_again_soon() {
    let ensemble = Ensemble::builder(1).servers(3).start();
    let mut processes = Vec::new();
    for process in 0..100 {
        let link = ensemble.link();
        let builder = Curator::builder().session_timeout(15 * SECOND);
        let curator = builder.connect(link.connect_string()).await.unwrap();
        let hold = curator.mutex(format!("/{process}")).unwrap().acquire().await.unwrap();
        processes.push((link, curator, hold));
    }
    let cut = |(link, ..): &(Link, Curator, Guard)| {
        let refusal = link.refuse();
        link.cut(Cut::Reset);
        refusal
    };
    let refusals: Vec<_> = processes.iter().map(cut).collect();
    sleep(5 * SECOND).await;
    drop(refusals);
    let healed = Instant::now();
    for (_, curator, hold) in &processes {
        eventually("a connection", async || curator.state().is_connected()).await;
        assert!(hold.is_held());
    }
    assert!(healed.elapsed() < 3 * SECOND / 2, "{:?}", healed.elapsed());
}
