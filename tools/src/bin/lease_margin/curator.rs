//! Apache Curator's holders, in a Java process of their own.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::Failure;
use crate::class_path::class_path;
use crate::holders::{Belief, Kind, end};

type Beliefs = Arc<Mutex<HashMap<(String, u64), Belief>>>;

pub(crate) struct CuratorProcess {
    _process: Child,
    input: ChildStdin,
    beliefs: Beliefs,
    /// How many said that they hold, in this round.
    holding: watch::Sender<usize>,
    _reader: AbortOnDropHandle<()>,
    timeouts: Vec<Duration>,
}

impl CuratorProcess {
    /// `None` where Curator or a JDK is not installed.
    pub(crate) fn start(
        servers: &str,
        path: &str,
        timeouts: &[Duration],
    ) -> Result<Option<Self>, Failure> {
        let class_path = match class_path() {
            Ok(class_path) => class_path,
            Err(missing) => {
                println!("Curator is not measured: there is no {missing}");
                return Ok(None);
            }
        };
        let source =
            concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/lease_margin/CuratorHolder.java");
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "--class-path", &class_path, source, servers, path]);
        command.args(timeouts.iter().map(|timeout| timeout.as_millis().to_string()));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the Java process has no pipes".into());
        };
        let (beliefs, holding) = (Beliefs::default(), watch::Sender::new(0));
        let (known, counter) = (beliefs.clone(), holding.clone());
        let reader = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let words: Vec<_> = line.split(' ').collect();
                let [kind, timeout, holds] = words[..] else { continue };
                if holds == "true" {
                    counter.send_modify(|count| *count += 1);
                } else if let Ok(timeout) = timeout.parse()
                    && let Ok(known) = known.lock()
                    && let Some(belief) = known.get(&(kind.to_owned(), timeout))
                {
                    end(belief, Instant::now());
                }
            }
        }));
        let timeouts = timeouts.to_vec();
        let process =
            Self { _process: process, input, beliefs, holding, _reader: reader, timeouts };
        Ok(Some(process))
    }

    /// All acquire anew; gives each one's kind, session timeout, lock path below `path`, and belief.
    pub(crate) async fn acquire(
        &mut self,
        round: &str,
    ) -> Result<Vec<(Kind, Duration, String, Belief)>, Failure> {
        let mut holders = Vec::new();
        self.holding.send_replace(0);
        if let Ok(mut beliefs) = self.beliefs.lock() {
            beliefs.clear();
            for timeout in &self.timeouts {
                for (name, kind) in [("mutex", Kind::CuratorMutex), ("latch", Kind::CuratorLatch)] {
                    let belief = Belief::default();
                    let milliseconds = u64::try_from(timeout.as_millis())?;
                    beliefs.insert((name.to_owned(), milliseconds), belief.clone());
                    let path = format!("{round}-{name}-{milliseconds}");
                    holders.push((kind, *timeout, path, belief));
                }
            }
        }
        self.input.write_all(format!("{round}\n").as_bytes()).await?;
        let expected = holders.len();
        let mut holding = self.holding.subscribe();
        let all = holding.wait_for(|count| *count >= expected);
        tokio::time::timeout(Duration::from_secs(60), all).await??;
        Ok(holders)
    }
}
