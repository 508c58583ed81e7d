//! A server as a local Java process.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::distribution::Distribution;
use super::options::{INIT_LIMIT, SYNC_LIMIT, ServerOptions};
use super::scratch::Folder;
use super::seat::Seat;
use super::wrapper::Supervised;
use super::{Backend, TestkitError, security};

/// Time from the request to stop until the kill.
const GRACE: Duration = Duration::from_secs(10);

/// Debian's package logs by log4j 1.2, the upstream archive by logback; each reads its own and ignores the other's.
const LOG4J: &str = "log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} [%t] %-5p %c{1} - %m%n
";
const LOGBACK: &str = r#"<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} [%thread] %-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="CONSOLE"/></root>
</configuration>
"#;

/// The fields are dropped in this order: first the process, then the things that it uses.
#[derive(Debug)]
pub(super) struct Process {
    running: Mutex<Option<Supervised>>,
    folder: Folder,
    seat: Seat,
    distribution: std::sync::Mutex<Distribution>,
    options: ServerOptions,
}

impl Process {
    pub(super) async fn launch(options: &ServerOptions, seat: Seat) -> Result<Self, TestkitError> {
        let distribution = Distribution::find()?;
        let folder = Folder::create()?;
        let process = Self {
            running: Mutex::new(None),
            folder,
            seat,
            distribution: distribution.into(),
            options: options.clone(),
        };
        process.write_configuration()?;
        process.launch_again().await?;
        Ok(process)
    }

    /// Sets the distribution of which the server is started from now on.
    pub(super) fn set_distribution(&self, home: &Path) -> Result<(), TestkitError> {
        let mut distribution = self.distribution.lock().unwrap_or_else(PoisonError::into_inner);
        *distribution = distribution.at(home)?;
        Ok(())
    }

    pub(super) async fn launch_again(&self) -> Result<(), TestkitError> {
        self.ensure_running(&mut *self.running.lock().await).map(drop)
    }

    fn ensure_running<'a>(
        &self,
        running: &'a mut Option<Supervised>,
    ) -> Result<&'a Supervised, TestkitError> {
        let server = match running.take() {
            Some(server) if !server.has_ended() => {
                // The server may be paused.
                signal(&server, Signal::SIGCONT)?;
                server
            }
            _ => self.spawn()?,
        };
        Ok(running.insert(server))
    }

    pub(super) async fn start_again(&self) -> Result<(), TestkitError> {
        let mut running = self.running.lock().await;
        // A running server does not necessarily serve yet.
        let server = self.ensure_running(&mut running)?;
        let serving = self.seat.until_serving(self.options.start_timeout, server.ended());
        let Err(fate) = serving.await else { return Ok(()) };
        *running = None;
        let log = fs::read(self.log_file()).unwrap_or_default();
        Err(self.seat.not_serving(Backend::Process, fate, &log))
    }

    pub(super) async fn stop(&self) -> Result<(), TestkitError> {
        self.end(Signal::SIGTERM).await
    }

    pub(super) async fn kill(&self) -> Result<(), TestkitError> {
        self.end(Signal::SIGKILL).await
    }

    async fn end(&self, by: Signal) -> Result<(), TestkitError> {
        let mut running = self.running.lock().await;
        let Some(server) = running.as_ref() else { return Ok(()) };
        signal(server, by)?;
        // A paused server must wake up to handle the signal.
        signal(server, Signal::SIGCONT)?;
        if timeout(GRACE, server.ended()).await.is_err() {
            tracing::warn!("the server at {} ignores {by}", self.seat.client.address());
            signal(server, Signal::SIGKILL)?;
            server.ended().await;
        }
        *running = None;
        Ok(())
    }

    pub(super) async fn pause(&self) -> Result<(), TestkitError> {
        let running = self.running.lock().await;
        let Some(server) = running.as_ref() else { return Ok(()) };
        signal(server, Signal::SIGSTOP)?;
        let stopped = timeout(GRACE, server.stopped()).await;
        stopped.map_err(|_| TestkitError::Timeout {
            operation: "pause the server".to_owned(),
            waited: GRACE,
        })
    }

    pub(super) async fn resume(&self) -> Result<(), TestkitError> {
        self.running.lock().await.as_ref().map_or(Ok(()), |server| signal(server, Signal::SIGCONT))
    }

    pub(super) async fn close(self) -> Result<(), TestkitError> {
        self.kill().await?;
        self.folder.remove()
    }

    fn spawn(&self) -> Result<Supervised, TestkitError> {
        let folder = self.folder.path();
        let distribution = self.distribution.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arguments: Vec<OsString> =
            self.options.all_jvm_flags().map(OsString::from).collect();
        let logins = security::jvm_flag(&self.options, &folder.to_string_lossy());
        arguments.extend(logins.map(OsString::from));
        // A killed Java would leave a file in the system's temporary folder that nothing removes.
        arguments.push("-XX:-UsePerfData".into());
        arguments.push([OsString::from("-Djava.io.tmpdir="), folder.into()].into_iter().collect());
        arguments.push("-cp".into());
        arguments.push(distribution.class_path(folder));
        arguments.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
        arguments.push(folder.join("zoo.cfg").into());
        tracing::info!("starting a ZooKeeper process at {}", self.seat.client.address());
        Supervised::spawn(&distribution.java, &arguments, folder, &self.log_file())
            .map_err(TestkitError::cannot("start the server's process"))
    }

    fn write_configuration(&self) -> Result<(), TestkitError> {
        let folder = self.folder.path();
        let data = folder.join("data");
        let mut lines = vec![
            format!("dataDir={}", data.display()),
            "clientPortAddress=127.0.0.1".to_owned(),
            format!("clientPort={}", self.seat.client.number()),
            format!("tickTime={}", self.options.tick_time.as_millis()),
            "maxClientCnxns=0".to_owned(),
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
        ];
        if let Some(voter) = &self.seat.voter {
            fs::create_dir(&data)
                .map_err(TestkitError::cannot(format!("create {}", data.display())))?;
            write(&data.join("myid"), &voter.id.to_string())?;
            lines.extend([
                format!("initLimit={INIT_LIMIT}"),
                format!("syncLimit={SYNC_LIMIT}"),
                "standaloneEnabled=false".to_owned(),
            ]);
            lines.extend(voter.servers.iter().cloned());
        }
        let secure = self.seat.secure.as_ref();
        let port = secure.map_or(0, |seat| seat.port.number());
        let files = folder.to_string_lossy();
        lines.extend(security::lines(&self.options, secure, &files, "127.0.0.1", port));
        lines.extend(self.options.extra_lines());
        lines.push(String::new());
        write(&folder.join("zoo.cfg"), &lines.join("\n"))?;
        for (name, text) in security::files(&self.options, secure) {
            write(&folder.join(name), &text)?;
        }
        write(&folder.join("log4j.properties"), LOG4J)?;
        write(&folder.join("logback.xml"), LOGBACK)
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

fn write(file: &Path, text: &str) -> Result<(), TestkitError> {
    fs::write(file, text).map_err(TestkitError::cannot(format!("write {}", file.display())))
}

fn signal(server: &Supervised, signal: Signal) -> Result<(), TestkitError> {
    server.signal(signal).map_err(TestkitError::cannot(format!("send {signal} to the server")))
}
