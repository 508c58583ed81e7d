//! `zklock break`.

use std::io::{IsTerminal, Write, stderr, stdin};
use std::time::Duration;

use zookeeper_recipes::Curator;
use zookeeper_recipes::zookeeper_client::{self as client, Error};

use crate::arguments::Break;
use crate::connection::connect;
use crate::contenders::{Contender, check_name, chosen, contenders};
use crate::exit::{Failure, Outcome, say};
use crate::output::print;
use crate::settings::Settings;
use crate::text;

/// Somebody said no.
const DECLINED: u8 = 1;

/// How often a delete is tried, each time with what is there then.
const TRIES: u32 = 5;

pub(crate) async fn break_lock(arguments: &Break, settings: &Settings) -> Outcome {
    check_name(arguments.node.as_deref())?;
    if !arguments.yes && !can_ask() {
        return Err(Failure::usage("there is no terminal to ask on: say --yes"));
    }
    let curator = connect(settings).await?;
    let outcome = break_with(&curator, arguments).await;
    let _ = curator.close().await; // it has nothing to lose
    outcome
}

async fn break_with(curator: &Curator, arguments: &Break) -> Outcome {
    let Break { path, node, all, yes } = arguments;
    let shown = text::visible(path.as_bytes());
    let meant = chosen(contenders(curator, path).await?, node.as_deref());
    if meant.is_empty() {
        say(&match node {
            Some(node) => format!("{} is not at {shown}", text::visible(node.as_bytes())),
            None => format!("nobody holds {shown}"),
        });
        return Ok(0);
    }
    if meant.len() > 1 && !all {
        let count = meant.len();
        return Err(Failure::usage(format!(
            "{shown} is held by {count}: say --all, or which by --node; see zklock ls"
        )));
    }
    if !yes && !is_meant(&meant, &shown).await? {
        return Err(Failure::new(DECLINED, "nothing was deleted"));
    }
    let mut deleted = 0;
    for contender in &meant {
        let node = text::visible(contender.node().as_bytes());
        if !delete(curator, contender).await? {
            say(&format!("{node} is gone meanwhile"));
            continue;
        }
        deleted += 1;
        if let Err(outcome) = print(&format!("deleted {node} of {}\n", contender.who())) {
            return outcome;
        }
    }
    if deleted > 0 {
        say(if meant[0].participant.holds {
            "who held it is not stopped by this: it is told that it lost the lock, and somebody else may hold it \
             meanwhile"
        } else {
            "who waited goes on waiting, at the end of the queue"
        });
    }
    Ok(0)
}

fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks on the terminal.
async fn is_meant(meant: &[Contender], path: &str) -> Result<bool, Failure> {
    let mut question = String::new();
    for contender in meant {
        let does = if contender.participant.holds { "holds" } else { "waits for" };
        let (node, who, age) =
            (text::visible(contender.node().as_bytes()), contender.who(), contender.age());
        question.push_str(&format!("{node}: {who} {does} {path}, for {age}\n"));
    }
    let which = if meant.len() == 1 { "it" } else { "all of them" };
    question.push_str(&format!("Delete {which}? [y/N] "));
    let failed = |error| Failure::internal(format!("cannot ask: {error}"));
    let mut terminal = stderr();
    terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush()).map_err(failed)?;
    // Not on the thread that keeps the session alive.
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

/// Deletes the very node that was shown; `false` if it is not there any more.
async fn delete(curator: &Curator, contender: &Contender) -> Result<bool, Failure> {
    let (path, token) =
        (&contender.participant.path, contender.participant.fencing_token().value());
    let mut last = None;
    for attempt in 0..TRIES {
        tokio::time::sleep(Duration::from_millis(500) * attempt).await;
        let client = match curator.client() {
            Ok(client) => client,
            Err(error) => {
                last = Some(error.to_string());
                continue;
            }
        };
        match delete_by(&client, path, token).await {
            Ok(deleted) => return Ok(deleted),
            Err(Error::NoAuth) => {
                return Err(Failure::unavailable(format!("no permission to delete {path}")));
            }
            // Its data has changed since, by a request to give it back; or nobody knows what became of it.
            Err(error) => last = Some(error.to_string()),
        }
    }
    let why = last.unwrap_or_default();
    Err(Failure::unavailable(format!("whether {path} was deleted is not known: {why}")))
}

async fn delete_by(client: &client::Client, path: &str, token: i64) -> Result<bool, Error> {
    match client.check_stat(path).await? {
        Some(stat) if stat.czxid == token => match client.delete(path, Some(stat.version)).await {
            Err(Error::NoNode) => Ok(false),
            deleted => deleted.map(|()| true),
        },
        _ => Ok(false),
    }
}
