//! The keys that `zklock run --once` runs and has recorded under a path.

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde::Serialize;
use zookeeper_recipes::Curator;

use crate::text;

/// A recorded key, as JSON for programs.
#[derive(Serialize)]
pub(crate) struct Record {
    state: &'static str,
    key: String,
    identity: String,
    since: String,
    path: String,
}

/// Returns the paths of the keys that have, or had a moment ago, a run; none if they may not be listed.
pub(crate) async fn runs(curator: &Curator, path: &str) -> Vec<String> {
    let runs = format!("{}/runs", path.trim_end_matches('/'));
    let Ok(client) = curator.client() else { return Vec::new() };
    let mut keys = client.list_children(&runs).await.unwrap_or_default();
    keys.sort();
    keys.into_iter().map(|key| format!("{runs}/{key}")).collect()
}

/// Returns the records, the oldest first; none if they may not be read.
pub(crate) async fn records(curator: &Curator, path: &str) -> Vec<Record> {
    let path = path.trim_end_matches('/');
    let runs = format!("{path}/runs/");
    let done = format!("{path}/done");
    let Ok(client) = curator.client() else { return Vec::new() };
    let names = client.list_children(&done).await.unwrap_or_default();
    let client = &client;
    let done = &done;
    let runs = &runs;
    let read = async |name: &String| {
        let path = format!("{done}/{name}");
        let (data, stat) = client.get_data(&path).await.ok()?;
        let says = String::from_utf8_lossy(&data);
        // A znode that is not a record has no data of this form.
        let (by, _) = says.rsplit_once('\n').filter(|(_, node)| node.starts_with(runs))?;
        let created = Duration::from_millis(stat.ctime.try_into().ok()?);
        let since = text::time(SystemTime::UNIX_EPOCH + created);
        Some(Record { state: "done", key: unescaped(name), identity: by.to_owned(), since, path })
    };
    let mut records: Vec<_> =
        join_all(names.iter().map(read)).await.into_iter().flatten().collect();
    records.sort_by(|one, other| (&one.since, &one.key).cmp(&(&other.since, &other.key)));
    records
}

/// Returns the table, which is empty if there are no records.
pub(crate) fn table(records: &[Record]) -> String {
    let shown = |text: &str| text::shown(text.as_bytes());
    let row = |one: &Record| [shown(&one.key), shown(&one.identity), one.since.clone()];
    let header = ["KEY", "DONE BY", "AT"].map(str::to_owned);
    let rows: Vec<_> = [header].into_iter().chain(records.iter().map(row)).collect();
    if records.is_empty() { String::new() } else { text::table(&rows) }
}

/// Returns the key from which the library made this name.
fn unescaped(name: &str) -> String {
    let mut parts = name.split('%');
    let mut key = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or_default();
        key.extend(u8::from_str_radix(code, 16));
        key.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8_lossy(&key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_its_key() {
        for (name, key) in [("2026-11-24", "2026-11-24"), ("a%2Fb%25", "a/b%"), ("%2E%2E", "..")] {
            assert_eq!(unescaped(name), key);
        }
    }
}
