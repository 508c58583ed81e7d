//! A peer's process, which is asked in lines on its standard input.
//!
//! A question is `NUMBER COMMAND ARGUMENTS`, its answer `> NUMBER ok WORDS` or `> NUMBER error TEXT`; other lines are noise.
//! Answers come in any order, so that any number of waits can be under way.
//!
//! It ends with us, however we end: at the end of its input, and by the death signal of its parent, also if it is
//! stopped.

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::oneshot::{self, Receiver, Sender};
use zookeeper_recipes_dev::within;

pub(crate) type Told = Result<String, String>;

pub(crate) struct Peer {
    /// As the table calls it.
    pub(crate) name: &'static str,
    child: Arc<Mutex<Child>>,
    input: Mutex<ChildStdin>,
    asked: Arc<Mutex<HashMap<u64, Sender<Told>>>>,
    number: AtomicU64,
}

/// What was asked. The question is on its way, whether this is awaited or not.
pub(crate) struct Answer {
    question: String,
    receiver: Receiver<Told>,
}

impl Peer {
    /// Its standard error goes to `log`.
    pub(crate) fn start(name: &'static str, program: &[String], log: &Path) -> Arc<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log).unwrap());
        let asked: Arc<Mutex<HashMap<u64, Sender<Told>>>> = Arc::default();
        let (sender, started) = mpsc::channel();
        let waiting = asked.clone();
        // The death signal is that of the thread which started it: one that lives as long as the process.
        std::thread::spawn(move || {
            let mut child = command.spawn().expect("setpriv, of util-linux");
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let child = Arc::new(Mutex::new(child));
            sender.send((child.clone(), input)).unwrap();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                hear(&line, &waiting);
            }
            waiting.lock().unwrap().clear();
            let _ = child.lock().unwrap().wait();
        });
        let (child, input) = started.recv().expect("a process");
        let (input, number) = (Mutex::new(input), AtomicU64::new(0));
        Arc::new(Self { name, child, input, asked, number })
    }

    /// Asks, and does not wait for the answer.
    pub(crate) fn begin(&self, question: impl Into<String>) -> Answer {
        let question = question.into();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.asked.lock().unwrap().insert(number, sender);
        let written = writeln!(self.input.lock().unwrap(), "{number} {question}");
        written.unwrap_or_else(|error| panic!("{} is gone: {error}", self.name));
        Answer { question: format!("{}: {question}", self.name), receiver }
    }

    pub(crate) async fn ask(&self, question: impl Into<String>) -> String {
        self.begin(question).await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.lock().unwrap().kill();
    }
}

fn hear(line: &str, waiting: &Mutex<HashMap<u64, Sender<Told>>>) {
    let mut words = line.splitn(4, ' ');
    let (Some(">"), Some(number), Some(how)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let text = words.next().unwrap_or_default().to_owned();
    let told = if how == "ok" { Ok(text) } else { Err(text) };
    let sender = number.parse().ok().and_then(|number| waiting.lock().unwrap().remove(&number));
    if let Some(sender) = sender {
        let _ = sender.send(told);
    }
}

impl Answer {
    /// The answer, or what went wrong.
    pub(crate) async fn outcome(self) -> Told {
        let Self { question, receiver } = self;
        let told = within(&question, receiver).await;
        told.unwrap_or_else(|_| panic!("{question}: it ended"))
    }

    /// What went wrong.
    pub(crate) async fn error(self) -> String {
        let question = self.question.clone();
        self.outcome().await.expect_err(&question)
    }

    /// Whether it has come.
    pub(crate) fn is_there(&self) -> bool {
        !self.receiver.is_empty()
    }
}

impl IntoFuture for Answer {
    type Output = String;
    type IntoFuture = Pin<Box<dyn Future<Output = String>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let question = self.question.clone();
            self.outcome().await.unwrap_or_else(|error| panic!("{question}: {error}"))
        })
    }
}
