//! ZooKeeper, one server. Its defaults but for a short tick: sessions expire at ticks, and last two of them at least.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::first_line;
use crate::Failure;
use crate::process::dies_with_us;

const SYSTEM: &str = "/usr/share/java";
const SYSTEM_JARS: [&str; 4] =
    ["zookeeper.jar", "zookeeper-jute.jar", "slf4j-log4j12.jar", "log4j-1.2.jar"];
const LOG4J: &str = "log4j.rootLogger=WARN, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %-5p %c{1} - %m%n
";

/// The upstream archive logs by this instead; each reads its own and ignores the other's.
const LOGBACK: &str = r#"<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} %-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="CONSOLE"/></root>
</configuration>
"#;

fn home() -> Option<PathBuf> {
    std::env::var_os("ZOOKEEPER_HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

fn java() -> String {
    let home = std::env::var("JAVA_HOME").ok().filter(|home| !home.is_empty());
    home.map_or_else(|| "java".to_owned(), |home| format!("{home}/bin/java"))
}

fn class_path() -> Result<String, String> {
    if let Some(home) = home() {
        return Ok(format!("{}/lib/*", home.display()));
    }
    let jars = SYSTEM_JARS.map(|jar| format!("{SYSTEM}/{jar}"));
    match jars.iter().take(2).find(|jar| !Path::new(jar).is_file()) {
        Some(missing) => Err(format!("ZOOKEEPER_HOME is not set and there is no {missing}")),
        None => Ok(jars.join(":")),
    }
}

/// `Apache ZooKeeper, version 3.8.0 …`
pub(super) fn version() -> Result<String, String> {
    let main = "org.apache.zookeeper.version.VersionInfoMain";
    let line = first_line(&java(), &["-cp", &class_path()?, main])?;
    let version = line.split_once("version ").map(|(_, rest)| rest);
    let word = version.and_then(|rest| rest.split([' ', '-', ',']).next());
    Ok(word.unwrap_or(&line).to_owned())
}

pub(super) fn command(port: u16, folder: &Path) -> Result<Command, Failure> {
    let lines = [
        format!("dataDir={}", folder.join("data").display()),
        "clientPortAddress=127.0.0.1".to_owned(),
        format!("clientPort={port}"),
        "tickTime=200".to_owned(),
        "minSessionTimeout=1000".to_owned(),
        "maxSessionTimeout=60000".to_owned(),
        "maxClientCnxns=0".to_owned(),
        "admin.enableServer=false".to_owned(),
        "4lw.commands.whitelist=*".to_owned(),
        String::new(),
    ];
    fs::write(folder.join("zoo.cfg"), lines.join("\n"))?;
    fs::write(folder.join("log4j.properties"), LOG4J)?;
    fs::write(folder.join("logback.xml"), LOGBACK)?;
    let mut command = dies_with_us(&java());
    // What a killed Java leaves in the system's folder of temporary files would be removed by nobody.
    command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
    command.arg(format!("-Djava.io.tmpdir={}", folder.display()));
    command.arg("-cp").arg(format!("{}:{}", folder.display(), class_path()?));
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(folder.join("zoo.cfg"));
    Ok(command)
}

async fn word(address: &str, word: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

pub(super) async fn serves(address: &str) -> bool {
    word(address, "srvr").await.is_ok_and(|answer| answer.contains("Mode:"))
}

/// Packets: pings too.
pub(super) async fn requests(address: &str) -> Result<u64, Failure> {
    let answer = word(address, "srvr").await?;
    let line = answer.lines().find_map(|line| line.strip_prefix("Received: "));
    Ok(line.ok_or("no such counter")?.trim().parse()?)
}
