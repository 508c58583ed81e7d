//! A program that ends with this process, however that ends, without unsafe code.
//!
//! The program runs under a shell that holds the reading end of a pipe. Only we hold the other end, which the
//! standard library opens so that no child inherits it. The system closes it when this process ends for any reason,
//! and the shell then kills the program and removes its folder. If we close the pipe ourselves, we first write a
//! line, and the folder stays. The shell ends when the program does, so waiting for the shell is waiting for the
//! program.
//!
//! The shell and the program are in a process group of their own: a Ctrl-C in the terminal reaches us, and the two
//! end when we do.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;
use tokio::time::sleep;

const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// `$1` is the folder and `$2` the log in it; the rest is the program. The program's id is the only line on standard
/// output.
///
/// The first background job is the program. The second one kills it at a line or at the end of the pipe, unless it
/// has ended before. The kernel sends HUP to all of them if their owner dies while the program is stopped.
const SCRIPT: &str = r#"
trap '' HUP
exec 3<&0 </dev/null
folder=$1 log=$2
shift 2
"$@" >>"$log" 2>&1 3<&- &
program=$!
( read -r _ <&3 || : >"$folder/orphaned"; kill -KILL "$program" ) >/dev/null 2>&1 &
guard=$!
echo "$program"
exec >/dev/null 2>&1
wait "$program"
kill -KILL "$guard"
wait "$guard"
[ ! -e "$folder/orphaned" ] || rm -rf "$folder"
"#;

/// A running program. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub(super) struct Supervised {
    pid: Pid,
    /// Closing this pipe kills the program.
    lifeline: Option<ChildStdin>,
    ended: watch::Receiver<bool>,
    waiter: Option<JoinHandle<()>>,
}

impl Supervised {
    /// Starts the program. This blocks for the milliseconds that the shell needs.
    pub(super) fn spawn(
        program: &Path,
        arguments: &[OsString],
        folder: &Path,
        log: &Path,
    ) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "zookeeper-testkit"])
            .args([folder, log])
            .arg(program)
            .args(arguments)
            .current_dir(folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lifeline = shell.stdin.take();
        let pid = match read_pid(&mut shell) {
            Ok(pid) => pid,
            Err(error) => {
                drop(lifeline);
                let _ = shell.wait();
                return Err(error);
            }
        };
        let (announce, ended) = watch::channel(false);
        let waiter = thread::Builder::new().name("testkit-wait".to_owned()).spawn(move || {
            let _ = shell.wait();
            announce.send_replace(true);
        })?;
        Ok(Self { pid, lifeline, ended, waiter: Some(waiter) })
    }

    /// Sends a signal to the program itself. Nothing happens if it has ended.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        match kill(self.pid, signal) {
            // The shell has reaped the program, and is about to end.
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns when every thread has stopped after a stop signal: the signal reaches each thread in its own time, and
    /// the system notifies only the shell.
    pub(super) async fn stopped(&self) {
        while !self.has_ended() && self.any_thread_runs() {
            sleep(CHECK_INTERVAL).await;
        }
    }

    fn any_thread_runs(&self) -> bool {
        // Without /proc the threads cannot be checked, but the signal has been sent.
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return false;
        };
        threads.flatten().any(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state follows the name in parentheses, which may contain parentheses of its own.
            let state = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            !state.is_empty() && !state.starts_with(['T', 't', 'Z', 'X'])
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Returns when the program has ended.
    pub(super) async fn ended(&self) {
        // An error means that the waiting thread has ended, and so has the shell.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Some(mut lifeline) = self.lifeline.take() {
            let _ = lifeline.write_all(b"\n"); // it may have ended
        }
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.join();
        }
    }
}

fn read_pid(shell: &mut Child) -> io::Result<Pid> {
    let mut line = String::new();
    if let Some(output) = shell.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let number = line
        .trim()
        .parse::<i32>()
        .map_err(|_| io::Error::other("the shell did not start the program"))?;
    Ok(Pid::from_raw(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_to_a_program_that_has_just_ended_is_no_error() {
        let folder = std::env::temp_dir();
        for _ in 0..20 {
            let program =
                Supervised::spawn(Path::new("/bin/true"), &[], &folder, Path::new("/dev/null"));
            let program = program.unwrap();
            while !program.has_ended() {
                program.signal(Signal::SIGCONT).unwrap();
            }
        }
    }
}
