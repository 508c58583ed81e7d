//! Pictures of simulated runs: what they show of the library, and of a test that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{env, fs, process};

use tokio::time::sleep;
use zookeeper_recipes::simulation::{Direction, Ensemble};

use crate::prelude::{Curator, Duration};

const T: Duration = Duration::from_secs(6);

/// Holds a lock until it is lost.
async fn hold(servers: String) {
    let curator = Curator::builder().session_timeout(T).connect(&servers).await.unwrap();
    let guard = curator.mutex("/locks/orders").unwrap().acquire().await.unwrap();
    guard.lost().await;
    std::future::pending().await
}

/// The descriptions of all bars that begin so.
fn described<'a>(picture: &'a str, start: &str) -> Vec<&'a str> {
    let titles = picture.split("<title>").skip(1).filter_map(|rest| rest.split("</title>").next());
    titles.filter(|title| title.starts_with(start)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_picture_shows_waits_holds_losses_faults_and_servers() {
    let ensemble = Ensemble::builder(1).servers(3).start();
    ensemble.record();
    let link = ensemble.link();
    let first = ensemble.process().named("first");
    first.spawn(hold(link.connect_string().to_owned()));
    ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == 1).await;
    let second = ensemble.process().named("second");
    second.spawn(hold(ensemble.connect_string().to_owned()));
    ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == 2).await;
    let silence = link.stall(Direction::Both);
    ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == 1).await;
    sleep(Duration::from_secs(1)).await;
    silence.heal();
    second.kill();
    let picture = ensemble.picture().title("a <silent> link").to_string();

    let held = described(&picture, "first holds /locks/orders, token ");
    assert!(held.len() == 1 && held[0].contains("lost: the servers did not answer"), "{held:?}");
    let waits = described(&picture, "second waits for /locks/orders");
    assert!(waits.len() == 1 && waits[0].ends_with("acquired"), "{waits:?}");
    let held = described(&picture, "second holds /locks/orders");
    assert!(held.len() == 1 && held[0].ends_with("killed"), "{held:?}");
    assert_eq!(described(&picture, "first: no message arrives").len(), 1);
    assert_eq!(described(&picture, "second: killed").len(), 1);
    assert_eq!(described(&picture, "two hold").len(), 0);
    let leads = (0..3).flat_map(|server| described(&picture, &format!("server {server}: leads")));
    assert_eq!(leads.count(), 1);
    assert!(picture.contains(">the session of first ends</text>"), "{picture}");
    assert!(picture.contains(">a &lt;silent&gt; link</text>"));
    assert!(picture.contains("prefers-color-scheme: dark") && !picture.contains("<script"));
    // One run has one picture.
    assert_eq!(picture, ensemble.picture().title("a <silent> link").to_string());
}

/// The process notices the loss when it is resumed; the picture shows it when it happened.
#[tokio::test(start_paused = true)]
async fn the_hold_of_a_paused_process_ends_with_its_session_lease() {
    let ensemble = Ensemble::start(2);
    ensemble.record();
    let processes = [ensemble.process().named("first"), ensemble.process().named("second")];
    for (before, process) in processes.iter().enumerate() {
        process.spawn(hold(ensemble.connect_string().to_owned()));
        ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == before + 1).await;
    }
    processes[0].pause();
    ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == 1).await;
    sleep(Duration::from_secs(1)).await;
    // It has not noticed yet.
    let paused = ensemble.picture().to_string();
    assert_eq!(described(&paused, "two hold").len(), 0);
    processes[0].resume();
    sleep(Duration::from_secs(1)).await;
    let picture = ensemble.picture().to_string();
    assert_eq!(described(&picture, "two hold").len(), 0);
    let held = described(&picture, "first holds")[0];
    let length = held.split(", ").nth(3).unwrap().split(' ').next().unwrap();
    assert!(length.parse::<f64>().unwrap() < T.as_secs_f64() * 23.0 / 24.0, "{held}");
}

#[test]
fn a_test_that_fails_leaves_a_picture() {
    let file = env::temp_dir().join(format!("picture-{}-{}.svg", process::id(), line!()));
    let failing = |fails: bool| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let test = async {
            let mut ensemble = Ensemble::start(3);
            ensemble.picture_on_panic(&file);
            let curator = ensemble.curator().await;
            let _guard = curator.mutex("/locks/orders").unwrap().acquire().await.unwrap();
            sleep(Duration::from_secs(20)).await;
            assert!(!fails, "an assertion of a test");
        };
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(test))).is_err()
    };
    assert!(!failing(false) && !file.exists());
    assert!(failing(true));
    let picture = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(described(&picture, "Curator 1 holds /locks/orders").len(), 1);
    assert!(picture.contains("the test panics"));
    // The last seconds only.
    assert!(picture.contains(">18 s</text>") && !picture.contains(">14 s</text>"), "{picture}");
}
