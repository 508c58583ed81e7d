//! `zklock break`.

use std::io::{IsTerminal, Write, stderr, stdin};

use zookeeper_recipes::zookeeper_client::Error;
use zookeeper_recipes::{Curator, FencingToken};

use crate::arguments::Break;
use crate::connection::briefly;
use crate::contenders::{Contender, check_name, chosen, contenders, nobody};
use crate::exit::{Failure, First, Outcome, PATIENCE, say};
use crate::output::print;
use crate::settings::Settings;
use crate::stderr::flush;
use crate::text;

/// The exit code if the user declines.
const DECLINED: u8 = 1;

/// What the deletion of a holder's znode does not do.
const NOT_STOPPED: &str = "this does not stop the holder: `zklock run` learns of it at once, another holder of this library within a \
                           sixth of its session timeout, and one of Curator or kazoo never";

pub(crate) async fn break_lock(arguments: &Break, settings: &Settings) -> Outcome {
    let Break { path, node, all, yes } = arguments;
    let node = node.as_deref();
    check_name(node)?;
    let can_ask = stdin().is_terminal() && stderr().is_terminal();
    if !yes && !can_ask {
        return Err(Failure::usage("there is no terminal to ask on: say --yes"));
    }
    briefly(settings, async |curator| {
        let mut meant = chosen(contenders(curator, path).await?, node);
        if meant.is_empty() {
            say(&nobody(curator, path, node).await);
            return Ok(0);
        }
        if meant.len() > 1 && !all {
            let count = meant.len();
            return Err(Failure::usage(format!(
                "{path} is held by {count}: say --all, or which by --node; see zklock ls"
            )));
        }
        if !yes {
            meant = agreed(curator, path, meant).await?;
        }
        delete_all(curator, &meant).await
    })
    .await
}

/// Asks for confirmation, and returns the contenders as they are now.
async fn agreed(
    curator: &Curator,
    path: &str,
    meant: Vec<Contender>,
) -> Result<Vec<Contender>, Failure> {
    if !is_meant(&meant, path).await? {
        return Err(Failure::new(DECLINED, "nothing was deleted"));
    }
    // The answer may have taken long, and a waiter may be the holder now.
    let now = contenders(curator, path).await?;
    let now: Vec<_> = meant.iter().map(|contender| contender.among(&now)).collect();
    let holds = |one: &Contender| one.holds;
    if now.iter().map(holds).ne(meant.iter().map(holds)) {
        return Err(Failure::new(DECLINED, "that has changed meanwhile, so nothing was deleted"));
    }
    Ok(now)
}

async fn delete_all(curator: &Curator, meant: &[Contender]) -> Outcome {
    let mut first = First::default();
    let mut deleted = Vec::new();
    for contender in meant {
        let node = text::visible(contender.node_name().as_bytes());
        match delete(curator, contender).await {
            Ok(true) => {
                deleted.push(contender);
                first.note(print(&format!("deleted {node} of {}\n", contender.who())));
            }
            Ok(false) => say(&format!("{node} no longer exists")),
            Err(failure) => first.note(Err(failure)),
        }
    }
    if deleted.iter().any(|contender| contender.holds) {
        say(&format!("{NOT_STOPPED}; the next one may hold the lock meanwhile"));
    }
    if deleted.iter().any(|contender| !contender.holds) {
        say("a waiter keeps waiting, at the end of the queue");
    }
    first.outcome()
}

/// Asks for confirmation on the terminal.
async fn is_meant(meant: &[Contender], path: &str) -> Result<bool, Failure> {
    let mut question = String::new();
    for contender in meant {
        let does = if contender.holds { "holds" } else { "waits for" };
        let node = contender.node_name();
        let who = contender.who();
        let queued = contender.queued();
        let line = format!("{node}: {who} {does} {path}, queued {queued} ago");
        question.push_str(&format!("{}\n", text::visible(line.as_bytes())));
    }
    if meant.iter().any(|contender| contender.holds) {
        question.push_str(&format!("Note that {NOT_STOPPED}.\n"));
    }
    let which = if meant.len() == 1 { "it" } else { "all of them" };
    question.push_str(&format!("Delete {which}? [y/N] "));
    let failed = |error| Failure::internal(format!("cannot ask: {error}"));
    flush(PATIENCE); // earlier messages come first
    let mut terminal = stderr();
    terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush()).map_err(failed)?;
    // Another thread reads, because this one keeps the session alive.
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = read.await.map_err(|error| failed(error.into()))?.map_err(failed)?;
    if !answer.ends_with('\n') {
        let _ = writeln!(terminal); // the end of the input leaves the cursor where it was
    }
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Deletes exactly the znode that was shown; returns false if it no longer exists.
async fn delete(curator: &Curator, contender: &Contender) -> Result<bool, Failure> {
    let path = &contender.node;
    let token = contender.fencing_token.map_or(0, FencingToken::value);
    let client = curator.client()?;
    let deleted = match client.check_stat(path).await {
        Ok(Some(stat)) if stat.czxid == token => client.delete(path, Some(stat.version)).await,
        Ok(_) => return Ok(false),
        // Servers from 3.8.4 and 3.9.2 on hide what tells the znode from a later one, but the recipes never use a name twice.
        Err(Error::NoAuth) => client.delete(path, None).await,
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(true),
        Err(Error::NoNode) => Ok(false),
        Err(Error::NotEmpty) => {
            Err(Failure::unavailable(format!("cannot delete {path}: it has children")))
        }
        Err(Error::NoAuth) => Err(Failure::unpermitted(format!("no permission to delete {path}"))),
        // Its data have changed, or the servers did not answer.
        Err(error) => Err(Failure::unavailable(format!(
            "{path} may not have been deleted: {error}; see zklock ls"
        ))),
    }
}
