//! `zklock` as a process, and its output.

use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Once};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zookeeper_recipes_dev::{LONG, eventually, within};

use crate::support::processes::{Process, send};

pub(crate) const ZKLOCK: &str = env!("CARGO_BIN_EXE_zklock");

/// One that is not yet started.
pub(crate) struct Tool {
    command: Command,
}

/// What we were started with ignored, as by `nohup` or in a script's background, is ignored in all that we start. A handler
/// is not passed on.
fn hear_signals() {
    static HEARD: Once = Once::new();
    HEARD.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
            if ignored >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::default()).unwrap();
            }
        }
    });
}

/// One that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// What comes out of a pipe, until its end.
pub(crate) struct Heard {
    bytes: watch::Receiver<Vec<u8>>,
    reading: JoinHandle<()>,
}

/// One that runs.
pub(crate) struct Running {
    child: Child,
    pub(crate) id: i32,
    pub(crate) stdout: Heard,
    pub(crate) stderr: Heard,
}

impl Tool {
    pub(crate) fn new(program: impl AsRef<OsStr>, folder: &std::path::Path) -> Self {
        hear_signals();
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(folder).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args(mut self, all: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(all);
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Its input: a text that fits into a pipe.
    pub(crate) fn input(mut self, text: &str) -> Self {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        self.command.stdin(reader);
        self
    }

    /// For what only the standard library's command can do.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().expect("a process");
        let id = child.id().expect("it was not awaited").cast_signed();
        let stdout = Heard::from(child.stdout.take());
        let stderr = Heard::from(child.stderr.take());
        Running { child, id, stdout, stderr }
    }

    pub(crate) async fn ended(self) -> Ended {
        self.start().ended().await
    }
}

impl Heard {
    fn from(pipe: Option<impl AsyncRead + Send + Unpin + 'static>) -> Self {
        let (sender, bytes) = watch::channel(Vec::new());
        let reading = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut part = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut part).await {
                sender.send_modify(|all| all.extend_from_slice(&part[..count]));
            }
        });
        Self { bytes, reading }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.borrow()).into_owned()
    }

    /// Waits until this was said.
    pub(crate) async fn says(&mut self, expected: &str) {
        self.until(expected, |text| text.contains(expected)).await;
    }

    /// Waits until there are so many lines; gives all there are.
    pub(crate) async fn lines(&mut self, count: usize) -> Vec<String> {
        let text = self.until("lines", |text| text.matches('\n').count() >= count).await;
        text.lines().map(str::to_owned).collect()
    }

    async fn until(&mut self, what: &str, enough: impl Fn(&str) -> bool) -> String {
        let waiting = self.bytes.wait_for(|bytes| enough(&String::from_utf8_lossy(bytes)));
        if let Ok(Ok(bytes)) = tokio::time::timeout(LONG, waiting).await {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        panic!("never said: {what}; but: {:?}", self.text())
    }

    async fn all(self) -> Vec<u8> {
        within("somebody still has its output open", self.reading).await.unwrap();
        self.bytes.borrow().clone()
    }
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        send(signal, self.id);
    }

    /// Its exit, and the end of its output.
    pub(crate) async fn ended(mut self) -> Ended {
        let status = within("the end of zklock", self.child.wait()).await.unwrap();
        let stdout = self.stdout.all().await;
        let stderr = String::from_utf8_lossy(&self.stderr.all().await).into_owned();
        Ended { status, stdout, stderr }
    }

    /// The same, after this signal.
    pub(crate) async fn ended_by(self, signal: Signal) -> Ended {
        self.signal(signal);
        self.ended().await
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The process between the tool and the command.
    pub(crate) fn supervisor(&self) -> i32 {
        let children = Process::children_of(self.id);
        let [supervisor] = children.as_slice() else { panic!("not one child: {children:?}") };
        supervisor.id
    }

    pub(crate) async fn stop(&self) {
        stop(self.id).await;
    }
}

/// `SIGSTOP`, until it is. A supervisor is sent `SIGCONT` by `zklock` with each renewal of the lease.
pub(crate) async fn stop(id: i32) {
    eventually("it is stopped", async || {
        send(Signal::SIGSTOP, id);
        Process::is_stopped(id)
    })
    .await;
}

impl Ended {
    /// None where a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// It ended with this code, whatever it said.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self}");
        self
    }

    /// It ended with this code and said nothing.
    #[track_caller]
    pub(crate) fn quietly(&self, code: i32) {
        assert_eq!((self.code(), self.stderr.as_str()), (Some(code), ""), "{self}");
    }

    /// As [`last_line`](Self::last_line), and there is no other line.
    #[track_caller]
    pub(crate) fn one_line(&self, code: i32, parts: &[&str]) -> &str {
        let line = self.last_line(code, parts);
        assert_eq!(self.stderr.len(), line.len() + 1, "more than a line: {self}");
        line
    }

    /// It ended with this code, and its last line has all of these in it. Gives the line.
    #[track_caller]
    pub(crate) fn last_line(&self, code: i32, parts: &[&str]) -> &str {
        assert_eq!(self.code(), Some(code), "{self}");
        let all = self.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {self}"));
        let line = all.rsplit('\n').next().unwrap_or(all);
        // With `-v` a time comes first.
        let untimed = line.split_once("Z ").filter(|(time, _)| time.starts_with("20"));
        let message = untimed.map_or(line, |(_, message)| message).strip_prefix("zklock: ");
        let message = message.unwrap_or_else(|| panic!("not its own: {self}"));
        assert!(!message.is_empty(), "an empty line: {self}");
        for part in parts {
            assert!(message.contains(part), "`{part}` is not said: {self}");
        }
        line
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let out = String::from_utf8_lossy(&self.stdout[..self.stdout.len().min(2_000)]);
        let by =
            self.status.signal().map_or(String::new(), |signal| format!(" by signal {signal}"));
        write!(f, "{:?}{by}, stdout: {out:?}, stderr: {:?}", self.code(), self.stderr)
    }
}
