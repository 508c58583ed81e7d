//! `zklock ls`.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use zookeeper_recipes::{Curator, Error};

use crate::arguments::Ls;
use crate::connection::connect;
use crate::contenders::{Contender, Entry, STRANGERS, are_strangers, contenders, token};
use crate::exit::{Outcome, chain, say};
use crate::output::{Ends, now, printed};
use crate::records::{Record, records, table};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::text;

/// A shorter one would only load the servers.
const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) async fn ls(arguments: &Ls, settings: &Settings) -> Outcome {
    let curator = connect(settings).await?;
    let outcome = match arguments.watch {
        None => once(&curator, arguments).await,
        Some(every) => watch(&curator, arguments, every.max(SHORTEST)).await,
    };
    let _ = curator.close().await; // it only read
    outcome
}

async fn once(curator: &Curator, arguments: &Ls) -> Outcome {
    let found = contenders(curator, &arguments.path).await?;
    if are_strangers(&found) {
        say(STRANGERS);
    }
    let records = records(curator, &arguments.path).await;
    printed(&rendered(&found, &records, arguments.json, false))
}

async fn watch(curator: &Curator, arguments: &Ls, every: Duration) -> Outcome {
    let mut ends = Ends::new(Signals::new()?);
    let in_place = stdout().is_terminal() && !arguments.json;
    loop {
        let look = async {
            let found = contenders(curator, &arguments.path).await?;
            Ok((found, records(curator, &arguments.path).await))
        };
        let found: Result<_, Error> = tokio::select! {
            found = look => found,
            () = ends.told() => return Ok(0),
        };
        let text = match found {
            Ok((found, records)) if arguments.json => rendered(&found, &records, true, true),
            Ok((found, records)) => {
                let mut table = rendered(&found, &records, false, true);
                if are_strangers(&found) {
                    table.push_str(&format!("{STRANGERS}\n"));
                }
                titled(&arguments.path, &table)
            }
            Err(error) if !error.is_transient() => return Err(error.into()),
            Err(error) if arguments.json => {
                say(&chain(&error));
                String::new()
            }
            Err(error) => {
                let why = text::visible(chain(&error).as_bytes());
                titled(&arguments.path, &format!("{why}\n"))
            }
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

fn rendered(found: &[Contender], records: &[Record], as_json: bool, in_one_line: bool) -> String {
    if as_json {
        let contenders = found.iter().map(|one| text::json(&Line::of(one)));
        let lines: Vec<_> = contenders.chain(records.iter().map(text::json)).collect();
        return match (&lines[..], in_one_line) {
            ([], _) => "[]\n".to_owned(),
            (lines, true) => format!("[{}]\n", lines.join(",")),
            (lines, false) => format!("[\n  {}\n]\n", lines.join(",\n  ")),
        };
    }
    if found.is_empty() && !records.is_empty() {
        return table(records);
    }
    let header = ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "AGE", "TOKEN", "NODE"];
    let rows: Vec<_> =
        [header.map(str::to_owned)].into_iter().chain(found.iter().map(row)).collect();
    text::table(&rows) + &table(records)
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
        text::session(contender.participant.session_id),
        contender.age(),
        token(&contender.participant),
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
