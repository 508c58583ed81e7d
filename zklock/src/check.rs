//! `zklock check`.

use std::time::Duration;

use futures_util::future::join_all;
use zookeeper_recipes::Curator;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Error};

use crate::arguments::Check;
use crate::connection::{accepts, connect, separately};
use crate::exit::{Failure, Outcome};
use crate::output::print;
use crate::settings::Settings;
use crate::text;

/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn check(arguments: &Check, settings: &Settings) -> Outcome {
    let servers = separately(&settings.server);
    let sessions = join_all(servers.iter().map(|server| session(settings, server))).await;
    let (mut lines, mut curators) = (Vec::new(), Vec::new());
    for session in sessions {
        lines.push(session.map(|(line, curator)| {
            curators.push(curator);
            line
        }));
    }
    if let Some(curator) = curators.first() {
        // Connecting has made it.
        lines.push(Ok(format!("namespace {} exists", settings.namespace)));
        if let Some(path) = &arguments.path {
            contend(curator, settings, path, &mut lines).await;
        }
    }
    join_all(curators.iter().map(Curator::close)).await;
    let code = lines.iter().find_map(|line| line.as_ref().err()).map_or(0, Failure::code);
    let text: String = lines.iter().map(shown).collect();
    print(&text).map_or_else(|outcome| outcome, |()| Ok(code))
}

fn shown(line: &Result<String, Failure>) -> String {
    let (result, said) = match line {
        Ok(said) => ("ok  ", said.clone()),
        Err(failure) => ("FAIL", failure.to_string()),
    };
    format!("{result}  {}\n", text::visible(said.as_bytes()))
}

/// A session of this server alone.
async fn session(settings: &Settings, server: &str) -> Result<(String, Curator), Failure> {
    accepts(server, PATIENCE).await.map_err(|does| {
        Failure::unavailable(format!("{server} {does}: start it, or correct --server"))
    })?;
    let alone = Settings { server: server.to_owned(), ..settings.clone() };
    let curator = connect(&alone).await?;
    let (asked, granted) = (settings.session_timeout, curator.session_timeout()?);
    let of = if granted == asked { String::new() } else { format!(", not {asked:?}") };
    Ok((format!("{server} granted a session with a timeout of {granted:?}{of}"), curator))
}

/// Creates a node under the path, as a contender does, and deletes it. No contender takes the node for one of them.
async fn contend(
    curator: &Curator,
    settings: &Settings,
    path: &str,
    lines: &mut Vec<Result<String, Failure>>,
) {
    let node = format!("{}/zklock-check-{}", path.trim_end_matches('/'), uuid::Uuid::new_v4());
    let acls = match settings.acls.as_slice() {
        [] => Acls::anyone_all(),
        acls => Acls::new(acls),
    };
    let tried = async {
        let _ = curator.mutex(path)?; // refuses a path that no lock can have
        let client = curator.client()?;
        let failed = |what: &str, path: &str, error: Error| {
            let (path, advice) = (path.to_owned(), advice(&error));
            Failure::unavailable(format!("cannot {what} {path}: {error}; {advice}"))
        };
        if client.check_stat(path).await.map_err(|error| failed("read", path, error))?.is_none() {
            let made = client.mkdir(path, &CreateMode::Container.with_acls(acls)).await;
            made.map_err(|error| failed("create", path, error))?;
        }
        lines.push(Ok(format!("{path} exists")));
        let made = client.create(&node, b"", &CreateMode::Ephemeral.with_acls(acls)).await;
        made.map_err(|error| failed("create a znode under", path, error))?;
        let deleted = client.delete(&node, None).await;
        deleted.map_err(|error| failed("delete a znode under", path, error))?;
        Ok(format!("a contender's znode can be created and deleted under {path}"))
    };
    let line = tried.await;
    lines.push(line);
}

fn advice(error: &Error) -> &'static str {
    match error {
        Error::NoAuth => "give credentials that may (--auth-file), or change its ACL",
        Error::InvalidAcl => "correct --acl",
        Error::NoChildrenForEphemerals => "it is ephemeral, choose another path",
        Error::QuotaExceeded => "raise the quota",
        _ => "try again, and look into the servers' log",
    }
}
