//! Bad input gives a clear error of the right enum that names what is wrong, within the deadline.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{
    AcquireError, ConfigError, Curator, CuratorBuilder, InterProcessMutex, SessionError,
};

use crate::harness::{Arena, within};
use zookeeper_testkit::TestServer;

/// What is a bad path is shown beside `lock_path`.
#[tokio::test(start_paused = true)]
async fn lock_paths_and_namespaces() {
    let (_arena, curator) = Arena::with_curator().await;
    for bad in ["", "locks", "/locks/../orders"] {
        let lock = InterProcessMutex::new(&curator, bad).unwrap_err();
        let namespace = Curator::builder().namespace(bad).connect("127.0.0.1:1").await;
        let Err(SessionError::Config(namespace)) = namespace else { panic!("{namespace:?}") };
        for (option, error) in [("lock path", lock), ("namespace", namespace)] {
            match &error {
                ConfigError::InvalidPath { option: named, path, .. } => {
                    assert_eq!((*named, path.as_str()), (option, bad));
                }
                other => panic!("{bad:?}: {other:?}"),
            }
        }
    }
}

/// What is a bad one is shown beside `connect_string`.
#[tokio::test(start_paused = true)]
async fn connect_strings() {
    for bad in ["", "a:b,127.0.0.1:2181", "127.0.0.1:2181/a//b"] {
        let refused = within(bad, Curator::connect(bad)).await;
        let Err(SessionError::Config(connecting)) = refused else { panic!("{bad:?}: {refused:?}") };
        // It would be tried for ever.
        for error in [connecting, Curator::builder().start(bad).unwrap_err()] {
            assert!(matches!(error, ConfigError::InvalidConnectString { .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
    }
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
        match within(option, builder.connect("127.0.0.1:1")).await {
            Err(SessionError::Config(error @ ConfigError::InvalidOption { option: named, .. })) => {
                assert_eq!(named, option, "{error}");
            }
            other => panic!("{option}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn node_data_over_a_mebibyte() {
    let (arena, curator) = Arena::with_curator().await;
    let refused = arena.mutex(&curator).with_identity(vec![0; 1 << 20]);
    match refused {
        Err(error @ ConfigError::InvalidOption { option: "identity", .. }) => {
            assert!(error.to_string().contains(&arena.path), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // The largest that is accepted is one that the server takes.
    let mut size = 1 << 20;
    let mutex = loop {
        match arena.mutex(&curator).with_identity(vec![0; size]) {
            Ok(mutex) => break mutex,
            Err(_) => size -= 1,
        }
    };
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn more_ephemeral_nodes_than_allowed() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().ephemeral_limit(500)).await;
    let mut guards = Vec::new();
    let refused = loop {
        let path = format!("{}/{}", arena.path, guards.len());
        let mutex = InterProcessMutex::new(&curator, &path).unwrap();
        match mutex.acquire().await {
            Ok(guard) => guards.push((mutex, guard)),
            Err(error) => break error,
        }
        assert!(guards.len() < 10, "there is no bound");
    };
    match &refused {
        AcquireError::TooManyContenders { path, in_use, limit: 500, .. } => {
            assert!(path.starts_with(&arena.path) && *in_use > 0 && *in_use <= 500);
        }
        other => panic!("{other:?}"),
    }
    assert!(refused.to_string().contains("ephemeral_limit"));
    assert!(guards.iter().all(|(_, guard)| guard.is_held()));
    // Room comes back with a release.
    let (mutex, guard) = guards.pop().unwrap();
    guard.release().await.unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
}

mod real {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connector_that_resumes_a_session_is_refused() {
        let arena = Arena::real().await;
        let connector = Client::connector().with_session(arena.client().await.session().clone());
        let refused =
            arena.builder().connector(connector).connect(arena.server.connect_string()).await;
        assert!(
            matches!(
                refused,
                Err(SessionError::Config(ConfigError::InvalidOption { option: "connector", .. }))
            ),
            "{refused:?}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn credentials_that_the_server_cannot_check() {
        let server = TestServer::start().await.unwrap();
        let builder = Curator::builder().auth("nosuchscheme", b"user:password");
        match within("the error", builder.connect(server.connect_string())).await {
            Err(SessionError::AuthFailed { connect_string, .. }) => {
                assert_eq!(connect_string, server.connect_string());
            }
            other => panic!("{other:?}"),
        }
    }
}
