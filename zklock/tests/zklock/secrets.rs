//! Credentials and certificates.

use zookeeper_testkit::TestServer;

use crate::support::scene::{Scene, skipped};

const SECRET: &str = "Q7dIgEsTq7";

/// Not by what is said, whatever goes wrong; not by the arguments of any process. (The command inherits the environment.)
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_told() {
    let scene = Scene::new().await;
    let good = format!("digest:ours:{SECRET}");
    let file = scene.file("auth", format!("{good}\n"));
    let mut told = Vec::new();
    for auth in ["", ":", "no-scheme ", "nosuchscheme:", "\u{1b}:", "digest:ours:"] {
        let auth = format!("{auth}{SECRET}");
        let wrong = scene.file("wrong", format!("{auth}\n"));
        for command in ["run", "ls", "observe", "revoke", "elect"] {
            for (name, value) in
                [("ZKLOCK_AUTH", auth.as_ref()), ("ZKLOCK_AUTH_FILE", wrong.as_os_str())]
            {
                // Nobody there to take them: it says why, as much as it can.
                let tool = scene.zklock([command, &scene.path, "-v", "--server", "127.0.0.1:1"]);
                let tool = tool.args(["--connection-timeout", "100ms"]).env(name, value);
                let tool = tool.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
                let tool = if command == "run" { tool.args(["--", "true"]) } else { tool };
                let ended = tool.ended().await;
                assert!([Some(64), Some(69)].contains(&ended.code()), "{auth}: {ended}");
                told.push(ended.to_string());
            }
        }
        // And somebody there.
        let tool = scene.run_with(["-v"], "true").env("ZKLOCK_AUTH", auth).env("RUST_LOG", "trace");
        told.push(tool.ended().await.to_string());
    }
    for arguments in [&["--help"][..], &["run", "--help"], &["man"]] {
        told.push(scene.zklock(arguments).env("ZKLOCK_AUTH", &good).ended().await.to_string());
    }
    let script = r#"for p in $PPID $(cut -d' ' -f4 /proc/$PPID/stat); do tr '\0' ' ' < /proc/$p/cmdline; echo; done"#;
    let ended = scene.run(script).env("ZKLOCK_AUTH_FILE", &file).ended().await;
    ended.quietly(0);
    assert!(ended.text().contains("zklock"), "{ended}");
    told.push(ended.to_string());
    for told in told {
        assert!(!told.contains(SECRET), "{told}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn tls_by_files() {
    let server = match TestServer::builder().mutual_tls().start().await {
        Ok(server) => server,
        Err(error) => return skipped(&format!("no server with TLS, {error}")),
    };
    let tls = server.client_tls().unwrap().clone();
    let secure = server.connect_string().to_owned();
    let scene = Scene::on(server).await;
    for (name, text) in [("ca", &tls.ca), ("cert", &tls.certificate), ("key", &tls.key)] {
        scene.file(name, text);
    }
    let config =
        scene.file("tls.toml", "tls-ca = \"ca\"\ntls-cert = \"cert\"\ntls-key = \"key\"\n");
    let address = secure.trim_start_matches("tcp+tls://");
    let files = ["--tls-ca", "ca", "--tls-cert", "cert", "--tls-key", "key"];
    let by_files = scene.zklock(["--server", &secure]).args(files);
    by_files.args(["run", &scene.path, "-c", "exit 3"]).ended().await.quietly(3);
    let without = scene.zklock(["--server", address, "--connection-timeout", "3s"]);
    without.args(["run", &scene.path, "-c", "exit 3"]).ended().await.one_line(69, &[]);
    // Files of the configuration are seen from where that is; and the same by variables.
    let run = || scene.run("exit 3").env("ZKLOCK_SERVER", address);
    run().env("ZKLOCK_CONFIG", &config).ended().await.quietly(3);
    let tool = run().env("ZKLOCK_TLS_CA", "ca").env("ZKLOCK_TLS_CERT", "cert");
    tool.env("ZKLOCK_TLS_KEY", "key").ended().await.quietly(3);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn a_user_of_sasl_has_a_lock_of_its_own() {
    let scene =
        Scene::on(TestServer::builder().sasl_user("batch", SECRET).start().await.unwrap()).await;
    let good = format!("sasl:batch:{SECRET}");
    let rows = [(Some(&*good), 3), (None, 69), (Some("sasl:batch:other"), 69)];
    for (auth, code) in rows {
        let tool = scene.zklock(["run", "/ours", "--acl", "sasl:batch:cdrwa", "-c", "exit 3"]);
        let tool = tool.args(["--connection-timeout", "3s"]);
        let tool = if let Some(auth) = auth { tool.env("ZKLOCK_AUTH", auth) } else { tool };
        let ended = tool.ended().await;
        assert_eq!(ended.code(), Some(code), "{auth:?}: {ended}");
        assert!(!ended.stderr.contains(SECRET), "{ended}");
    }
    scene.end().await;
}
