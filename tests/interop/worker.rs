//! Our side: this executable, called to run nothing but `worker`. It knows the commands of `lock.rs`.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zookeeper_recipes::{Curator, RetryPolicy, Revoker, SharedCount};

use crate::ours::{Guard, Lock, Result, now};

const LIMIT_IN_A_LOOP: Duration = Duration::from_secs(30);

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
    let worker = Arc::<Worker>::default();
    while let Some(line) = lines.recv().await {
        let worker = worker.clone();
        tokio::spawn(async move { worker.answer(&line).await });
    }
    // At once: the sessions are left to the server.
    std::process::exit(0);
}

#[derive(Default)]
struct Worker {
    sessions: Mutex<HashMap<String, Curator>>,
    locks: Mutex<HashMap<String, Arc<Entry>>>,
    counts: Mutex<HashMap<String, SharedCount>>,
}

struct Entry {
    lock: Lock,
    held: Mutex<Vec<Guard>>,
}

async fn pause(longest: Duration) {
    tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
}

fn micros(word: &str) -> Result<Duration> {
    Ok(Duration::from_micros(word.parse()?))
}

fn millis(word: &str) -> Result<Duration> {
    Ok(Duration::from_millis(word.parse()?))
}

fn word(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

impl Worker {
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
                self.connect(session, servers, millis(timeout)?, "/").await
            }
            ["connect-in", session, servers, timeout, namespace] => {
                self.connect(session, servers, millis(timeout)?, &format!("/{namespace}")).await
            }
            ["lock", name, session, kind, path] => self.lock(name, session, kind, path),
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
                let lost = self.entry(name)?.held.lock().unwrap().last().map(Guard::lost);
                let loss = lost.ok_or("not held")?.await;
                Ok(format!("{loss} {}", now()))
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
                let entry = self.entry(name)?;
                let requested = entry.held.lock().unwrap().last().map(Guard::requested);
                requested.ok_or("not held")?.await?;
                Ok(now().to_string())
            }
            ["revoke", session, node] => {
                let revoker = Revoker::new(&self.session(session)?);
                let stood = revoker.attempt_revoke(node).await?;
                Ok(stood.to_string())
            }
            ["leader", name] => self.entry(name)?.lock.leader().await,
            ["participants", name] => Ok(self.entry(name)?.lock.participants().await?.join(" ")),
            ["holds", name, time, longest] => {
                self.entry(name)?.holds(millis(time)?, micros(longest)?).await
            }
            ["holds-under-faults", name, time, longest] => {
                self.entry(name)?.holds_under_faults(millis(time)?, micros(longest)?).await
            }
            ["downgrades", write, _read, time, longest] => {
                downgrades(&self.entry(write)?.lock, millis(time)?, micros(longest)?).await
            }
            _ => Err(format!("unknown: {words:?}").into()),
        }
    }

    async fn connect(
        &self,
        session: &str,
        servers: &str,
        timeout: Duration,
        namespace: &str,
    ) -> Result<String> {
        let builder = Curator::builder()
            .session_timeout(timeout)
            .retry(RetryPolicy::n_times(100, Duration::from_millis(100)))
            .namespace(namespace)
            .identity(session);
        let curator = builder.connect(servers).await?;
        self.sessions.lock().unwrap().insert(session.to_owned(), curator);
        Ok(String::new())
    }

    fn lock(&self, name: &str, session: &str, kind: &str, path: &str) -> Result<String> {
        let lock = Lock::new(&self.session(session)?, kind, path, |name| self.count(name))?;
        let entry = Arc::new(Entry { lock, held: Mutex::default() });
        self.locks.lock().unwrap().insert(name.to_owned(), entry);
        Ok(String::new())
    }

    /// Who writes may read beside it.
    async fn acquire(&self, name: &str, limit: Option<Duration>, count: usize) -> Result<bool> {
        let entry = self.entry(name)?;
        let own_write = name.strip_suffix(".read").map(|owner| format!("{owner}.write"));
        let own_write = own_write.and_then(|name| self.entry(&name).ok());
        let writes =
            own_write.and_then(|write| write.held.lock().unwrap().last().and_then(Guard::writes));
        let guard = match writes {
            Some(writes) => Some(Guard::Other(Box::new(writes.read().await?))),
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
    async fn release(&self) -> Result<String> {
        let guard = self.held.lock().unwrap().pop().ok_or("not held")?;
        let before = now();
        guard.release().await?;
        Ok(before.to_string())
    }

    /// What it logs of a hold lies within it: after the acquisition, before the release.
    async fn holds(&self, time: Duration, longest: Duration) -> Result<String> {
        let end = now() + u64::try_from(time.as_nanos())?;
        let mut log = Vec::new();
        while now() < end {
            let guard = in_time(&self.lock).await?;
            let from = now();
            pause(longest).await;
            log.push(format!("{from}:{}", now()));
            guard.release().await?;
            pause(longest).await;
        }
        Ok(log.join(" "))
    }
}

impl Entry {
    /// Whatever becomes of the session. Of a hold it logs what the guard said yes to: from a stamp after the first yes to
    /// one before the last. How many were lost is the last word; it goes on until one was.
    async fn holds_under_faults(&self, time: Duration, longest: Duration) -> Result<String> {
        let end = now() + u64::try_from(time.as_nanos())?;
        let (mut log, mut lost) = (Vec::new(), 0);
        while now() < end || lost == 0 {
            let limit = Some(Duration::from_secs(1));
            let Ok(Some(guard)) = self.lock.acquire(limit, 1).await else { continue };
            let is_held = guard.is_held();
            let from = now();
            self.held.lock().unwrap().push(guard);
            let until = from + u64::try_from(longest.mul_f64(fastrand::f64()).as_nanos())?;
            let mut yes = is_held.then_some(from);
            while yes.is_some() && now() < until {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let before = now();
                if !self.held.lock().unwrap().last().is_some_and(Guard::is_held) {
                    lost += 1;
                    break;
                }
                yes = Some(before);
            }
            log.extend(yes.map(|yes| format!("{from}:{yes}")));
            let guard = self.held.lock().unwrap().pop().ok_or("not held")?;
            // That it was lost is known; and a release that nobody confirms goes on.
            let _ = guard.release().await;
            pause(Duration::from_millis(5)).await;
        }
        log.push(lost.to_string());
        Ok(log.join(" "))
    }
}

async fn in_time(lock: &Lock) -> Result<Guard> {
    Ok(lock.acquire(Some(LIMIT_IN_A_LOOP), 1).await?.ok_or("not acquired")?)
}

/// Each write hold is followed by a read hold, in the two ways there are.
async fn downgrades(write: &Lock, time: Duration, longest: Duration) -> Result<String> {
    let end = now() + u64::try_from(time.as_nanos())?;
    let mut log = Vec::new();
    while now() < end {
        let Guard::Write(writes) = in_time(write).await? else { return Err("no writer".into()) };
        let wrote = now();
        pause(longest).await;
        let (until, reads, read) = if fastrand::bool() {
            let until = now();
            let read = writes.downgrade().await?;
            (until, now(), read)
        } else {
            let read = writes.read().await?;
            let reads = now();
            pause(longest).await;
            let until = now();
            writes.release().await?;
            (until, reads, read)
        };
        log.push(format!("{wrote}:{until}"));
        pause(longest).await;
        log.push(format!("{reads}:{}", now()));
        read.release().await?;
        pause(longest).await;
    }
    Ok(log.join(" "))
}
