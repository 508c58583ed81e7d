//! Runs a command while a lock is held, and ensures that it is dead before another process can hold the lock.
//!
//! There are three processes: `zklock`; the supervisor, which is the same program; and the command, in a group of its
//! own.
//!
//! | event | what ends the command |
//! | --- | --- |
//! | the contact to ZooKeeper is lost | the supervisor, at the end of the last lease that it got |
//! | `zklock` ends for any reason | the supervisor, at once, because the socket between them closes |
//! | `zklock` is stopped, or hangs | the supervisor, at the end of the lease |
//! | the supervisor ends | the kernel ends the command (`PR_SET_PDEATHSIG`), `zklock` the other processes |
//! | the supervisor is stopped | nothing: `zklock` continues it |

mod clock;
mod command;
mod control;
mod ending;
mod execute;
mod orphans;
mod processes;
mod supervisor;
mod terminal;
mod watch;
mod watched;
mod wire;

use std::io;

use crate::exit::{CANNOT_EXECUTE, Failure, INTERNAL};

/// The name of the other processes in `ps`. It is not `zklock`, because a signal to all processes of that name is not
/// meant for them.
const NAME: &str = "lock-supervisor";

pub(crate) use execute::{EXECUTE, main as execute};
pub(crate) use orphans::reap_all;
pub(crate) use supervisor::{SUPERVISE, main as supervise};
pub(crate) use terminal::Terminal;
pub(crate) use watch::{End, Supervisor};
pub(crate) use watched::Watched;

/// Returns the failure to start the command or its supervisor.
fn cannot_start(error: &io::Error) -> Failure {
    let too_long = error.kind() == io::ErrorKind::ArgumentListTooLong;
    let code = if too_long { CANNOT_EXECUTE } else { INTERNAL };
    Failure::new(code, format!("the command cannot be started: {error}"))
}
