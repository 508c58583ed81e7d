//! `zklock break`.

use std::io::{IsTerminal, Write, stderr, stdin};
use std::time::Duration;

use zookeeper_recipes::zookeeper_client::Error;
use zookeeper_recipes::{Curator, FencingToken, Participant};

use crate::arguments::Break;
use crate::connection::connect;
use crate::contenders::{Contender, check_name, chosen, contenders, nobody};
use crate::exit::{Failure, First, Outcome, PATIENCE, say};
use crate::output::printed;
use crate::settings::Settings;
use crate::stderr::flush;
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
    let mut meant = chosen(contenders(curator, path).await?, node.as_deref());
    if meant.is_empty() {
        say(&nobody(path, node.as_deref()));
        return Ok(0);
    }
    if meant.len() > 1 && !all {
        let (shown, count) = (text::visible(path.as_bytes()), meant.len());
        return Err(Failure::usage(format!(
            "{shown} is held by {count}: say --all, or which by --node; see zklock ls"
        )));
    }
    if !yes {
        meant = agreed(curator, path, meant).await?;
    }
    delete_all(curator, &meant).await
}

/// Asks, until what is agreed to is what is there.
async fn agreed(
    curator: &Curator,
    path: &str,
    mut meant: Vec<Contender>,
) -> Result<Vec<Contender>, Failure> {
    let holds = |one: &Contender| one.participant.holds;
    loop {
        if !is_meant(&meant, &text::visible(path.as_bytes())).await? {
            return Err(Failure::new(DECLINED, "nothing was deleted"));
        }
        // The answer may have taken long: who waited may hold now.
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
    let (mut of_holders, mut of_waiters) = (false, false);
    for contender in meant {
        let node = text::visible(contender.node().as_bytes());
        match delete(curator, contender).await {
            Ok(true) => {
                let is_holder = contender.participant.holds;
                of_holders |= is_holder;
                of_waiters |= !is_holder;
                first.note(printed(&format!("deleted {node} of {}\n", contender.who())));
            }
            Ok(false) => say(&format!("{node} is gone meanwhile")),
            Err(failure) => first.note(Err(failure)),
        }
    }
    if of_holders {
        say(
            "who held it is not stopped by this: it is told that it lost the lock, and somebody else may hold it \
             meanwhile",
        );
    }
    if of_waiters {
        say("who waited goes on waiting, at the end of the queue");
    }
    first.outcome()
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
    flush(PATIENCE); // what was said before stands before it
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
    let Participant { node: path, fencing_token, .. } = &contender.participant;
    let token = fencing_token.map_or(0, FencingToken::value);
    let (mut why, mut is_unsure) = (String::new(), false);
    for attempt in 0..TRIES {
        tokio::time::sleep(Duration::from_millis(500) * attempt).await;
        let found = match curator.client() {
            Ok(client) => {
                let found = client.check_stat(path).await;
                found.map(|stat| (client, stat)).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let (client, version) = match found {
            Ok((client, Some(stat))) if stat.czxid == token => (client, stat.version),
            // What was tried before, and never answered, did it.
            Ok(_) => return Ok(is_unsure),
            Err(error) => {
                why = error;
                continue;
            }
        };
        match client.delete(path, Some(version)).await {
            Err(Error::NotEmpty) => {
                return Err(Failure::unavailable(format!("cannot delete {path}: it has children")));
            }
            Ok(()) => return Ok(true),
            Err(Error::NoNode) => return Ok(is_unsure),
            Err(Error::NoAuth) => {
                return Err(Failure::unavailable(format!("no permission to delete {path}")));
            }
            Err(error) => {
                // Its data has changed since, by a request to give it back; or nobody knows what became of it.
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
