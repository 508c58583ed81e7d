//! A quorum: who leads, and what becomes of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, CreateMode, Error};
use zookeeper_testkit::{
    Backend, Member, Partition, Role, TestEnsemble, TestServer, TestkitError, kill_session,
    random_path,
};

use crate::support::{LIMIT, connect, create};

/// Of ticks for which members are patient: four seconds, which a test that parts them waits out.
const SHORT: &str = "20";
/// Ten seconds: a test that parts them for a moment is not late on a busy machine.
const LONG: &str = "50";

async fn ensemble(patience: &str) -> TestEnsemble {
    let builder = TestEnsemble::builder(3).backend(Backend::Process);
    builder.property("syncLimit", patience).start().await.expect("an ensemble")
}

#[tokio::test]
async fn bad_options_are_refused_before_anything_starts() {
    let error = TestServer::builder().property("a b", "c").start().await.expect_err("a bad key");
    assert!(matches!(error, TestkitError::InvalidOption { .. }), "{error}");
    let external = TestEnsemble::builder(3).backend(Backend::External).start().await;
    let error = external.expect_err("somebody else's");
    assert!(matches!(error, TestkitError::Unsupported { .. }), "{error}");
    let error = TestEnsemble::start(0).await.expect_err("nobody");
    assert!(matches!(error, TestkitError::InvalidOption { .. }), "{error}");
}

#[tokio::test]
async fn leaders_come_and_go() {
    let ensemble = ensemble(SHORT).await;
    let first = ensemble.leader().await.expect("a leader");
    for (number, member) in ensemble.members().iter().enumerate() {
        let expected = if number == first { Role::Leader } else { Role::Follower };
        assert_eq!(role(member).await, expected);
    }

    ensemble.member(first).kill().await.expect("killed");
    let second = ensemble.leader().await.expect("a new leader");
    assert_ne!(second, first);
    ensemble.serving().await.expect("the two others serve");
    ensemble.member(first).role().await.expect_err("it is down");
    ensemble.member(first).start_again().await.expect("it serves again");
    assert_eq!(role(ensemble.member(first)).await, Role::Follower);

    ensemble.member(second).pause().await.expect("paused");
    let third = ensemble.leader().await.expect("a new leader");
    assert_ne!(third, second);
    ensemble.member(second).resume().await.expect("resumed");
    ensemble.serving().await.expect("all three serve");
    assert_eq!(ensemble.leader().await.expect("the same leader"), third);
    assert_eq!(role(ensemble.member(second)).await, Role::Follower);
}

#[tokio::test]
async fn a_member_restarts_with_another_distribution_and_keeps_its_data() {
    let ensemble = ensemble(LONG).await;
    let member = ensemble.member(0);
    let home = Folder::random();
    let error = member.restart_with_distribution(&home.0).await.expect_err("no libraries");
    assert!(error.to_string().contains(&home.0.display().to_string()), "{error}");
    assert!(!uses(member, &home).await, "it runs as before");

    let path = random_path("upgrade");
    create(&connect(ensemble.connect_string()).await, &path, CreateMode::Persistent).await;
    home.link_libraries(&class_path(member).await);
    member.restart_with_distribution(&home.0).await.expect("it serves again");
    assert!(uses(member, &home).await);
    assert!(!uses(ensemble.member(1), &home).await);
    let client = connect(member.connect_string()).await;
    client.sync(&path).await.expect("it catches up");
    assert_eq!(client.get_data(&path).await.expect("the node").0, b"data");
    member.restart().await.expect("it serves again");
    assert!(uses(member, &home).await, "until it is given another");
}

#[tokio::test]
async fn an_isolated_follower_answers_from_what_it_has() {
    let ensemble = ensemble(LONG).await;
    let leader = ensemble.leader().await.expect("a leader");
    let [follower, other] = others(leader);
    let near = connect(ensemble.member(follower).connect_string()).await;
    let far = connect(ensemble.member(other).connect_string()).await;
    let path = random_path("stale");
    create(&near, &path, CreateMode::Persistent).await;
    far.sync(&path).await.expect("the server catches up");

    let fault = ensemble.isolate(follower);
    far.set_data(&path, b"new", None).await.expect("the others are a quorum");
    let (data, _) = near.get_data(&path).await.expect("clients reach it");
    assert_eq!(data, b"data", "what it had");
    let write = random_path("late");
    let late = create(&near, &write, CreateMode::Persistent);
    tokio::pin!(late);
    timeout(Duration::from_millis(500), &mut late).await.expect_err("nobody to agree with");
    assert_eq!(role(ensemble.member(follower)).await, Role::Follower);
    assert_eq!(far.check_stat(&write).await.expect("an answer"), None);

    drop(fault);
    timeout(LIMIT, late).await.expect("it goes through now");
    assert_eq!(ensemble.leader().await.expect("a leader"), leader);
    near.sync(&path).await.expect("it catches up");
    assert_eq!(near.get_data(&path).await.expect("the node").0, b"new");
}

