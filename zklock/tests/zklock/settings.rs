//! Where the settings come from, and what is told of them.

use std::fs;

use zookeeper_recipes::zookeeper_client::Acls;
use zookeeper_recipes::{Curator, InterProcessMutex};
use zookeeper_testkit::{TestServer, random_path};

use crate::harness::within;
use crate::peers;
use crate::scene::Scene;
use crate::tool::Tool;

const SECRET: &str = "Q7dIgEsTq7";

type With = fn(Tool) -> Tool;

/// The identity is what another can see: by flag, environment, file, default.
#[tokio::test(flavor = "multi_thread")]
async fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let scene = Scene::new().await;
    let named = scene.file("named.toml", "id = \"named\"\n");
    let own = scene.folder.join("config");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("zklock.toml"), "id = \"own\"\n").unwrap();
    let home = scene.folder.join("home/.config");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("zklock.toml"), "id = \"home\"\n").unwrap();
    let look = r#""$ZKLOCK" --id looks ls "$ZK_LOCK_PATH" --json"#;
    let rows: [(&str, With); 6] = [
        ("flag", |tool| tool.env("ZKLOCK_ID", "environment")),
        ("environment", |tool| tool.env("ZKLOCK_ID", "environment")),
        ("named", |tool| tool),
        ("named", |tool| tool),
        ("own", |tool| tool),
        ("home", |tool| tool.without("XDG_CONFIG_HOME")),
    ];
    for (row, (expected, with)) in rows.into_iter().enumerate() {
        let tool = with(scene.zklock(["run", &scene.path]));
        let tool = if expected == "flag" { tool.args(["--id", "flag"]) } else { tool };
        let tool = match row {
            0..=2 => tool.arg("--config").arg(&named),
            3 => tool.env("ZKLOCK_CONFIG", &named),
            _ => tool,
        };
        let ended = tool.args(["-c", look]).ended().await;
        ended.quietly(0);
        let all: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(all[0]["identity"], expected, "{ended}");
    }
    scene.end().await;
}

/// A file can say all of it, and options may stand on either side of the command's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_says_all_that_the_flags_do() {
    let scene = Scene::new().await;
    let auth = scene.file("auth", format!("# ours\ndigest:ours:{SECRET}\n"));
    let text = format!(
        "server = \"{}\"\nnamespace = \"{}\"\nsession-timeout = \"7s\"\nconnection-timeout = 5\nid = \"file\"\nauth-file = \"{}\"\n",
        scene.server.connect_string(),
        scene.path,
        auth.display(),
    );
    let config = scene.file("all.toml", text).display().to_string();
    let bare = |all: &[&str]| {
        let tool = scene.zklock(all).without("ZKLOCK_SERVER");
        tool.without("ZKLOCK_SESSION_TIMEOUT")
    };
    let script = "echo $ZK_LOCK_NODE";
    for all in [
        ["--config", &config, "run", "/lock", "-c", script],
        ["run", "/lock", "--config", &config, "-c", script],
    ] {
        let ended = bare(&all).ended().await;
        ended.quietly(0);
        assert!(ended.text().starts_with("/lock/_c_"), "{ended}");
        assert!(scene.stat(&format!("{}/lock", scene.path)).await.is_some());
    }
    scene.end().await;
}

