//! The command line.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

const OF_CONNECTION: &str = "Connection options";
const EXAMPLE: &str = "zklock run PATH -- COMMAND";
const SEE_ALSO: &str = "Connection options: zklock --help";

/// ZooKeeper locks and elections for the shell, on the znodes of Apache Curator.
#[derive(Debug, Parser)]
#[command(
    name = "zklock",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "A connection option that is not given is taken from the environment, --tls-ca\n\
                  from ZKLOCK_TLS_CA; else from ~/.config/zklock.toml or /etc/zklock.toml. The\n\
                  servers are as in zk1:2181,zk2:2181/chroot. ZKLOCK_AUTH may have credentials.\n\n\
                  Example: zklock --server zk1,zk2,zk3 run /jobs/nightly -n -- ./job.sh"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where ZooKeeper is, and as whom to speak to it. What is not given comes from the configuration file.
#[derive(Debug, Args)]
#[command(next_help_heading = OF_CONNECTION)]
pub(crate) struct Connection {
    /// The servers [default: localhost:2181]
    #[arg(long, value_name = "HOST:PORT,...", global = true)]
    pub(crate) server: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// The session's timeout [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration, global = true)]
    pub(crate) session_timeout: Option<Duration>,
    /// How long to try [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = duration, global = true)]
    pub(crate) connection_timeout: Option<Duration>,
    /// A path that all paths are under
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) namespace: Option<String>,
    /// Who we say we are [default: host:pid]
    #[arg(long, value_name = "TEXT", global = true)]
    pub(crate) id: Option<String>,
    /// Lines of scheme:credentials
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) auth_file: Option<PathBuf>,
    /// Speak TLS; whom to trust (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Our private key (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Say what happens, on stderr
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while a lock is held
    Run(Run),
    /// Stand for election, and run a command while leading
    Elect(Elect),
    /// Follow who leads
    Observe(Observe),
    /// Show who holds a lock and who waits
    Ls(Ls),
    /// Ask who holds a lock to give it back
    Revoke(Revoke),
    /// Take a lock away from who holds it
    Break(Break),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual
    Man(Man),
}

impl Command {
    /// Whether something goes on beside what is said.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Self::Run(_) | Self::Elect(_) | Self::Observe(_) => true,
            Self::Ls(arguments) => arguments.watch.is_some(),
            Self::Revoke(_) | Self::Break(_) | Self::Completions(_) | Self::Man(_) => false,
        }
    }
}

/// Run a command while a lock is held. When the lock is lost the command is ended, before anybody else can have it.
#[derive(Debug, Args)]
#[command(override_usage = "zklock run [OPTIONS] <PATH>... -- <COMMAND> [ARG]...", after_help = format!(
    "Ends as the command does; 75: busy, 76: lost, 64: usage, 69: no ZooKeeper,\n\
     126, 127: cannot execute, 128+N: signal N.\n\
     Example: zklock run /jobs/nightly -n -- ./job.sh\n{SEE_ALSO}"
))]
pub(crate) struct Run {
    /// The lock; several: all of them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Do not wait for another holder
    #[arg(long, short, conflicts_with = "timeout")]
    pub(crate) nonblock: bool,
    /// Wait so long at most (10s, 1m 30s)
    #[arg(long, short = 'w', value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// The exit code when the lock is busy
    #[arg(long, short = 'E', value_name = "N", default_value_t = crate::exit::BUSY)]
    pub(crate) conflict_exit_code: u8,
    /// Hold it with other readers; --shared is the same
    #[arg(long, short = 's', alias = "shared", conflicts_with_all = ["write", "count"])]
    pub(crate) read: bool,
    /// Hold it alone, among readers; --exclusive is the same
    #[arg(long, short = 'x', alias = "exclusive", conflicts_with = "count")]
    pub(crate) write: bool,
    /// Hold one of N leases
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    pub(crate) count: Option<u32>,
    #[command(flatten)]
    pub(crate) supervision: Supervision,
    /// When somebody asks for the lock back: TERM, or nothing
    #[arg(long, value_name = "term|ignore", default_value = "term", hide_possible_values = true)]
    pub(crate) on_revoke: OnRevoke,
    /// A line for /bin/sh instead of a command; with one PATH
    #[arg(long = "shell", short = 'c', value_name = "LINE", conflicts_with = "command")]
    pub(crate) line: Option<OsString>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What becomes of the command when the lock is lost.
#[derive(Clone, Debug, Args)]
pub(crate) struct Supervision {
    /// At loss: TERM, then KILL; KILL; or a line on stderr [default: term]
    #[arg(
        long,
        value_name = "term|kill|warn",
        default_value = "term",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) on_lost: OnLost,
    /// From TERM to KILL [default: a sixth of the session timeout]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum OnLost {
    Term,
    Kill,
    Warn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnRevoke {
    Term,
    Ignore,
}

/// Stand for election, and run a command while leading. Without a command, say who we are: leader or follower.
#[derive(Debug, Args)]
#[command(
    override_usage = "zklock elect [OPTIONS] <PATH> [-- <COMMAND> [ARG]...]",
    after_help = format!("Example: zklock elect /services/mailer -- ./mailer\n{SEE_ALSO}")
)]
pub(crate) struct Elect {
    /// The election
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// End when the leadership is lost, with 76, instead of standing again
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) supervision: Supervision,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Follow who leads: a line for each change, the first one at once.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock observe /services/mailer --json\n{SEE_ALSO}"))]
pub(crate) struct Observe {
    /// The election
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// For programs: one object in a line
    #[arg(long)]
    pub(crate) json: bool,
    /// The election is one of selectors, not of latches
    #[arg(long)]
    pub(crate) selector: bool,
}

