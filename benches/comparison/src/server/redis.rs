//! Redis: snapshots now and then by default, an append-only file if each write is to be on the disk.

use std::path::Path;
use std::time::Duration;

use redis::aio::ConnectionManager;
use tokio::process::Command;

use super::{Durability, first_line};
use crate::Failure;
use crate::process::dies_with_us;
use crate::ways::connect_lazily;

/// What clients send. Redis counts what a script calls as well, which is no request.
const REQUESTS: [&str; 5] = ["set", "eval", "evalsha", "subscribe", "script|load"];

pub(super) fn version() -> Result<String, String> {
    let line = first_line("redis-server", &["--version"])?;
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or(&line).to_owned())
}

pub(super) fn command(port: u16, folder: &Path, durability: Durability) -> Command {
    let mut command = dies_with_us("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder);
    if durability == Durability::EachWrite {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    command
}

fn connect(address: &str) -> Result<ConnectionManager, Failure> {
    connect_lazily(address, Duration::from_secs(2))
}

pub(super) async fn serves(address: &str) -> bool {
    let Ok(mut connection) = connect(address) else { return false };
    // Refused while it loads its data.
    redis::cmd("PING").query_async::<String>(&mut connection).await.is_ok()
}

pub(super) async fn requests(address: &str) -> Result<u64, Failure> {
    let mut connection = connect(address)?;
    let text: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
    Ok(text.lines().filter_map(calls).sum())
}

/// Of `cmdstat_NAME:calls=NUMBER,…`.
fn calls(line: &str) -> Option<u64> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    if REQUESTS.contains(&name) { rest.split(',').next()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_send_counts() {
        for (line, count) in [
            ("cmdstat_set:calls=12,usec=34,usec_per_call=2.8", Some(12)),
            ("cmdstat_evalsha:calls=7,usec=1", Some(7)),
            ("cmdstat_get:calls=9,usec=1", None),
            ("# Commandstats", None),
        ] {
            assert_eq!(calls(line), count, "{line}");
        }
    }
}
