//! The command line.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use clap::builder::{BoolishValueParser, NonEmptyStringValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use crate::exit::Failure;
use crate::mistakes::{self, DASHES};

const EXAMPLE: &str = "zklock run PATH -- COMMAND";
const SEE_ALSO: &str = "More: zklock --help";

/// ZooKeeper locks and leader election for the shell, on the znodes of Apache Curator.
#[derive(Debug, Parser)]
#[command(
    name = "zklock",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Connection options can also be set by the environment, such as ZKLOCK_TLS_CA for\n\
                  --tls-ca, and by ~/.config/zklock.toml and /etc/zklock.toml. Servers have the\n\
                  form zk1:2181,zk2:2181/chroot. ZKLOCK_AUTH may contain credentials.\n\n\
                  Example: zklock --server zk1,zk2,zk3 run /jobs/cleanup -n -- ./cleanup.sh"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The servers and the credentials, as given by options, by the environment, or by a configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Connection options")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Connection {
    /// The servers [default: localhost:2181]
    #[arg(long, value_name = "HOST:PORT,...", value_parser = NonEmptyStringValueParser::new(), global = true)]
    pub(crate) server: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE", global = true)]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Session timeout [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, global = true)]
    #[serde(deserialize_with = "timeout_of_file")]
    pub(crate) session_timeout: Option<Duration>,
    /// Time to try to connect [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, global = true)]
    #[serde(deserialize_with = "timeout_of_file")]
    pub(crate) connection_timeout: Option<Duration>,
    /// Prefix of all paths
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new(), global = true)]
    pub(crate) namespace: Option<String>,
    /// Name to show [default: host:pid]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), global = true)]
    pub(crate) id: Option<String>,
    /// File with lines of scheme:credentials
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) auth_file: Option<PathBuf>,
    /// Use TLS, with these authorities (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_key: Option<PathBuf>,
    /// ACL of new znodes, such as auth::cdrwa
    #[arg(long, value_name = "ACL", value_parser = NonEmptyStringValueParser::new(), global = true)]
    pub(crate) acl: Vec<String>,
    /// Format of stderr [default: text]
    #[arg(long, value_name = "text|json", global = true, hide_possible_values = true)]
    pub(crate) log_format: Option<LogFormat>,
    /// Report progress on stderr
    #[arg(long, short, value_parser = BoolishValueParser::new(), global = true)]
    #[serde(skip)]
    pub(crate) verbose: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Connection {
    /// Fills in the missing options from a file.
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            server: self.server.or(file.server),
            config: self.config,
            session_timeout: self.session_timeout.or(file.session_timeout),
            connection_timeout: self.connection_timeout.or(file.connection_timeout),
            namespace: self.namespace.or(file.namespace),
            id: self.id.or(file.id),
            auth_file: self.auth_file.or(file.auth_file),
            tls_ca: self.tls_ca.or(file.tls_ca),
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            acl: if self.acl.is_empty() { file.acl } else { self.acl },
            log_format: self.log_format.or(file.log_format),
            verbose: self.verbose,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while a lock is held
    Run(Run),
    /// Stand for election, and run a command while leader
    Elect(Elect),
    /// Report the leader, and each change
    Observe(Observe),
    /// List the holders and the waiters of a lock
    Ls(Ls),
    /// Ask the holders to give a lock back
    Revoke(Revoke),
    /// Delete a holder's znode
    Break(Break),
    /// Check the connection and a path
    Check(Check),
    /// Print a completion script for a shell
    #[command(after_help = "Example: zklock completions bash > /etc/bash_completion.d/zklock")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual
    #[command(after_help = "Example: zklock man --dir /usr/local/share/man/man1")]
    Man {
        /// Write a page for each command there
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Run a command while a lock is held. If no server answers for 5/8 of the session timeout, the command gets TERM, and KILL before
/// another process can get the lock.
#[derive(Debug, Args)]
#[command(override_usage = "zklock run [OPTIONS] <PATH>... -- <COMMAND> [ARG]...", after_help = format!(
    "The command gets TERM when no server answered for 5/8 of --session-timeout.\n\
     Exit code: the command's; 75: busy, 76: lost, 64: usage, 69: no ZooKeeper,\n\
     126, 127: cannot execute, 128+N: signal N.\n\
     Example: zklock run /jobs/cleanup -n -- ./cleanup.sh. {SEE_ALSO}"
))]
pub(crate) struct Run {
    /// Path of the lock. With several, all or none
    #[arg(required = true, value_name = "PATH", value_parser = path)]
    pub(crate) paths: Vec<String>,
    /// Do not wait: exit with 75 if the lock is busy
    #[arg(long, short)]
    pub(crate) nonblock: bool,
    /// Longest time to connect and wait (10s, 1m 30s); with -n, to connect
    #[arg(long, short = 'w', value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Run only if KEY is not recorded as done
    #[arg(long, value_name = "KEY", conflicts_with_all = ["read", "write", "count"])]
    pub(crate) once: Option<String>,
    /// Print nothing if it is busy or done
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// File for node_exporter (DIR/NAME.prom)
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_file: Option<PathBuf>,
    /// Exit code if the lock is busy
    #[arg(long, short = 'E', value_name = "N", default_value_t = crate::exit::BUSY)]
    pub(crate) conflict_exit_code: u8,
    /// Hold it together with other readers (--shared)
    #[arg(long, short = 's', alias = "shared", conflicts_with_all = ["write", "count"])]
    pub(crate) read: bool,
    /// Hold it alone, without readers (--exclusive)
    #[arg(long, short = 'x', alias = "exclusive", conflicts_with = "count")]
    pub(crate) write: bool,
    /// Hold one of N semaphore leases
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    pub(crate) count: Option<u32>,
    /// Hold one of N numbered places: ZK_LOCK_SLOT, from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), conflicts_with_all = ["once", "read", "write", "count"])]
    pub(crate) slots: Option<u32>,
    /// Prefer the number in FILE, and write it there
    #[arg(long, value_name = "FILE", requires = "slots")]
    pub(crate) slot_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) supervision: Supervision,
    /// If asked to give the lock back: send TERM, or not
    #[arg(long, value_name = "term|ignore", default_value = "term", hide_possible_values = true)]
    pub(crate) on_revoke: OnRevoke,
    /// Command line for /bin/sh; with one PATH
    #[arg(long = "shell", short = 'c', value_name = "LINE", conflicts_with = "command")]
    pub(crate) line: Option<OsString>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How the command is ended when the lock is lost.
