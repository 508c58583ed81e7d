//! Bad input gives a clear error of the right enum that names what is wrong, within the deadline.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket};
use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{
    AcquireError, ConfigError, Curator, CuratorBuilder, InterProcessMutex, SessionError,
};

use crate::harness::{Arena, within};
use zookeeper_testkit::TestServer;

const BAD_PATHS: &[&str] = &[
    "",
    "locks",
    "locks/orders",
    "//",
    "/locks//orders",
    "/locks/",
    "/.",
    "/..",
    "/locks/../orders",
    "/locks/./orders",
    "/locks/\0",
    "/locks/\u{1}",
    "/locks/\n",
    "/locks/\u{7f}",
    "/locks/\u{1f600}",
];

#[tokio::test(start_paused = true)]
async fn lock_paths() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for bad in BAD_PATHS {
        match InterProcessMutex::new(&curator, bad) {
            Err(ConfigError::InvalidPath { option: "lock path", path, .. }) => {
                assert_eq!(path, *bad);
            }
            other => panic!("{bad:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces() {
    for bad in BAD_PATHS {
        let refused = Curator::builder().namespace(bad).connect("127.0.0.1:1").await;
        match refused {
            Err(SessionError::Config(ConfigError::InvalidPath {
                option: "namespace",
                path,
                ..
            })) => assert_eq!(path, *bad),
            other => panic!("{bad:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connect_strings() {
    let bad = [
        "",
        " ",
        ",",
        "/chroot",
        ":2181",
        "host:port",
        "host:0",
        "host:65536",
        "host:-1",
        ", ,",
        "a:b",
        "a:b,127.0.0.1:2181",
        "a: 2181",
        "a b:2181",
        "::1",
        "tcp://",
        "a:2181/chroot,b:2181",
        "127.0.0.1:2181/chroot/",
        "127.0.0.1:2181/a//b",
        "127.0.0.1:2181/a/../b",
        "[::1",
    ];
    for bad in bad {
        let refused = within(bad, Curator::connect(bad)).await;
        match refused {
            Err(error @ SessionError::Config(ConfigError::InvalidConnectString { .. })) => {
                assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
            }
            other => panic!("{bad:?}: {other:?}"),
        }
        // It would be tried for ever.
        match Curator::builder().start(bad) {
            Err(error @ ConfigError::InvalidConnectString { .. }) => {
                assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
            }
            other => panic!("{bad:?}: {other:?}"),
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
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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
    async fn blanks_and_empty_elements_of_a_connect_string_are_skipped() {
        let arena = Arena::real().await;
        let server = arena.server.connect_string();
        let chroot = &arena.path;
        let connect_strings = [
            format!("127.0.0.1:1, {server}{chroot}"),
            format!(" ,127.0.0.1:1,, {server},{chroot}"),
            format!("127.0.0.1:1\t,\ttcp://{server} {chroot}"),
        ];
        for connect_string in connect_strings {
            let connecting = arena.patient_builder().connect(&connect_string);
            let curator = within(&connect_string, connecting).await.unwrap();
            let mutex = InterProcessMutex::new(&curator, "/lock").unwrap();
            let guard = within("the lock", mutex.acquire()).await.unwrap();
            assert!(arena.stat(&format!("{chroot}{}", guard.node())).await.is_some());
            guard.release().await.unwrap();
            curator.close().await.unwrap();
        }
    }

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
    async fn servers_that_do_not_serve() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closing = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // Bound, so that nobody else listens there.
        let refusing = TcpSocket::new_v4().unwrap();
        refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let servers = [
            silent.local_addr().unwrap().to_string(),
            closing.local_addr().unwrap().to_string(),
            refusing.local_addr().unwrap().to_string(),
        ];
        let closer = tokio::spawn(async move {
            while let Ok((connection, _)) = closing.accept().await {
                drop(connection);
            }
        });
        let keeper = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut connection, _)) = silent.accept().await {
                let _ = connection.read_u8().await;
                kept.push(connection);
            }
        });
        for server in servers {
            let patience = Duration::from_secs(1);
            let builder = Curator::builder()
                .session_timeout(Duration::from_secs(10))
                .connection_timeout(patience);
            match within(&server, builder.connect(&server)).await {
                Err(SessionError::Unreachable { connect_string, waited, .. }) => {
                    assert_eq!(connect_string, server);
                    assert!(waited >= patience);
                }
                other => panic!("{server}: {other:?}"),
            }
        }
        drop(refusing);
        closer.abort();
        keeper.abort();
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
