//! What the arguments ask for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::finding::Question;
use crate::ways::WayName;

/// ZooKeeper recipes beside other ways to lock. Each is run against a server of its own, and asked the same questions.
#[derive(Debug, Parser)]
#[command(
    name = "comparison",
    after_help = "Ends with 0 if all was asked, 1 if a question could not be answered, 2 for \
    arguments that are none, 3 if a server cannot be had."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// What we start ourselves.
    #[command(hide = true)]
    Worker { place: String },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// Only these: zookeeper, set-nx, watchdog, redlock, etcd, unique-row, for-update, version-column; redis and
    /// mariadb stand for all on them
    #[arg(long, value_name = "WAYS", value_delimiter = ',', value_parser = ways)]
    only: Vec<Ways>,

    /// Only these questions
    #[arg(long, value_name = "QUESTIONS", value_delimiter = ',', value_enum)]
    ask: Vec<Question>,

    /// How often a holder is killed, and stopped
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// Of the locks, and of ZooKeeper's sessions; in whole seconds, at least etcd's shortest
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=60))]
    lease: u64,

    /// Each once and in short: that it runs, not how fast
    #[arg(long)]
    pub(crate) smoke: bool,

    /// Writes the tables of docs/comparison.md anew; needs a complete run
    #[arg(long, conflicts_with_all = ["only", "ask", "smoke"])]
    pub(crate) docs: bool,
}

/// What one word of `--only` stands for.
#[derive(Clone, Debug)]
struct Ways(Vec<WayName>);

fn ways(word: &str) -> Result<Ways, String> {
    let named: Vec<_> = WayName::value_variants()
        .iter()
        .filter(|way| {
            let name = way.to_possible_value().is_some_and(|value| value.get_name() == word);
            name || way.kind().name().eq_ignore_ascii_case(word)
        })
        .copied()
        .collect();
    if named.is_empty() {
        let names = WayName::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<_> = names.map(|value| value.get_name().to_owned()).collect();
        return Err(format!("there are {}, and redis, mariadb for all on them", names.join(", ")));
    }
    Ok(Ways(named))
}

impl Settings {
    pub(crate) fn ways(&self) -> Vec<WayName> {
        let wanted = |way: &WayName| {
            self.only.is_empty() || self.only.iter().any(|ways| ways.0.contains(way))
        };
        WayName::value_variants().iter().copied().filter(wanted).collect()
    }

    pub(crate) fn asks(&self, question: Question) -> bool {
        self.ask.is_empty() || self.ask.contains(&question)
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease)
    }

    pub(crate) fn cycles(&self) -> usize {
        if self.smoke { 20 } else { 400 }
    }

    /// In which the cycles are done, each way having one after the other.
    pub(crate) fn turns(&self) -> usize {
        if self.smoke { 2 } else { 8 }
    }

    pub(crate) fn hand_overs(&self) -> usize {
        if self.smoke { 2 } else { 15 }
    }

    /// In which requests are counted.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs(if self.smoke { 1 } else { 3 })
    }

    /// Where data is on a disk, if `TMPDIR` or `/tmp` is on one.
    pub(crate) fn disk(&self) -> PathBuf {
        std::env::temp_dir()
    }

    /// Where the system has a place in memory.
    pub(crate) fn memory(&self) -> Option<PathBuf> {
        let memory = PathBuf::from("/dev/shm");
        memory.is_dir().then_some(memory)
    }

    /// A smoke run does each once.
    pub(crate) fn in_short(mut self) -> Self {
        if self.smoke {
            self.rounds = 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Settings, String> {
        let all = std::iter::once("comparison").chain(arguments.iter().copied());
        Arguments::try_parse_from(all).map(|all| all.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_families_are_ways() {
        let ways = |only| parsed(&["--only", only]).map(|settings| settings.ways());
        assert_eq!(ways("etcd"), Ok(vec![WayName::Etcd]));
        assert_eq!(ways("redis"), Ok(vec![WayName::SetNx, WayName::Watchdog, WayName::Redlock]));
        assert_eq!(ways("for-update,zookeeper"), Ok(vec![WayName::Zookeeper, WayName::ForUpdate]));
        assert_eq!(parsed(&[]).map(|settings| settings.ways().len()), Ok(8));
    }

    #[test]
    fn what_is_no_argument_is_told_with_what_is() {
        for (arguments, told) in [
            (&["--only", "consul"][..], "there are zookeeper, set-nx"),
            (&["--ask", "why"][..], "death"),
            (&["--rounds", "0"][..], "1..=100"),
            (&["--lease", "1"][..], "2..=60"),
            (&["--lease", "half"][..], "--lease"),
            (&["--docs", "--smoke"][..], "cannot be used"),
            (&["--quickly"][..], "--quickly"),
        ] {
            let error = parsed(arguments).err().unwrap_or_default();
            assert!(error.contains(told), "{arguments:?}: {error}");
        }
    }
}