/// A folder that is another user's, as of a `HOME` that `su` or `sudo` kept. (Root may read all of them: a folder in place of the file.)
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_ours_that_cannot_be_read_is_left_out() {
    let scene = Scene::new().await;
    fs::create_dir_all(scene.folder.join("config/zklock.toml")).unwrap();
    scene.run("exit 3").ended().await.quietly(3);
    let ended = scene.run_with(["-v"], "exit 3").ended().await;
    assert_eq!(ended.code(), Some(3), "{ended}");
    assert!(ended.stderr.contains("config/zklock.toml"), "{ended}");
    // It may have named the servers, and nothing else does.
    let ended = scene.run("exit 3").without("ZKLOCK_SERVER").ended().await;
    ended.one_line(64, &["cannot read ", "config/zklock.toml", "server"]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_wrong_is_64_and_named() {
    let scene = Scene::new().await;
    for (text, said) in [
        ("servers = \"a\"\n", "servers"),
        ("server = 7\n", "server"),
        ("id = \"x\"\n\nsession-timeout = \"soon\"\n", "session-timeout"),
        ("session-timeout = true\n", "session-timeout"),
        ("server = \"a\n", "wrong.toml:1"),
        ("id = \"\"\n", "id"),
        ("[connection]\nid = \"x\"\n", "connection"),
        ("tls-cert = \"x\"\n", "tls-cert"),
    ] {
        let file = scene.file("wrong.toml", text).display().to_string();
        let tool = scene.zklock(["--config", &file, "run", &scene.path, "-c", "true"]);
        let ended = tool.without("ZKLOCK_SESSION_TIMEOUT").ended().await;
        ended.one_line(64, &[&file, said]);
    }
    let file = scene.file("bytes.toml", b"id = \"\xff\"\n").display().to_string();
    let tool = scene.zklock(["--config", &file, "run", &scene.path, "-c", "true"]);
    tool.ended().await.one_line(64, &[&file]);
    // Of a variable and of an option the name is said.
    let tool = scene.run("true").env("ZKLOCK_CONFIG", "/no/such/file");
    tool.ended().await.one_line(64, &["ZKLOCK_CONFIG", "/no/such/file"]);
    let tool = scene.run("true").env("ZKLOCK_AUTH_FILE", "/no/such/file");
    tool.ended().await.one_line(64, &["ZKLOCK_AUTH_FILE", "/no/such/file"]);
    let tool = scene.run("true").env("ZKLOCK_NAMESPACE", "a//b");
    tool.ended().await.one_line(64, &["ZKLOCK_NAMESPACE"]);
    let ended = scene.run("true").env("ZKLOCK_SESSION_TIMEOUT", "soon").ended().await;
    assert!(ended.code() == Some(64) && ended.stderr.contains("SESSION_TIMEOUT"), "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_a_file_or_the_environment() {
    let scene = Scene::new().await;
    // A lock path that only we may use.
    let credentials = format!("ours:{SECRET}");
    let owner = Curator::builder().auth("digest", credentials.as_bytes()).acls(Acls::creator_all());
    let owner = scene.connect(owner).await;
    let private = random_path("private");
    let mutex = InterProcessMutex::new(&owner, &private).unwrap();
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    let run = || scene.zklock(["run", &private, "--", "sh", "-c", "exit 3"]);
    run().ended().await.one_line(69, &[&private]);
    let line = format!("digest:{credentials}");
    run().env("ZKLOCK_AUTH", &line).ended().await.quietly(3);
    let file = scene.file("auth", format!("# a comment\n\n{line}\n"));
    run().env("ZKLOCK_AUTH_FILE", &file).ended().await.quietly(3);
    let tool = scene.zklock(["--auth-file"]).arg(&file).args(["run", &private, "-c", "exit 3"]);
    tool.ended().await.quietly(3);
    // Others' are none.
    run().env("ZKLOCK_AUTH", "digest:ours:other").ended().await.one_line(69, &[&private]);
    scene.end().await;
}

/// Not by what is said, whatever goes wrong; not by the arguments of any process. (The command inherits the environment.)
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_told() {
    let scene = Scene::new().await;
    let good = format!("digest:ours:{SECRET}");
    let file = scene.file("auth", format!("{good}\n"));
    let nonsense = [
        SECRET.to_owned(),
        format!(":{SECRET}"),
        format!("no-scheme {SECRET}"),
        format!("nosuchscheme:{SECRET}"),
        format!("\u{1b}:{SECRET}"),
    ];
    let mut told = Vec::new();
    for auth in nonsense.iter().chain([&good]) {
        for command in [&["run"][..], &["ls"], &["observe"], &["revoke"], &["elect"]] {
            let wrong = scene.file("wrong", format!("{auth}\n"));
            let tools = [
                scene.zklock(command).env("ZKLOCK_AUTH", auth),
                scene.zklock(command).env("ZKLOCK_AUTH_FILE", &wrong),
            ];
            for tool in tools {
                // Nobody there to take them: it says why, as much as it can.
                let tool = tool.args([&scene.path, "-v", "--server", "127.0.0.1:1"]);
                let tool = tool.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
                let tool = tool.args(["--connection-timeout", "100ms"]);
                let tool = if command == ["run"] { tool.args(["--", "true"]) } else { tool };
                let ended = tool.ended().await;
                assert!([Some(64), Some(69)].contains(&ended.code()), "{auth}: {ended}");
                told.push(ended.to_string());
            }
        }
        // And somebody there.
        let tool = scene.run_with(["-v"], "true").env("ZKLOCK_AUTH", auth).env("RUST_LOG", "trace");
        told.push(tool.ended().await.to_string());
    }
    for arguments in [&["--help"][..], &["-h"], &["run", "--help"], &["man"]] {
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
async fn tls_by_files() {
    let server = match TestServer::builder().mutual_tls().start().await {
        Ok(server) => server,
        Err(error) => return peers::skipped(&format!("no server with TLS, {error}")),
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

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_is_where_all_paths_are() {
    let scene = Scene::new().await;
    let server = format!("{}{}", scene.server.connect_string(), scene.path);
    let tool = scene.zklock(["run", "/lock", "-c", "echo $ZK_LOCK_PATH"]);
    let ended = tool.env("ZKLOCK_SERVER", &server).ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "/lock\n");
    assert!(scene.stat(&format!("{}/lock", scene.path)).await.is_some());
    scene.end().await;
}
