//! `zklock ls`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout_at};
use zookeeper_recipes::{Curator, Error};

use crate::arguments::Ls;
use crate::connection::briefly;
use crate::contenders::{Contender, Entry, STRANGERS, are_strangers, contenders, identity, token};
use crate::exit::{Failure, Outcome, chain, say};
use crate::log::Event;
use crate::output::{Ends, now, print};
use crate::records::{Record, records, runs, table};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::text;
use crate::tree;

/// The shortest interval; a shorter one would only load the servers.
const SHORTEST: Duration = Duration::from_millis(100);

/// The looks for `--expect`: enough to find a contender that has a znode for 1 % of the time.
const EXPECT_LOOKS: u32 = 300;
const EXPECT_EVERY: Duration = Duration::from_millis(100);

/// The exit code if fewer sessions contend than expected.
const TOO_FEW: u8 = 1;

pub(crate) async fn ls(arguments: &Ls, settings: &Settings) -> Outcome {
    briefly(settings, async |curator| {
        if arguments.recursive {
            return tree::print_all(curator, arguments).await;
        }
        if let Some(every) = arguments.watch {
            return watch(curator, arguments, every.max(SHORTEST)).await;
        }
        let too_few = match arguments.expect {
            Some(count) => expect(curator, &arguments.path, count).await?,
            None => None,
        };
        let (found, records) = look(curator, &arguments.path).await?;
        if found.is_empty()
            && records.is_empty()
            && let Some(other) = tree::in_place_of_a_lock(curator, &arguments.path).await
        {
            say(&other);
            if !arguments.json {
                return too_few.map_or(Ok(0), Err);
            }
        }
        if too_few.is_none() && are_strangers(&found) {
            Event::Warning.say(STRANGERS);
        }
        let printed = print(&rendered(&arguments.path, &found, &records, arguments.json, false));
        too_few.map_or(printed, Err)
    })
    .await
}

/// Looks until so many sessions were seen. Returns the failure if they are fewer after all looks.
///
/// A contender that holds the lock for milliseconds has no znode most of the time, so one look proves nothing. The looks
/// come at uneven intervals, because those at even ones may always miss a contender that works by a timer.
async fn expect(curator: &Curator, path: &str, count: u32) -> Result<Option<Failure>, Failure> {
    let end = Instant::now() + EXPECT_EVERY * EXPECT_LOOKS;
    let mut seen = BTreeMap::new();
    let mut looks = 0;
    for number in 0..EXPECT_LOOKS {
        let slot = end - EXPECT_EVERY * (EXPECT_LOOKS - number);
        if slot + EXPECT_EVERY < Instant::now() {
            continue; // the look before took so long
        }
        // The fractions of multiples of this number, the golden ratio, lie evenly between 0 and 1.
        let part = (f64::from(number) * 0.618_034).fract();
        sleep_until(slot + EXPECT_EVERY.mul_f64(part)).await;
        match timeout_at(end, with_runs(curator, path)).await {
            Ok(Ok(found)) => {
                looks += 1;
                seen.extend(found.iter().filter_map(owner));
            }
            Ok(Err(error)) if !error.is_transient() => return Err(error.into()),
            Ok(Err(_)) | Err(_) => {} // no server answers
        }
        if seen.len() >= count as usize {
            return Ok(None);
        }
    }
    let time = humantime::format_duration(EXPECT_EVERY * EXPECT_LOOKS);
    if looks == 0 {
        let why = format!("no answer of the servers about {path} within {time}");
        return Err(Failure::unavailable(why));
    }
    let found = seen.len();
    let who: Vec<_> = seen.into_values().collect();
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    let why = format!(
        "{found} of {count} sessions contend for {path} in {looks} looks within {time}{who}"
    );
    Ok(Some(Failure::new(TOO_FEW, why)))
}

/// Returns the session of the contender and its name, unless its znode stays when its creator ends.
fn owner(contender: &Contender) -> Option<(i64, String)> {
    let session = contender.session_id.filter(|session| *session != 0)?;
    Some((session, contender.who()))
}

async fn look(curator: &Curator, path: &str) -> Result<(Vec<Contender>, Vec<Record>), Error> {
    Ok((with_runs(curator, path).await?, records(curator, path).await))
}

/// Returns the contenders of the path, and behind them those of each key that `zklock run --once` runs there.
async fn with_runs(curator: &Curator, path: &str) -> Result<Vec<Contender>, Error> {
    let mut all = contenders(curator, path).await?;
    for run in runs(curator, path).await {
        all.extend(contenders(curator, &run).await?);
    }
    Ok(all)
}

async fn watch(curator: &Curator, arguments: &Ls, every: Duration) -> Outcome {
    let Ls { path, json, .. } = arguments;
    let mut ends = Ends::new(Signals::new()?);
    let titled = |text: &str| format!("{}  {}\n{text}\n", now(), text::visible(path.as_bytes()));
    loop {
        let text = match ends.unless_ended(look(curator, path)).await? {
            Ok((found, records)) => {
                let text = rendered(path, &found, &records, *json, true);
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

fn rendered(
    path: &str,
    found: &[Contender],
    records: &[Record],
    as_json: bool,
    in_one_line: bool,
) -> String {
    if as_json {
        let contenders = found.iter().map(|one| {
            let state = state(one);
            let kind = one.kind.name();
            text::json(&Line { place: one.place, state, kind, entry: Entry::of(one) })
        });
        let lines: Vec<_> = contenders.chain(records.iter().map(text::json)).collect();
        return if in_one_line { format!("[{}]\n", lines.join(",")) } else { array(&lines) };
    }
    if found.is_empty() && !records.is_empty() {
        return table(records);
    }
    let header = ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "QUEUED", "TOKEN", "NODE"];
    let rows = found.iter().map(|one| row(path, one));
    let rows: Vec<_> = [header.map(str::to_owned)].into_iter().chain(rows).collect();
    text::table(&rows) + &table(records)
}

/// Returns the JSON array of these values, with a line for each.
pub(crate) fn array(lines: &[String]) -> String {
    if lines.is_empty() { "[]\n".to_owned() } else { format!("[\n  {}\n]\n", lines.join(",\n  ")) }
}

fn state(contender: &Contender) -> &'static str {
    if contender.holds { "holds" } else { "waits" }
}

fn row(path: &str, contender: &Contender) -> [String; 8] {
    // The node of a key's run is named by its way from the path, because `revoke` and `break` need the run's path.
    let runs = format!("{}/runs/", path.trim_end_matches('/'));
    let node = match contender.node.strip_prefix(&runs) {
        Some(node) => format!("runs/{node}"),
        None => contender.node_name().to_owned(),
    };
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
        contender.queued(),
        token(contender),
        text::visible(node.as_bytes()),
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