#[derive(Clone, Debug, Args)]
pub(crate) struct Supervision {
    /// At a loss: TERM and KILL, only KILL, or a message
    #[arg(
        long,
        value_name = "term|kill|warn",
        default_value = "term",
        hide_possible_values = true
    )]
    pub(crate) on_lost: OnLost,
    /// From TERM to KILL [default: session timeout/6, in an outage /24]
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

/// Stand for election, and run a command while leader. Without a command, print "leader" or "follower" at each change.
#[derive(Debug, Args)]
#[command(
    override_usage = "zklock elect [OPTIONS] <PATH> [-- <COMMAND> [ARG]...]",
    after_help = format!("Example: zklock elect /services/mailer -- ./mailer\n{SEE_ALSO}")
)]
pub(crate) struct Elect {
    /// Path of the election
    #[arg(value_parser = path)]
    pub(crate) path: String,
    /// Exit with 76 when the leadership is lost, instead of standing again
    #[arg(long)]
    pub(crate) once: bool,
    /// File for node_exporter (DIR/NAME.prom)
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) supervision: Supervision,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Report the leader at once, and then a line for each change.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock observe /services/mailer --json\n{SEE_ALSO}"))]
pub(crate) struct Observe {
    /// Path of the election
    #[arg(value_parser = path)]
    pub(crate) path: String,
    /// Print a JSON object in each line
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the holders and the waiters of a lock, in the order of the queue. With -r, list the locks below a path.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Example: zklock ls /jobs/nightly --watch\n\
     Example: zklock ls -r / --waiting --sort wait\n{SEE_ALSO}"
))]
pub(crate) struct Ls {
    /// Path of the lock, or of a folder
    #[arg(value_parser = path)]
    pub(crate) path: String,
    /// List each lock, election and group from PATH down
    #[arg(long, short, conflicts_with_all = ["watch", "expect"])]
    pub(crate) recursive: bool,
    /// With -r, sort by longest wait or oldest hold
    #[arg(long, value_name = "wait|age", requires = "recursive", hide_possible_values = true)]
    pub(crate) sort: Option<Sort>,
    /// With -r, only those with waiters or no permission
    #[arg(long, requires = "recursive")]
    pub(crate) waiting: bool,
    /// Print a JSON array of objects
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeat at this interval [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration, num_args = 0..=1, default_missing_value = "2s", require_equals = true)]
    pub(crate) watch: Option<Duration>,
    /// Exit with 1 unless N sessions contend within 30 s (300 looks)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "watch")]
    pub(crate) expect: Option<u32>,
}

