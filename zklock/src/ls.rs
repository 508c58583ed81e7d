//! `zklock ls`.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use zookeeper_recipes::{Curator, Error};

use crate::arguments::Ls;
use crate::connection::briefly;
use crate::contenders::{Contender, Entry, STRANGERS, are_strangers, contenders, identity, token};
use crate::exit::{Outcome, chain};
use crate::log::Event;
use crate::output::{Ends, now, print};
use crate::records::{Record, records, table};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::text;

/// The shortest interval; a shorter one would only load the servers.
const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) async fn ls(arguments: &Ls, settings: &Settings) -> Outcome {
    briefly(settings, async |curator| {
        if let Some(every) = arguments.watch {
            return watch(curator, arguments, every.max(SHORTEST)).await;
        }
        let (found, records) = look(curator, &arguments.path).await?;
        if are_strangers(&found) {
            Event::Warning.say(STRANGERS);
        }
        print(&rendered(&found, &records, arguments.json, false))
    })
    .await
}

async fn look(curator: &Curator, path: &str) -> Result<(Vec<Contender>, Vec<Record>), Error> {
    Ok((contenders(curator, path).await?, records(curator, path).await))
}

async fn watch(curator: &Curator, arguments: &Ls, every: Duration) -> Outcome {
    let Ls { path, json, .. } = arguments;
    let mut ends = Ends::new(Signals::new()?);
    let titled = |text: &str| format!("{}  {}\n{text}\n", now(), text::visible(path.as_bytes()));
    loop {
        let text = match ends.unless_ended(look(curator, path)).await? {
            Ok((found, records)) => {
                let text = rendered(&found, &records, *json, true);
                let strangers =
                    if are_strangers(&found) { format!("{STRANGERS}\n") } else { String::new() };
                if *json { text } else { titled(&(text + &strangers)) }
            }
            Err(error) if !error.is_transient() => return Err(error.into()),
            Err(error) if *json => {
                Event::Warning.say(&chain(&error));
                String::new()
            }
            Err(error) => titled(&format!("{}\n", text::visible(chain(&error).as_bytes()))),
        };
        let text = if stdout().is_terminal() && !json {
            drawn(&text, tcgetwinsize(stdout()).map_or(0, |size| size.ws_row.into()))
        } else {
            text
        };
        ends.print(&text).await?;
        ends.unless_ended(tokio::time::sleep(every)).await?;
    }
}

fn rendered(found: &[Contender], records: &[Record], as_json: bool, in_one_line: bool) -> String {
    if as_json {
        let contenders = found.iter().map(|one| {
            let state = state(one);
            let kind = one.kind.name();
            text::json(&Line { place: one.place, state, kind, entry: Entry::of(one) })
        });
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
    if contender.holds { "holds" } else { "waits" }
}

fn row(contender: &Contender) -> [String; 8] {
    [
        contender.place.to_string(),
        state(contender).to_owned(),
        contender.kind.name(),
        identity(contender).unwrap_or_else(|| {
            let none =
                if contender.revocation_requested() { "(asked to give it back)" } else { "-" };
            none.to_owned()
        }),
        text::session(contender.session_id),
        contender.age(),
        token(contender),
        text::visible(contender.node_name().as_bytes()),
    ]
}

/// A contender in the listing, as JSON for programs.
#[derive(Serialize)]
struct Line<'a> {
    place: usize,
    state: &'static str,
    kind: String,
    #[serde(flatten)]
    entry: Entry<'a>,
}

/// Draws the text on a cleared screen, without the lines that do not fit. Long lines end at the edge.
fn drawn(text: &str, rows: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    let rows = rows.max(3) - 1;
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
