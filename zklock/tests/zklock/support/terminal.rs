//! A terminal: the program at it is a session of its own, by `setsid --ctty` of util-linux.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::tcgetpgrp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::Child;
use tokio::sync::watch;
use zookeeper_recipes_dev::{LONG, eventually, within};

use crate::support::lifeline::Lifeline;
use crate::support::scene::Scene;

pub(crate) const WIDTH: u16 = 100;

pub(crate) struct Terminal {
    master: File,
    /// All that was written to it.
    shown: watch::Receiver<String>,
    child: Child,
    pub(crate) id: i32,
    before: Termios,
    /// Its end is that of the reader.
    closing: UnixStream,
}

impl Terminal {
    /// A program whose input, output and errors are the terminal.
    pub(crate) fn start(
        scene: &Scene,
        program: &[&str],
        variables: &[(&str, &std::ffi::OsStr)],
    ) -> Self {
        Self::with_output(scene, program, variables, None)
    }

    /// The same, with another standard output.
    pub(crate) fn with_output(
        scene: &Scene,
        program: &[&str],
        variables: &[(&str, &std::ffi::OsStr)],
        output: Option<Stdio>,
    ) -> Self {
        // By hand, so that no process which another test starts has it: `openpty` leaves it open for all.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: WIDTH, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname_r(&master).unwrap();
        let mut options = File::options();
        options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
        let slave = options.open(name).unwrap();
        let master = File::from(master.as_fd().try_clone_to_owned().unwrap());
        let before = tcgetattr(&master).unwrap();
        let mut tool = scene.tool("setsid").args(["--ctty"]).args(program).env("TERM", "xterm");
        for (name, value) in variables {
            tool = tool.env(name, value);
        }
        let command = tool.command();
        command.stdin(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap());
        command.stdout(output.unwrap_or_else(|| Stdio::from(slave)));
        let child = command.spawn().unwrap();
        let id = child.id().unwrap().cast_signed();
        let (sender, shown) = watch::channel(String::new());
        let mut reading = master.try_clone().unwrap();
        let (closing, closed) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while readable(&reading, &closed) {
                match reading.read(&mut part) {
                    Ok(0) => return,
                    Ok(count) => {
                        let text = String::from_utf8_lossy(&part[..count]).into_owned();
                        sender.send_modify(|all| all.push_str(&text));
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return, // nobody has the other end open
                }
            }
        });
        Self { master, shown, child, id, before, closing }
    }

    pub(crate) fn text(&self) -> String {
        self.shown.borrow().clone()
    }

    /// Waits until this is shown.
    pub(crate) async fn shows(&mut self, expected: &str) {
        let waiting = self.shown.wait_for(|text| text.contains(expected));
        if !matches!(tokio::time::timeout(LONG, waiting).await, Ok(Ok(_))) {
            panic!("never shown: {expected}; but: {:?}", self.text());
        }
    }

    /// Ctrl-C is `\x03`, Ctrl-Z `\x1a`, Ctrl-\ `\x1c`, Ctrl-D `\x04`.
    pub(crate) fn types(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).unwrap();
    }

    /// Whose group has the terminal.
    pub(crate) fn foreground(&self) -> i32 {
        tcgetpgrp(self.master.as_fd()).unwrap().as_raw()
    }

    pub(crate) async fn foreground_is(&self, group: i32) {
        eventually("it has the terminal", async || self.foreground() == group).await;
    }

    /// Whether it is as it was at the beginning: echo, lines, signals.
    pub(crate) fn is_as_before(&self) -> bool {
        tcgetattr(&self.master).unwrap() == self.before
    }

    /// The window is closed.
    pub(crate) async fn hangs_up(self) {
        let Self { master, mut shown, mut child, closing, .. } = self;
        drop(closing);
        within("nobody reads", async { while shown.changed().await.is_ok() {} }).await;
        drop(master);
        within("the end of the program", child.wait()).await.unwrap();
    }

    /// The command says which process it is, and is given the terminal.
    pub(crate) async fn is_of(&self, life: &mut Lifeline) -> i32 {
        let command = life.process("id").await;
        self.foreground_is(command).await;
        command
    }

    /// It ends with this code; gives all that was shown.
    pub(crate) async fn ends(mut self, code: i32) -> String {
        let status = within("the end of the program", self.child.wait()).await.unwrap();
        // The other end is closed with it, and with all that it started.
        let mut shown = self.shown.clone();
        within("the terminal is left", async { while shown.changed().await.is_ok() {} }).await;
        // As a shell gives it: who is interrupted on a terminal ends by the signal.
        let ended = status.code().or_else(|| Some(128 + status.signal()?));
        assert_eq!(ended, Some(code), "{:?}", self.text());
        self.text()
    }
}

/// False once the other end of `closed` is.
fn readable(terminal: &File, closed: &UnixStream) -> bool {
    let mut files = [PollFd::new(terminal, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
    while poll(&mut files, None).is_err() {}
    files[1].revents().is_empty()
}
