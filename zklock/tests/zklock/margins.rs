//! How long before the server gives the lock away the command is dead, with all that it started, when it ignores `TERM`:
//! `make zklock-margins LOSSES=20`.
//!
//! The time of death is when the pipe ends that all of its processes hold; the time at which the lock is given away is when
//! another client, which reaches the server by a way of its own, is told that the node is gone, and a waiting `zklock`
//! has its command say so.

use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use zookeeper_testkit::{Cut, Direction, Fault, FaultProxy};

use crate::scene::Scene;
use crate::scripts::STUBBORN;
use crate::tool::Running;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The link is silent.
    Stalled,
    /// The link is cut, and no other is had.
    Refused,
    /// `zklock` is stopped.
    Stopped,
    /// `zklock` is killed.
    Killed,
}

const SESSION: &str = "6s";

const LOSSES: [Loss; 4] = [Loss::Stalled, Loss::Refused, Loss::Stopped, Loss::Killed];

/// Cut off until it is dropped.
async fn strikes(loss: Loss, running: &Running, link: &FaultProxy) -> Option<Fault> {
    match loss {
        Loss::Stalled => Some(link.stall(Direction::Both)),
        Loss::Refused => {
            let refused = link.refuse();
            assert_eq!(link.cut(Cut::Reset), 1);
            Some(refused)
        }
        Loss::Stopped => {
            running.stop().await;
            None
        }
        Loss::Killed => {
            running.signal(Signal::SIGKILL);
            None
        }
    }
}

struct Margin {
    dead_after: Duration,
    before_the_node_went: Duration,
    before_the_next_ran: Duration,
}

async fn lost_by(loss: Loss) -> Margin {
    let scene = Scene::new().await;
    let (mut life, mut next, link) = (scene.lifeline(), scene.lifeline(), scene.link().await);
    let tool = scene.run(STUBBORN).env("LIFE", &life.path);
    let tool = tool.env("ZKLOCK_SESSION_TIMEOUT", SESSION);
    let running = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
    life.says("up").await;
    let deletion = scene.deletion(&scene.node().await).await;
    let waiting = scene.run(r#"echo next > "$LIFE""#).env("LIFE", &next.path).start();
    scene.children_are(2).await;
    // Anywhere between two renewals of the lease.
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..1_500))).await;
    let lost = std::time::Instant::now();
    let fault = strikes(loss, &running, &link).await;
    let (said, dead) = life.end().await;
    let gave_way = deletion.is_finished();
    let told = said.iter().filter(|line| line.contains("TERM")).count();
    assert_eq!(told, if loss == Loss::Killed { 0 } else { 2 }, "{loss:?}: {said:?}");
    let deleted = deletion.await.unwrap();
    let ran = next.says("next").await;
    assert!(!gave_way && dead < deleted && dead < ran, "{loss:?}: the lock was given away first");
    waiting.ended().await.quietly(0);
    if loss == Loss::Stopped {
        running.signal(Signal::SIGCONT);
    }
    drop(fault);
    let ended = running.ended().await;
    if loss != Loss::Killed {
        ended.one_line(76, &["lost ", &scene.path]);
    }
    scene.end().await;
    Margin {
        dead_after: dead - lost,
        before_the_node_went: deleted - dead,
        before_the_next_ran: ran - dead,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ignores_term_is_dead_before_the_lock_is_given_away() {
    let rounds =
        std::env::var("LOSSES").map_or(LOSSES.len(), |rounds| rounds.parse().expect("a number"));
    let all: Vec<(usize, Loss)> = (1..=rounds).zip(LOSSES.into_iter().cycle()).collect();
    println!("a command that ignores TERM, and a child of it; session timeout {SESSION}");
    println!("     loss     dead after    before the node went    before the next one ran");
    let mut least: Option<(Duration, Loss)> = None;
    // One of each kind beside the others.
    for some in all.chunks(LOSSES.len()) {
        let margins = join_all(some.iter().map(|(_, loss)| lost_by(*loss))).await;
        for ((round, loss), margin) in some.iter().zip(margins) {
            let [dead, node, next] =
                [margin.dead_after, margin.before_the_node_went, margin.before_the_next_ran]
                    .map(|time| format!("{:.3} s", time.as_secs_f64()));
            println!("{round:>4} {:8} {dead:>10} {node:>23} {next:>26}", format!("{loss:?}"));
            if least.is_none_or(|(least, _)| margin.before_the_node_went < least) {
                least = Some((margin.before_the_node_went, *loss));
            }
        }
    }
    let (least, loss) = least.expect("a loss");
    let least = least.as_secs_f64();
    println!("{rounds} losses, each time dead before: by {least:.3} s at least ({loss:?})");
}