/// Show who holds a lock and who waits, first come first.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock ls /jobs/nightly --watch\n{SEE_ALSO}"))]
pub(crate) struct Ls {
    /// The lock
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// For programs: an array of objects
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it anew, every so often [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration, num_args = 0..=1, default_missing_value = "2s", require_equals = true)]
    pub(crate) watch: Option<Duration>,
}

/// Ask who holds a lock to give it back.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock revoke /jobs/nightly\n{SEE_ALSO}"))]
pub(crate) struct Revoke {
    /// The lock
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Ask this one, by the name of its node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
}

/// Delete the node of who holds a lock. That one is not stopped by it, and somebody else can hold the lock at once.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock break /jobs/nightly\n{SEE_ALSO}"))]
pub(crate) struct Break {
    /// The lock
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Delete this one, by the name of its node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// All who hold it
    #[arg(long, conflicts_with = "node")]
    pub(crate) all: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example: zklock completions bash > /etc/bash_completion.d/zklock")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual, or write a page for each command.
#[derive(Debug, Args)]
#[command(after_help = "Example: zklock man --dir /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Write the pages there
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

impl Supervision {
    /// From TERM to KILL: as the options say, or a sixth of the session timeout that the servers granted.
    pub(crate) fn kill_after(&self, session: Duration) -> Result<Duration, Failure> {
        let longest = session / 3;
        match self.kill_after {
            None => Ok(session / 6),
            Some(time) if time <= longest => Ok(time),
            Some(time) => Err(Failure::usage(format!(
                "--kill-after {time:?} is too long: at most a third of the session timeout, which is {session:?}"
            ))),
        }
    }
}

impl Arguments {
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut command = command();
        let arguments =
            Self::from_arg_matches(&command.try_get_matches_from_mut(std::env::args_os())?)?;
        if let Command::Run(run) = &arguments.command {
            run.check().map_err(|(kind, wrong)| command.error(kind, wrong))?;
        }
        Ok(arguments)
    }
}

impl Run {
    /// Refuses a command line without a command, and one whose command stands among the paths, where it would be locked.
    fn check(&self) -> Result<(), (ErrorKind, String)> {
        let [_, others @ ..] = self.paths.as_slice() else { return Ok(()) };
        // The first one may have the name of a file, as with `flock`; but not where `-c` is a shell's.
        let others = if self.line.is_some() { &self.paths } else { others };
        if let Some(program) = others.iter().find(|path| is_program(path)) {
            let wrong = format!(
                "{program} is a program on this machine: write -- before a command, as in {EXAMPLE}"
            );
            return Err((ErrorKind::ValueValidation, wrong));
        }
        if self.line.is_some() && self.paths.len() > 1 {
            let wrong = format!("-c takes one PATH: write -- before a command, as in {EXAMPLE}");
            return Err((ErrorKind::ArgumentConflict, wrong));
        }
        if self.line.is_none() && self.command.is_empty() {
            let wrong = format!("no command: {EXAMPLE}, or --shell LINE");
            return Err((ErrorKind::MissingRequiredArgument, wrong));
        }
        Ok(())
    }
}

/// Whether this is a file on this machine that can be executed.
fn is_program(path: &str) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The command line, for help, completions and the manual.
pub(crate) fn command() -> clap::Command {
    let mut command = Arguments::command();
    // Only now the commands have the options of all.
    command.build();
    command.mut_subcommands(|command| {
        command.mut_args(|argument| {
            let of_all = argument.is_global_set();
            argument.hide(of_all)
        })
    })
}

/// `10s`, `1m 30s`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}
