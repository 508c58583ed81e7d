//! Bad input gives a clear error that names what is wrong, within the deadline.

use zookeeper_recipes::zookeeper_client::Client;

use crate::prelude::*;

/// Which option is wrong.
#[track_caller]
fn wrong<T: std::fmt::Debug>(outcome: Result<T, zookeeper_recipes::Error>) -> &'static str {
    fails(outcome, ErrorKind::InvalidInput).option().expect("an option")
}

/// What is a bad path is shown beside `lock_path`, and what is a bad connect string beside `connect_string`.
#[tokio::test(start_paused = true)]
async fn paths_namespaces_and_connect_strings() {
    let (_testbed, curator) = Testbed::with_curator().await;
    for bad in ["", "locks", "/locks/../orders"] {
        assert_eq!(wrong(curator.mutex(bad)), "lock path");
        assert_eq!(wrong(curator.semaphore(bad, 1)), "lock path");
        assert_eq!(wrong(curator.leader_latch(bad)), "lock path");
        let namespace = Curator::builder().namespace(bad).connect("127.0.0.1:1").await;
        let text = namespace.as_ref().unwrap_err().to_string();
        assert!(text.contains(&format!("{bad:?}")), "{text}");
        assert_eq!(wrong(namespace), "namespace");
    }
    for bad in ["", "a:b,127.0.0.1:2181", "127.0.0.1:2181/a//b"] {
        // It would be tried for ever.
        for refused in [Curator::connect(bad).await, Curator::builder().connect_lazy(bad)] {
            let text = refused.as_ref().unwrap_err().to_string();
            assert!(text.contains(&format!("{bad:?}")), "{text}");
            assert_eq!(wrong(refused), "connect string");
        }
    }
}

/// An id is one segment, whatever it is; ids that differ give locks that do.
#[tokio::test(start_paused = true)]
async fn any_id_names_a_lock_of_its_own() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mut guards = Vec::new();
    for id in ["a/b", "a%2Fb", "a", "..", ".", "zookeeper", "\0", "locks", "lease 7", "ä/", "%"] {
        let mutex = curator.mutex_for(&testbed.path, id).unwrap();
        let name = mutex.path().strip_prefix(&format!("{}/", testbed.path)).unwrap();
        assert!(!name.contains('/'), "{id:?}: {name}");
        guards.push(within(id, mutex.acquire()).await.unwrap());
    }
    assert_eq!(testbed.children().await.len(), guards.len());
    assert_eq!(
        curator.mutex_for(format!("{}/", testbed.path), 7).unwrap().path(),
        testbed.path.clone() + "/7"
    );
    assert_eq!(wrong(curator.mutex_for(&testbed.path, "")), "id");
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn options() {
    let day = Duration::from_secs(24 * 60 * 60);
    let connector = Client::connector;
    let table: Vec<(&str, CuratorBuilder)> = vec![
        ("session_timeout", Curator::builder().session_timeout(Duration::ZERO)),
        ("session_timeout", Curator::builder().session_timeout(Duration::from_millis(99))),
        ("session_timeout", Curator::builder().session_timeout(day * 2)),
        ("session_timeout", Curator::builder().session_timeout(Duration::MAX)),
        ("connection_timeout", Curator::builder().connection_timeout(Duration::ZERO)),
        ("connection_timeout", Curator::builder().connection_timeout(Duration::MAX)),
        ("acls", Curator::builder().acls([].as_slice().into())),
        ("auth", Curator::builder().auth("", b"user:password")),
        ("identity", Curator::builder().identity(vec![b'x'; 1 << 20])),
        ("connector", Curator::builder().connector(connector().with_readonly(true))),
        ("connector", Curator::builder().connector(connector().with_detached())),
    ];
    for (option, builder) in table {
        assert_eq!(wrong(within(option, builder.connect("127.0.0.1:1")).await), option);
    }
}

/// What is wrong with the options of a handle is an error of what is made with it.
#[tokio::test(start_paused = true)]
async fn options_of_a_handle() {
    let (testbed, curator) = Testbed::with_curator().await;
    assert_eq!(wrong(curator.with_acls(Acls::new(&[])).mutex(&testbed.path)), "acls");
    let mutex = |size| curator.with_identity(vec![0; size]).mutex(&testbed.path);
    let error = mutex(1 << 20).unwrap_err();
    assert!(error.to_string().contains(&testbed.path), "{error}");
    assert_eq!(wrong(Err::<(), _>(error)), "identity");
    let retaining = |retention| curator.mutex(&testbed.path).unwrap().with_retention(retention);
    let two = [retaining(Duration::MAX), retaining(SHORT).with_node_per_hold()];
    for mutex in two {
        assert_eq!(wrong(mutex.acquire().await), "retention");
    }
    // The largest that is accepted is one that the server takes.
    let mutex = (0..1 << 20).rev().find_map(|size| mutex(size).ok()).unwrap();
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn more_ephemeral_nodes_than_allowed() {
    let testbed = Testbed::new().await;
    let curator = testbed.connect(testbed.builder().ephemeral_limit(500)).await;
    let mut guards = Vec::new();
    let refused = loop {
        let mutex = curator.mutex_for(&testbed.path, guards.len()).unwrap();
        match mutex.acquire().await {
            Ok(guard) => guards.push((mutex, guard)),
            refused => break fails(refused, ErrorKind::LimitReached),
        }
        assert!(guards.len() < 10, "there is no bound");
    };
    assert!(refused.is_transient() && refused.path().unwrap().starts_with(&testbed.path));
    let node =
        format!("{}/0/_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-lock-0000000000", testbed.path);
    let in_use = format!("(ephemeral_limit), {} are in use", guards.len() * node.len());
    assert!(refused.to_string().contains(&in_use), "{refused}");
    assert!(guards.iter().all(|(_, guard)| guard.is_held()));
    // Room comes back with a release.
    let (mutex, guard) = guards.pop().unwrap();
    guard.release().await.unwrap();
    let guard = mutex.acquire().await.unwrap();
    // And also for a caller that waits for it, behind another process.
    let theirs = testbed.curator().await.mutex_for(&testbed.path, guards.len()).unwrap();
    let stranger = theirs.clone();
    let stranger = tokio::spawn(async move { stranger.acquire().await });
    eventually("their node", async || theirs.participants().await.unwrap().len() == 2).await;
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    round_trip(&curator).await;
    guard.release().await.unwrap();
    held(stranger).await.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
}

mod real {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connector_that_resumes_a_session_is_refused() {
        let testbed = Testbed::real().await;
        let connector = Client::connector().with_session(testbed.client().await.session().clone());
        let builder = testbed.builder().connector(connector);
        assert_eq!(wrong(builder.connect(testbed.server.connect_string()).await), "connector");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn credentials_that_the_server_cannot_check() {
        let server = TestServer::start().await.unwrap();
        let builder = Curator::builder().auth("nosuchscheme", b"user:password");
        let connected = within("the error", builder.connect(server.connect_string())).await;
        let text = fails(connected, ErrorKind::AuthenticationFailed).to_string();
        assert!(text.contains(server.connect_string()), "{text}");
    }
}