/// The time by which the locks of `ls -r` are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Wait,
    Age,
}

/// Ask the holders to give a lock back. `zklock run` and `zklock elect` then send TERM to their command.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock revoke /jobs/nightly\n{SEE_ALSO}"))]
pub(crate) struct Revoke {
    /// Path of the lock
    #[arg(value_parser = path)]
    pub(crate) path: String,
    /// Ask only this contender, by the name of its znode
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
}

/// Delete a holder's znode. This does not stop the holder, and the next waiter gets the lock at once.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock break /jobs/nightly\n{SEE_ALSO}"))]
pub(crate) struct Break {
    /// Path of the lock
    #[arg(value_parser = path)]
    pub(crate) path: String,
    /// Delete only this znode, by its name
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Delete the znodes of all holders
    #[arg(long, conflicts_with = "node")]
    pub(crate) all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Connect to each server alone, and create and delete a znode under PATH.
#[derive(Debug, Args)]
#[command(after_help = format!("Example: zklock check /jobs/nightly\n{SEE_ALSO}"))]
pub(crate) struct Check {
    /// Path of a lock
    #[arg(value_parser = path)]
    pub(crate) path: Option<String>,
}

/// The shortest default of [`Grace::notice`], unless the session is as short.
const SHORTEST_NOTICE: Duration = Duration::from_secs(1);

/// How long a command has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grace {
    /// The time from TERM to KILL.
    pub(crate) kill_after: Duration,
    /// The time from TERM to the end of the lease, if no server answers.
    pub(crate) notice: Duration,
}

impl Supervision {
    /// Returns the times from TERM to KILL: that of the option, or shares of the session timeout that the servers granted. The end of
    /// the lease is told so late that a command outlasts an outage of a third of the session timeout. The last answer may be
    /// a seventh old when the outage begins, and the next one may take a tenth.
    pub(crate) fn grace(&self, session: Duration) -> Result<Grace, Failure> {
        let longest = session / 3;
        match self.kill_after {
            None => {
                let kill_after = session / 6;
                let notice = (session / 24).max(SHORTEST_NOTICE).min(kill_after);
                Ok(Grace { kill_after, notice })
            }
            Some(time) if time <= longest => Ok(Grace { kill_after: time, notice: time }),
            Some(time) => Err(Failure::usage(format!(
                "--kill-after {time:?} is too long: at most a third of the session timeout, which is {session:?}"
            ))),
        }
    }
}

impl Arguments {
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(env::args_os());
        let matches = matches.map_err(|error| {
            let explained = mistakes::explained(&error);
            explained.map_or(error, |wrong| command.error(ErrorKind::ValueValidation, wrong))
        })?;
        let arguments = Self::from_arg_matches(&matches)?;
        if let Command::Run(run) = &arguments.command {
            run.check().map_err(|(kind, wrong)| command.error(kind, wrong))?;
        }
        Ok(arguments)
    }
}

