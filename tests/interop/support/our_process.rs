//! The process of our side: this executable, started to run `worker` only. The process answers the commands in `commands.rs`.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zookeeper_recipes::interop::{Revoker, SharedCount};
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Hold};

use crate::support::our_recipes::{Guard, Lock, Result, now};

/// The lines of the standard input; nothing where no other test has started this process.
pub(crate) fn questions() -> Option<UnboundedReceiver<String>> {
    // All that are ignored may run, in `make test-all`.
    std::env::args().find(|argument| argument == "--exact")?;
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            let _ = sender.send(line);
        }
    });
    Some(lines)
}

/// No test: our side of the pairs, when they call it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that the other tests start"]
async fn worker() {
    let Some(mut lines) = questions() else { return };
    // Off the line that the test harness began.
    println!();
    let server = Arc::<CommandServer>::default();
    while let Some(line) = lines.recv().await {
        let server = server.clone();
        tokio::spawn(async move { server.answer(&line).await });
    }
    // At once: the sessions are left to the server.
    std::process::exit(0);
}

#[derive(Default)]
struct CommandServer {
    sessions: Mutex<HashMap<String, Curator>>,
    locks: Mutex<HashMap<String, Arc<Entry>>>,
    counts: Mutex<HashMap<String, SharedCount>>,
}

struct Entry {
    lock: Lock,
    held: Mutex<Vec<Guard>>,
}

fn word(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

impl CommandServer {
    async fn answer(&self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let told = match self.obey(&words[1..]).await {
            Ok(words) => format!("ok {words}"),
            Err(error) => format!("error {error:?}").replace('\n', " "),
        };
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "> {} {told}", words[0]).and_then(|()| out.flush());
    }

    async fn obey(&self, words: &[&str]) -> Result<String> {
        match *words {
            ["connect", session, servers, timeout] => {
                self.connect(session, servers, timeout.parse()?).await
            }
            ["end", session, servers] => {
                let client = self.session(session)?.client()?;
                zookeeper_testkit::kill_session(servers, client.session()).await?;
                Ok(String::new())
            }
            ["lock", name, session, kind, path] => {
                self.add(name, Lock::new(&self.session(session)?, kind, path)?);
                Ok(String::new())
            }
            ["counted", name, session, path, limit] => {
                let limit = self.count(limit)?;
                self.add(name, Lock::counted(&self.session(session)?, path, &limit)?);
                Ok(String::new())
            }
            ["acquire", name, limit, count] => {
                let limit = limit.parse::<u64>().ok().map(Duration::from_millis);
                let acquired = self.acquire(name, limit, count.parse()?).await?;
                Ok(format!("{} {}", word(acquired), now()))
            }
            ["release", name] => self.entry(name)?.release().await,
            ["held", name] => {
                let held =
                    self.entry(name)?.held.lock().unwrap().last().is_some_and(Guard::is_held);
                Ok(format!("{} {}", word(held), now()))
            }
            ["lost", name] => {
                let hold = self.entry(name)?.hold()?;
                Ok(format!("{:?} {}", hold.lost().await, now()))
            }
            ["count", name, session, path, seed] => {
                let count =
                    SharedCount::start(&self.session(session)?, path, seed.parse()?).await?;
                self.counts.lock().unwrap().insert(name.to_owned(), count);
                Ok(String::new())
            }
            ["value", name] => Ok(self.count(name)?.value().to_string()),
            ["set", name, value] => {
                self.count(name)?.set(value.parse()?).await?;
                Ok(String::new())
            }
            ["try-add", name, more] => {
                let count = self.count(name)?;
                let seen = count.versioned();
                let was_set = count.try_set(&seen, seen.value + more.parse::<i32>()?).await?;
                Ok(word(was_set).to_owned())
            }
            ["revocable", _name] => Ok(String::new()),
            ["requested", name] => {
                let hold = self.entry(name)?.hold()?;
                tokio::select! {
                    biased;
                    loss = hold.lost() => Err(loss.into()),
                    () = hold.revocation_requested() => Ok(now().to_string()),
                }
            }
            ["revoke", session, node] => {
                let revoker = Revoker::new(&self.session(session)?);
                let stood = revoker.attempt_revoke(node).await?;
                Ok(stood.to_string())
            }
            ["leader", name] => self.entry(name)?.lock.leader().await,
            ["participants", name] => Ok(self.entry(name)?.lock.participants().await?.join(" ")),
            _ => Err(format!("unknown: {words:?}").into()),
        }
    }

    async fn connect(&self, session: &str, servers: &str, millis: u64) -> Result<String> {
        let builder = Curator::builder()
            .session_timeout(Duration::from_millis(millis))
            .retry(RetryPolicy::n_times(100, Duration::from_millis(100)))
            .identity(session);
        let curator = builder.connect(servers).await?;
        self.sessions.lock().unwrap().insert(session.to_owned(), curator);
        Ok(String::new())
    }

    fn add(&self, name: &str, lock: Lock) {
        let entry = Arc::new(Entry { lock, held: Mutex::default() });
        self.locks.lock().unwrap().insert(name.to_owned(), entry);
    }

    /// Who writes may read beside it.
    async fn acquire(&self, name: &str, limit: Option<Duration>, count: usize) -> Result<bool> {
        let entry = self.entry(name)?;
        let own_write = name.strip_suffix(".read").map(|owner| format!("{owner}.write"));
        let own_write = own_write.and_then(|name| self.entry(&name).ok());
        let writes =
            own_write.and_then(|write| write.held.lock().unwrap().last().and_then(Guard::writes));
        let guard = match writes {
            Some(writes) => Some(Guard::One(writes.read().await?)),
            None => entry.lock.acquire(limit, count).await?,
        };
        let acquired = guard.is_some();
        entry.held.lock().unwrap().extend(guard);
        Ok(acquired)
    }

    fn session(&self, name: &str) -> Result<Curator> {
        Ok(self.sessions.lock().unwrap().get(name).cloned().ok_or("no session")?)
    }

    fn count(&self, name: &str) -> Result<SharedCount> {
        Ok(self.counts.lock().unwrap().get(name).cloned().ok_or("no such count")?)
    }

    fn entry(&self, name: &str) -> Result<Arc<Entry>> {
        Ok(self.locks.lock().unwrap().get(name).cloned().ok_or("no such lock")?)
    }
}

impl Entry {
    fn hold(&self) -> Result<Hold> {
        Ok(self.held.lock().unwrap().last().ok_or("not held")?.hold())
    }

    async fn release(&self) -> Result<String> {
        let guard = self.held.lock().unwrap().pop().ok_or("not held")?;
        let before = now();
        guard.release().await?;
        Ok(before.to_string())
    }
}
