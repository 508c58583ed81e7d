//! etcd, one member, with its defaults.

use std::path::Path;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{first_line, free_port};
use crate::Failure;
use crate::process::dies_with_us;

pub(super) fn version() -> Result<String, String> {
    let line = first_line("etcd", &["--version"])?;
    Ok(line.trim_start_matches("etcd Version: ").to_owned())
}

pub(super) fn command(port: u16, folder: &Path) -> Result<Command, Failure> {
    let clients = format!("http://127.0.0.1:{port}");
    // Nobody connects to it. It may be another after a restart, as far as one member is concerned.
    let peers = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = dies_with_us("etcd");
    command.arg("--data-dir").arg(folder.join("data"));
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("default={peers}")]);
    Ok(command)
}

/// A read that goes through the log: there is a leader.
pub(super) async fn serves(address: &str) -> bool {
    let limit = Duration::from_secs(2);
    let options = ConnectOptions::new().with_timeout(limit).with_connect_timeout(limit);
    match Client::connect([address], Some(options)).await {
        Ok(mut client) => client.get("serves", None).await.is_ok(),
        Err(_) => false,
    }
}

/// Messages, for a stream is one call with many of them.
pub(super) async fn requests(address: &str) -> Result<u64, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let question = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(question.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text.lines().filter_map(received).sum())
}

fn received(line: &str) -> Option<u64> {
    let value = line.strip_prefix("grpc_server_msg_received_total{")?.rsplit_once(' ')?.1;
    // A number with a point and an exponent, once it is large.
    value.parse::<f64>().ok().map(|count| count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_messages_are_summed_over_methods() {
        let line = "grpc_server_msg_received_total{grpc_method=\"Lock\",grpc_type=\"unary\"} 12";
        assert_eq!(received(line), Some(12));
        assert_eq!(received("grpc_server_msg_received_total{} 1.5e+06"), Some(1_500_000));
        assert_eq!(received("grpc_server_msg_sent_total{} 12"), None);
    }
}
