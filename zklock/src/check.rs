//! `zklock check`.

use std::time::Duration;

use futures_util::future::join_all;
use zookeeper_recipes::Curator;
use zookeeper_recipes::zookeeper_client::MultiWriteError::{OperationFailed, RequestFailed};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::arguments::Check;
use crate::connection::{FAREWELL, check_options, connect, goodbye, short_session};
use crate::diagnosis::{accepts, separately};
use crate::exit::{Failure, Outcome};
use crate::output::print;
use crate::settings::Settings;
use crate::text;

/// Time limit for a server to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn check(arguments: &Check, settings: &Settings) -> Outcome {
    check_options(settings)?;
    let (servers, chroot) = separately(&settings.server);
    let sessions = join_all(servers.iter().map(|server| session(settings, server))).await;
    let mut lines = Vec::new();
    let mut curators = Vec::new();
    for (server, session) in servers.into_iter().zip(sessions) {
        lines.push(session.and_then(|(line, curator)| {
            curators.push((server, curator));
            line
        }));
    }
    if let Some((server, curator)) = curators.first() {
        let namespace = &*settings.namespace;
        let path = arguments.path.as_deref();
        let root = [chroot, namespace].map(|root| root.trim_end_matches('/'));
        let checked = async {
            let roots = root.into_iter().filter(|root| !root.is_empty());
            for path in roots.chain(path) {
                let _ = curator.mutex(path)?; // rejects an invalid path
            }
            let contended =
                contend(&curator.client()?, settings, &root.concat(), path, &mut lines).await;
            contended.map_err(|failure| named(settings, server, failure))
        };
        let checked = checked.await;
        lines.extend(checked.err().map(Err));
    }
    join_all(curators.into_iter().map(|(_, curator)| goodbye(curator, FAREWELL, None))).await;
    let code = lines.iter().find_map(|line| line.as_ref().err()).map_or(0, Failure::code);
    let text: String = lines.iter().map(shown).collect();
    print(&text).map(|_| code)
}

fn shown(line: &Result<String, Failure>) -> String {
    let (result, said) = match line {
        Ok(said) => ("ok  ", said.clone()),
        Err(failure) => ("FAIL", failure.to_string()),
    };
    format!("{result}  {}\n", text::visible(said.as_bytes()))
}

/// Opens a session with this server alone, without the chroot and the namespace, which connecting would create.
async fn session(
    settings: &Settings,
    server: &str,
) -> Result<(Result<String, Failure>, Curator), Failure> {
    accepts(server, None, PATIENCE).await.map_err(|does| {
        Failure::unavailable(format!("{server} {does}: start it, or correct --server"))
    })?;
    if settings.tls.is_some() {
        // Without this, a refused handshake is reported after the connection timeout.
        let accepted = accepts(server, settings.tls.as_ref(), PATIENCE).await;
        accepted.map_err(|does| Failure::unavailable(format!("{server} {does}")))?;
    }
    let namespace = "/".to_owned();
    let alone = Settings { server: server.to_owned(), namespace, ..settings.clone() };
    let connected = connect(&alone, None).await;
    let curator = connected.map_err(|failure| named(settings, server, failure))?;
    let asked = settings.session_timeout;
    let granted = curator.session_timeout()?;
    let shown = humantime::format_duration(granted);
    let line = match short_session(granted, asked) {
        Some(short) => Err(Failure::unavailable(format!("{server}: {short}"))),
        None => Ok(format!("{server} granted a session with a timeout of {shown}")),
    };
    Ok((line, curator))
}

/// Adds the server, and the credentials that it got.
fn named(settings: &Settings, server: &str, failure: Failure) -> Failure {
    let failure = failure.with_credentials(&settings.credentials_sent());
    Failure::new(failure.code(), format!("{server}: {failure}"))
}

