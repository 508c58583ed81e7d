//! A command that runs while something is held, and is dead before anybody else can hold it.
//!
//! Three processes: `zklock`; the supervisor, which is the same program; and the command, in a group of its own.
//!
//! | what ends | what ends the command |
//! | --- | --- |
//! | the contact to ZooKeeper | the supervisor, at the end of the lease that it was last told |
//! | `zklock`, by whatever | the supervisor, at once: the socket between them says so |
//! | `zklock` is stopped, or hangs | the supervisor, at the end of the lease |
//! | the supervisor | the kernel the command (`PR_SET_PDEATHSIG`), `zklock` the rest |
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

/// What `ps` shows of the processes beside `zklock`. Not its name: who signals everything of that name has not them in mind.
const NAME: &str = "lock-supervisor";

pub(crate) use execute::{EXECUTE, main as execute};
pub(crate) use orphans::bury_all;
pub(crate) use supervisor::{SUPERVISE, main as supervise};
pub(crate) use terminal::Terminal;
pub(crate) use watch::{End, Supervisor};
pub(crate) use watched::Watched;
