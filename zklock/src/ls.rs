//! `zklock ls`.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use zookeeper_recipes::Curator;

use crate::arguments::Ls;
use crate::connection::connect;
use crate::contenders::{Contender, Entry, STRANGERS, Unknown, are_strangers, contenders, look};
use crate::exit::{Outcome, say};
use crate::output::{Ends, now, printed};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::text;

/// A shorter one would only load the servers.
const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) async fn ls(arguments: &Ls, settings: &Settings) -> Outcome {
    let curator = connect(settings).await?;
    let outcome = match arguments.watch {
        None => once(&curator, arguments, settings.verbose).await,
        Some(every) => watch(&curator, arguments, every.max(SHORTEST)).await,
    };
    let _ = curator.close().await; // it only read
    outcome
}

async fn once(curator: &Curator, arguments: &Ls, verbose: bool) -> Outcome {
    let found = contenders(curator, &arguments.path).await?;
    if verbose && found.is_empty() {
        say_why(curator, &arguments.path).await;
    }
    if are_strangers(&found) {
        say(STRANGERS);
    }
    printed(&rendered(&found, arguments.json, false))
}

/// Nobody is there: because nobody is, or because the path is not.
async fn say_why(curator: &Curator, path: &str) {
    let Ok(client) = curator.client() else { return };
    match client.check_stat(path).await {
        Ok(None) => {
            say(&format!("{path} is not there: nobody has used it, or it was removed since"))
        }
        Ok(Some(_)) => say(&format!("{path} is there, without anybody who holds or waits")),
        Err(_) => {}
    }
}

async fn watch(curator: &Curator, arguments: &Ls, every: Duration) -> Outcome {
    let mut ends = Ends::new(Signals::new()?);
    let in_place = stdout().is_terminal() && !arguments.json;
    loop {
        let found = tokio::select! {
            found = look(curator, &arguments.path) => found,
            () = ends.told() => return Ok(0),
        };
        let text = match found {
            Ok(found) if arguments.json => rendered(&found, true, true),
            Ok(found) => {
                let mut table = rendered(&found, false, true);
                if are_strangers(&found) {
                    table.push_str(&format!("{STRANGERS}\n"));
                }
                titled(&arguments.path, &table)
            }
            Err(Unknown::Now(failure)) if arguments.json => {
                say(&failure.to_string());
                String::new()
            }
            Err(Unknown::Now(failure)) => {
                let why = text::visible(failure.to_string().as_bytes());
                titled(&arguments.path, &format!("{why}\n"))
            }
            Err(Unknown::ForGood(failure)) => return Err(failure),
        };
        let text = if in_place {
            drawn(&text, tcgetwinsize(stdout()).map_or(0, |size| size.ws_row.into()))
        } else {
            text
        };
        if let Err(outcome) = ends.print(&text).await {
            return outcome;
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = ends.told() => return Ok(0),
        }
    }
}

fn titled(path: &str, text: &str) -> String {
    format!("{}  {}\n{text}\n", now(), text::visible(path.as_bytes()))
}

fn rendered(found: &[Contender], as_json: bool, in_one_line: bool) -> String {
    if as_json {
        let lines: Vec<_> = found.iter().map(|one| text::json(&Line::of(one))).collect();
        return match (&lines[..], in_one_line) {
            ([], _) => "[]\n".to_owned(),
            (lines, true) => format!("[{}]\n", lines.join(",")),
            (lines, false) => format!("[\n  {}\n]\n", lines.join(",\n  ")),
        };
    }
    let header = ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "AGE", "TOKEN", "NODE"];
    let rows: Vec<_> =
        [header.map(str::to_owned)].into_iter().chain(found.iter().map(row)).collect();
    text::table(&rows)
}

fn state(contender: &Contender) -> &'static str {
    if contender.participant.holds { "holds" } else { "waits" }
}

fn row(contender: &Contender) -> [String; 8] {
    [
        contender.place.to_string(),
        state(contender).to_owned(),
        contender.kind.name(),
        contender.identity().unwrap_or_else(|| {
            let none = if contender.is_revoked() { "(asked to give it back)" } else { "-" };
            none.to_owned()
        }),
        text::session(contender.participant.session),
        contender.age(),
        contender.participant.fencing_token().to_string(),
        text::visible(contender.node().as_bytes()),
    ]
}

/// For programs.
#[derive(Serialize)]
struct Line<'a> {
    place: usize,
    state: &'static str,
    kind: String,
    #[serde(flatten)]
    entry: Entry<'a>,
}

impl<'a> Line<'a> {
    fn of(contender: &'a Contender) -> Self {
        Self {
            place: contender.place,
            state: state(contender),
            kind: contender.kind.name(),
            entry: Entry::of(&contender.participant),
        }
    }
}

/// On an empty screen, without what does not fit into its rows. Long lines end at the edge.
fn drawn(text: &str, rows: usize) -> String {
    let (lines, rows): (Vec<_>, _) = (text.trim_end().lines().collect(), rows.max(3) - 1);
    let shown = if lines.len() > rows { rows - 1 } else { lines.len() };
    let mut drawing = "\x1b[H\x1b[2J\x1b[?7l".to_owned();
    drawing.extend(lines[..shown].iter().flat_map(|line| [line, "\r\n"]));
    if lines.len() > shown {
        drawing.push_str(&format!("… and {} more\r\n", lines.len() - shown));
    }
    drawing + "\x1b[?7h"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_fits_the_screen() {
        let one = |text: &str| format!("\x1b[H\x1b[2J\x1b[?7l{text}\x1b[?7h");
        assert_eq!(drawn("a\nb\n\n", 5), one("a\r\nb\r\n"));
        assert_eq!(drawn("a\nb\nc\nd\ne\n", 5), one("a\r\nb\r\nc\r\n… and 2 more\r\n"));
        assert_eq!(drawn("a\nb\nc\n", 0), one("a\r\n… and 2 more\r\n"));
    }
}
