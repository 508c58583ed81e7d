//! `zklock break`.

use std::io::{IsTerminal, Write, stderr, stdin};
use std::time::{Duration, SystemTime};

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

/// Attempts to delete a znode, each in the version that it has then.
const TRIES: u32 = 5;

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
            say(&nobody(path, node));
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

/// Asks for confirmation until the answer is about the current state.
async fn agreed(
    curator: &Curator,
    path: &str,
    mut meant: Vec<Contender>,
) -> Result<Vec<Contender>, Failure> {
    let holds = |one: &Contender| one.holds;
    loop {
        if !is_meant(&meant, path).await? {
            return Err(Failure::new(DECLINED, "nothing was deleted"));
        }
        // The answer may have taken long, and a waiter may be the holder now.
        let now = contenders(curator, path).await?;
        let now: Vec<_> = meant.iter().map(|contender| contender.among(&now)).collect();
        if now.iter().map(holds).eq(meant.iter().map(holds)) {
            return Ok(now);
        }
        say("that has changed meanwhile");
        meant = now;
    }
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
        let queued = contender.queued(SystemTime::now());
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
    let mut why = String::new();
    let mut is_unsure = false;
    for attempt in 0..TRIES {
        tokio::time::sleep(Duration::from_millis(500) * attempt).await;
        let client = curator.client().map_err(|error| why = error.to_string());
        let Ok(client) = client else { continue };
        let deleted = match client.check_stat(path).await {
            Ok(Some(stat)) if stat.czxid == token => client.delete(path, Some(stat.version)).await,
            Ok(_) => Err(Error::NoNode),
            // Servers from 3.8.4 and 3.9.2 on hide what tells the znode from a later one, but the recipes never use a name twice.
            Err(Error::NoAuth) => client.delete(path, None).await,
            Err(error) => {
                why = error.to_string();
                continue;
            }
        };
        match deleted {
            Ok(()) => return Ok(true),
            // An earlier try without an answer may have deleted it.
            Err(Error::NoNode) => return Ok(is_unsure),
            Err(Error::NotEmpty) => {
                return Err(Failure::unavailable(format!("cannot delete {path}: it has children")));
            }
            Err(Error::NoAuth) => {
                return Err(Failure::unavailable(format!("no permission to delete {path}")));
            }
            Err(error) => {
                // A revocation request has changed the data, or the outcome is unknown.
                is_unsure |= error != Error::BadVersion;
                why = error.to_string();
            }
        }
    }
    Err(Failure::unavailable(if is_unsure {
        format!("whether {path} was deleted is not known: {why}")
    } else {
        format!("cannot delete {path}: {why}")
    }))
}