impl Command {
    /// Returns the paths of the locks.
    pub(crate) fn paths(&self) -> &[String] {
        match self {
            Self::Run(run) => &run.paths,
            Self::Elect(elect) => slice::from_ref(&elect.path),
            Self::Observe(observe) => slice::from_ref(&observe.path),
            Self::Ls(ls) => slice::from_ref(&ls.path),
            Self::Revoke(revoke) => slice::from_ref(&revoke.path),
            Self::Break(breaking) => slice::from_ref(&breaking.path),
            Self::Check(check) => check.path.as_slice(),
            Self::Completions { .. } | Self::Man { .. } => &[],
        }
    }
}

impl Run {
    /// Rejects a command line without a command, and one whose command is among the paths, where it would be taken
    /// for a lock.
    fn check(&self) -> Result<(), (ErrorKind, String)> {
        let [_, others @ ..] = self.paths.as_slice() else { return Ok(()) };
        let of_one_path = [("--once", self.once.is_some()), ("--slots", self.slots.is_some())];
        if let Some((option, _)) = of_one_path.into_iter().find(|(_, is_given)| *is_given)
            && !others.is_empty()
        {
            return Err((ErrorKind::ArgumentConflict, format!("{option} takes one PATH")));
        }
        // The first path may be the name of a file, as with `flock`, but not if `-c` belongs to a shell.
        let candidates = if self.line.is_some() { &self.paths } else { others };
        if let Some(program) = candidates.iter().find(|path| is_program(path)) {
            let wrong = format!("{program} is a program on this machine: {DASHES}");
            return Err((ErrorKind::ValueValidation, wrong));
        }
        if let Some(word) = others.iter().find(|path| !path.starts_with('/')) {
            let wrong = format!("{word} is no path of a lock: {DASHES}");
            return Err((ErrorKind::ValueValidation, wrong));
        }
        if self.line.is_some() && self.paths.len() > 1 {
            let wrong = format!("-c takes one PATH: {DASHES}");
            return Err((ErrorKind::ArgumentConflict, wrong));
        }
        if self.line.is_none() && self.command.is_empty() {
            let wrong = format!("no command: {EXAMPLE}, or --shell LINE");
            return Err((ErrorKind::MissingRequiredArgument, wrong));
        }
        Ok(())
    }
}

/// Returns true if this is an executable file on this machine.
fn is_program(path: &str) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns the parser of the command line, for help, completions and the manual.
pub(crate) fn command() -> clap::Command {
    let mut command = Arguments::command().mut_args(|argument| {
        let variable = format!("ZKLOCK_{}", argument.get_id().as_str().to_ascii_uppercase());
        argument.hide_env(true).env(variable)
    });
    // This gives the subcommands the global options.
    command.build();
    command.mut_subcommands(|command| {
        command.mut_args(|argument| {
            let of_all = argument.is_global_set();
            argument.hide(of_all)
        })
    })
}

/// The longest duration that a timer and a point in time are known to support.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Parses `10s`, `1m 30s`, or a bare number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }?;
    if duration > LONGEST {
        return Err("it must be at most 365 days".to_owned());
    }
    Ok(duration)
}

/// Removes the slashes at the end of a path, which the completion of a shell may add.
fn path(text: &str) -> Result<String, Infallible> {
    let path = text.trim_end_matches('/');
    Ok(if path.is_empty() && !text.is_empty() { "/".to_owned() } else { path.to_owned() })
}

/// Parses the timeout of a session or of a connection.
fn timeout(text: &str) -> Result<Duration, String> {
    let shortest = Duration::from_millis(100);
    let longest = Duration::from_secs(24 * 60 * 60);
    let timeout = duration(text)?;
    let bounded = (shortest..=longest).contains(&timeout).then_some(timeout);
    bounded.ok_or_else(|| "it must be from 100 ms to 24 h".to_owned())
}

fn timeout_of_file<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let text = match Value::deserialize(value)? {
        Value::String(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => {
            let wrong = other.type_str();
            let wrong = format!("a timeout is a string or a number, not of type {wrong}");
            return Err(D::Error::custom(wrong));
        }
    };
    let wrong = |wrong| D::Error::custom(format!("timeout {text}: {wrong}"));
    timeout(&text).map(Some).map_err(wrong)
}
