//! Credentials and certificates.

use zookeeper_testkit::TestServer;

use crate::scene::{Scene, skipped};

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
    let (secure, plain) =
        (server.connect_string().to_owned(), server.plain_connect_string().to_owned());
    let scene = Scene::on(server).await;
    let ca = scene.file("ca.pem", &tls.ca);
    let (cert, key) = (scene.file("cert.pem", &tls.certificate), scene.file("key.pem", &tls.key));
    let address = secure.trim_start_matches("tcp+tls://").to_owned();
    let run = || scene.run("exit 3").env("ZKLOCK_CONNECTION_TIMEOUT", "60s");
    let in_vain = || scene.run("exit 3").env("ZKLOCK_CONNECTION_TIMEOUT", "3s");
    // With `--tls-ca` every server is spoken to by TLS.
    for server in [&secure, &address] {
        let tool = run().env("ZKLOCK_SERVER", server).env("ZKLOCK_TLS_CA", &ca);
        tool.env("ZKLOCK_TLS_CERT", &cert).env("ZKLOCK_TLS_KEY", &key).ended().await.quietly(3);
    }
    // Files of the configuration are seen from where that is.
    let text = "tls-ca = \"ca.pem\"\ntls-cert = \"cert.pem\"\ntls-key = \"key.pem\"\n";
    let config = scene.file("tls.toml", text);
    let tool = run().env("ZKLOCK_SERVER", &address).env("ZKLOCK_CONFIG", &config);
    tool.ended().await.quietly(3);
    // Without our certificate, without TLS, by TLS to who does not speak it.
    let tool = in_vain().env("ZKLOCK_SERVER", &address).env("ZKLOCK_TLS_CA", &ca);
    tool.ended().await.one_line(69, &[]);
    in_vain().env("ZKLOCK_SERVER", &address).ended().await.one_line(69, &[]);
    let tool = in_vain().env("ZKLOCK_SERVER", &plain).env("ZKLOCK_TLS_CA", &ca);
    let tool = tool.env("ZKLOCK_TLS_CERT", &cert).env("ZKLOCK_TLS_KEY", &key);
    tool.ended().await.one_line(69, &[]);
    // What is no certificate is said with its file.
    let tool = run().env("ZKLOCK_SERVER", &address).env("ZKLOCK_TLS_CA", &config);
    tool.ended().await.one_line(64, &["tls.toml"]);
    let tool = run().env("ZKLOCK_SERVER", &address).env("ZKLOCK_TLS_CA", &ca);
    let tool = tool.env("ZKLOCK_TLS_CERT", &key).env("ZKLOCK_TLS_KEY", &cert);
    let ended = tool.ended().await;
    ended.one_line(64, &[]);
    assert!(!ended.stderr.contains(tls.key.lines().nth(1).unwrap()), "{ended}");
    scene.end().await;
}