#[tokio::test]
async fn members_and_clients_are_parted_and_the_others_stay() {
    let ensemble = ensemble(SHORT).await;
    let leader = ensemble.leader().await.expect("a leader");
    let [follower, other] = others(leader);
    let client = connect(ensemble.member(other).connect_string()).await;

    // Two followers have nothing to say to each other.
    drop(ensemble.part(follower, other));
    for how in [Partition::Refused, Partition::Silent] {
        let fault = ensemble.part_with(follower, leader, how);
        until(ensemble.member(follower), Role::Looking).await;
        create(&client, &random_path("meanwhile"), CreateMode::Persistent).await;
        assert_eq!(role(ensemble.member(leader)).await, Role::Leader);
        assert_eq!(role(ensemble.member(other)).await, Role::Follower);
        drop(fault);
        ensemble.serving().await.expect("all three serve");
        assert_eq!(ensemble.leader().await.expect("the same leader"), leader);
    }

    let member = ensemble.member(follower);
    let fault = ensemble.cut_from_clients(follower);
    tokio::select! {
        biased;
        _ = connect(member.connect_string()) => panic!("no client reaches it"),
        struck = timeout(LIMIT, fault.struck()) => struck.expect("in time"),
    }
    assert_eq!(role(member).await, Role::Follower, "the others reach it");
    connect(ensemble.connect_string()).await;
    fault.heal();
    connect(member.connect_string()).await;
}

#[tokio::test]
async fn a_session_that_only_a_deposed_leader_has_closed_is_not_taken_for_closed() {
    let ensemble = ensemble(SHORT).await;
    let leader = ensemble.leader().await.expect("a leader");
    let [one, other] = others(leader);
    let connector = Client::connector().with_session_timeout(Duration::from_secs(12));
    let client = connector.connect(ensemble.member(one).connect_string()).await.expect("a client");
    let servers = [leader, one, other].map(|number| ensemble.member(number).connect_string());

    let fault = ensemble.isolate(leader);
    let killed = kill_session(&servers.join(","), client.session()).await;
    let next = another_leader(&ensemble, leader).await;
    // It counted as none while it did not answer in time.
    until(ensemble.member(leader), Role::Looking).await;
    drop(fault);
    ensemble.serving().await.expect("all three serve");
    assert_eq!(role(ensemble.member(leader)).await, Role::Follower);
    assert_eq!(ensemble.leader().await.expect("a leader"), next);

    // To kill it again would not tell: an answer that comes late counts as a cut.
    let connector = Client::connector().with_session(client.session().clone());
    let resumed = connector.connect(ensemble.connect_string()).await;
    match killed {
        Ok(()) => assert!(matches!(resumed, Err(Error::SessionExpired)), "{resumed:?}"),
        // Nobody could say.
        Err(TestkitError::Timeout { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn others(leader: usize) -> [usize; 2] {
    [(leader + 1) % 3, (leader + 2) % 3]
}

async fn role(member: &Member) -> Role {
    member.role().await.expect("an answer")
}

async fn until(member: &Member, expected: Role) {
    let reached = async {
        while role(member).await != expected {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, reached).await.expect("in time");
}

/// Until it gives up, the former one has no other opinion.
async fn another_leader(ensemble: &TestEnsemble, former: usize) -> usize {
    let deposed = async {
        loop {
            match ensemble.leader().await {
                Ok(leader) if leader != former => return leader,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(LIMIT, deposed).await.expect("another leads")
}

/// A folder for a distribution, which is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn random() -> Self {
        let name = random_path("distribution");
        let folder = std::env::temp_dir().join(name.trim_start_matches('/'));
        fs::create_dir(&folder).expect("a new folder");
        Self(folder)
    }

    /// Makes a distribution of the jars of another one.
    fn link_libraries(&self, class_path: &str) {
        let libraries = self.0.join("lib");
        fs::create_dir(&libraries).expect("a new folder");
        for jar in class_path.split(':').map(Path::new) {
            if let Some(name) = jar.file_name().filter(|_| jar.is_file()) {
                symlink(jar, libraries.join(name)).expect("a new link");
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The class path of the running member, as Java has it.
async fn class_path(member: &Member) -> String {
    let environment = member.four_letter_word("envi").await.expect("an answer");
    let line = environment.lines().find_map(|line| line.strip_prefix("java.class.path="));
    line.expect("a class path").to_owned()
}

async fn uses(member: &Member, home: &Folder) -> bool {
    class_path(member).await.contains(&home.0.display().to_string())
}