/// Creates the missing znodes down to the path, then a contender's znode, and deletes that again, all in one
/// transaction: if a step is refused, nothing is left behind. Contenders ignore this znode. The error names the step
/// that failed.
async fn contend(
    client: &Client,
    settings: &Settings,
    root: &str,
    path: Option<&str>,
    lines: &mut Vec<Result<String, Failure>>,
) -> Result<(), Failure> {
    let before = lines.len();
    let acls = match settings.acls.as_slice() {
        [] => Acls::anyone_all(),
        acls => Acls::new(acls),
    };
    let shown = path.unwrap_or_default();
    let full = format!("{root}{}", shown.trim_end_matches('/'));
    let node = format!("{full}/zklock-check-{}", uuid::Uuid::new_v4());
    let parent = if full.is_empty() { "/" } else { &full };
    let missing = missing_above(client, &node).await?;
    let named = [Some((root, format!("namespace {} exists", settings.namespace)))];
    let named = named.into_iter().chain([path.map(|path| (&*full, format!("{path} exists")))]);
    let (made, there): (Vec<_>, Vec<_>) =
        named.flatten().partition(|(znode, _)| missing.contains(znode));
    lines.extend(there.into_iter().map(|(_, line)| Ok(line)));
    let list = async || {
        let listed =
            if path.is_some() { client.list_children(parent).await } else { Ok(Vec::new()) };
        listed.map_err(|error| cannot("list", shown, error))
    };
    if missing.is_empty() {
        list().await?;
    }
    let mut steps: Vec<_> = missing.iter().map(|level| ("create", *level)).collect();
    let mut writer = client.new_multi_writer();
    for level in &missing {
        let added = writer.add_create(level, b"", &CreateMode::Container.with_acls(acls));
        added.map_err(|error| cannot("create", level, error))?;
    }
    if path.is_some() {
        steps.extend([("create a znode under", shown), ("delete a znode under", shown)]);
        let added = writer.add_create(&node, b"", &CreateMode::Ephemeral.with_acls(acls));
        let added = added.and_then(|()| writer.add_delete(&node, None));
        added.map_err(|error| cannot("create", &node, error))?;
    }
    let failed = |index: usize, error| {
        let (what, path) = steps[index];
        cannot(what, path, error)
    };
    match writer.commit().await {
        Ok(_) => {}
        // Another client has created or deleted a znode above ours meanwhile.
        Err(OperationFailed { source: Error::NodeExists | Error::NoNode, .. }) => {
            lines.truncate(before);
            return Box::pin(contend(client, settings, root, path, lines)).await;
        }
        Err(OperationFailed { index, source }) => return Err(failed(index, source)),
        Err(RequestFailed { source }) => return Err(failed(0, source)),
    }
    if let Err(why) = list().await {
        for level in missing.iter().rev() {
            let _ = client.delete(level, None).await; // its parent may forbid it
        }
        return Err(why);
    }
    lines.extend(made.into_iter().map(|(_, line)| Ok(line)));
    if path.is_some() {
        let done = format!("a contender's znode can be created and deleted under {shown}");
        lines.push(Ok(done));
    }
    Ok(())
}

/// Returns the missing znodes above `node`, from the top.
async fn missing_above<'a>(client: &Client, node: &'a str) -> Result<Vec<&'a str>, Failure> {
    let mut missing = Vec::new();
    for level in node.match_indices('/').skip(1).map(|(at, _)| &node[..at]) {
        match client.check_stat(level).await {
            Ok(None) => missing.push(level),
            // Servers from 3.8.4 and 3.9.2 on say so of a znode that exists and may not be read.
            Ok(Some(_)) | Err(Error::NoAuth) => {}
            Err(error) => return Err(cannot("read", level, error)),
        }
    }
    Ok(missing)
}

/// The failure of a step that a server refused.
fn cannot(what: &str, path: &str, error: Error) -> Failure {
    let why = format!("cannot {what} {path}: {error}");
    match error {
        Error::NoAuth => Failure::unpermitted(why),
        Error::NoChildrenForEphemerals => {
            Failure::unavailable(format!("{why}; choose another path"))
        }
        _ => Failure::unavailable(why),
    }
}
