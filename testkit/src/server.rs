//! A server, whatever it runs on.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::backend::variable;
use super::machine::Machine;
use super::options::{Hidden, ServerOptions, Tls, common_options};
use super::port::{Port, on_free_ports};
use super::seat::Seat;
use super::security::{ClientTls, SecureSeat};
use super::{Backend, TestkitError, four_letter};

/// Names the external server.
const CONNECT: &str = "ZOOKEEPER_CONNECT";
const DEFAULT_PORT: &str = "2181";

/// A real ZooKeeper server; see [the module](super) for where it comes from and how it ends.
///
/// All of its methods take `&self`: share it freely between the tasks of a test.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_testkit::TestServer;
///
/// let server = TestServer::start().await?;
/// let client = zookeeper_client::Client::connect(server.connect_string()).await?;
/// server.restart().await?;
/// client.check_stat("/").await?;
/// server.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the server ends it"]
pub struct TestServer {
    backend: Backend,
    connect_string: String,
    /// Without TLS.
    plain: String,
    client_tls: Option<ClientTls>,
    machine: Machine,
}

impl TestServer {
    /// Starts a server with the default options: [`TestServer::builder`] and [`TestServerBuilder::start`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes what was started.
    ///
    /// # Errors
    ///
    /// Those of [`TestServerBuilder::start`].
    pub async fn start() -> Result<Self, TestkitError> {
        Self::builder().start().await
    }

    /// Options for a server.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// Where clients connect: `127.0.0.1:PORT`, or for an external server the value of `ZOOKEEPER_CONNECT`. With
    /// [TLS](TestServerBuilder::tls) it is `tcp+tls://127.0.0.1:PORT`.
    ///
    /// It stays the same over stops and starts.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Where an administrator connects, and [`kill_session`](super::kill_session): without TLS, also if the server has
    /// it for its clients.
    #[must_use]
    pub fn plain_connect_string(&self) -> &str {
        &self.plain
    }

    /// What a client needs for this server's TLS, if the server was started [with it](TestServerBuilder::tls).
    #[must_use]
    pub fn client_tls(&self) -> Option<&ClientTls> {
        self.client_tls.as_ref()
    }

    /// What the server runs on.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Ends the server gracefully and keeps its data and its port. Nothing happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The server may stop all the same; call again to await it.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn stop(&self) -> Result<(), TestkitError> {
        self.machine.stop().await
    }

    /// Ends the server by `SIGKILL` and keeps its data and its port. Nothing happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The server may end all the same; call again to await it.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn kill(&self) -> Result<(), TestkitError> {
        self.machine.kill().await
    }

    /// Starts a server that was stopped or killed, on the same port and with the same data, and waits until it serves.
    /// Sessions live on if their clients return in time. A [paused](Self::pause) server is resumed. Nothing happens if it is
    /// running.
    ///
    /// # Cancel safety
    ///
    /// The server may start all the same; call again to await it.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; [`TestkitError::NotServing`] if it does not serve in time;
    /// otherwise an error of the backend.
    pub async fn start_again(&self) -> Result<(), TestkitError> {
        self.machine.start_again().await
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    ///
    /// # Cancel safety
    ///
    /// The server may be left stopped; [`start_again`](Self::start_again) starts it.
    ///
    /// # Errors
    ///
    /// Those of the two.
    pub async fn restart(&self) -> Result<(), TestkitError> {
        self.stop().await?;
        self.start_again().await
    }

    /// Freezes the server: connections stay, answers and expiries do not come, until [`resume`](Self::resume). Nothing
    /// happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The server may be frozen all the same.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn pause(&self) -> Result<(), TestkitError> {
        self.machine.pause().await
    }

    /// Lets a frozen server go on. Nothing happens if it is not frozen.
    ///
    /// # Cancel safety
    ///
    /// The server may go on all the same.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn resume(&self) -> Result<(), TestkitError> {
        self.machine.resume().await
    }

    /// Asks the server one of the [four-letter words](https://zookeeper.apache.org/doc/current/zookeeperAdmin.html):
    /// `srvr`, `cons`, `dump`, `mntr` and so on. An ensemble's first member answers.
    ///
    /// # Cancel safety
    ///
    /// Nothing remains.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Failed`] if the server does not answer within five seconds.
    pub async fn four_letter_word(&self, word: &str) -> Result<String, TestkitError> {
        let address = addresses(&self.plain).next().unwrap_or_default();
        let answer = four_letter::ask(&address, word).await;
        answer.map_err(TestkitError::cannot(format!("ask {address} the word `{word}`")))
    }

    /// Ends the server and removes all of it. An external server stays as it is.
    ///
    /// # Cancel safety
    ///
    /// Everything is removed all the same, as when the server is dropped.
    ///
    /// # Errors
    ///
    /// An error of the backend, and what is left then is tried once more.
    pub async fn close(self) -> Result<(), TestkitError> {
        self.machine.close().await
    }
}

/// Options for a [`TestServer`].
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct TestServerBuilder {
    pub(super) options: ServerOptions,
}

common_options!(TestServerBuilder);

impl TestServerBuilder {
    /// Starts the server and waits until it serves.
    ///
    /// An external server must be running and takes none of the options.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes what was started.
    ///
    /// # Errors
    ///
    /// [`TestkitError::InvalidOption`] before anything is started, also for an unknown `ZOOKEEPER_BACKEND`. With a backend
    /// forced, its own error; otherwise [`TestkitError::NoBackend`], which tells why each of the three failed.
    pub async fn start(self) -> Result<TestServer, TestkitError> {
        self.options.check()?;
        let start = |backend| start_on(backend, &self.options);
        Backend::choose(self.options.backend, start).await
    }
}

async fn start_on(backend: Backend, options: &ServerOptions) -> Result<TestServer, TestkitError> {
    if backend != Backend::External {
        return on_free_ports(|| launch(backend, options)).await;
    }
    if options.tls.is_some() || !options.sasl_users.is_empty() {
        let operation = "be given TLS or SASL users";
        return Err(TestkitError::Unsupported { operation, backend });
    }
    join_external().await
}

async fn launch(backend: Backend, options: &ServerOptions) -> Result<TestServer, TestkitError> {
    let client = Port::reserve()?;
    let plain = client.address();
    let (secure, client_tls) = options.tls.map(SecureSeat::reserve).transpose()?.unzip();
    let connect_string = secure.as_ref().map_or_else(|| plain.clone(), SecureSeat::connect_string);
    let machine = Machine::launch(backend, options, Seat { client, voter: None, secure }).await?;
    machine.start_again().await?;
    Ok(TestServer { backend, connect_string, plain, client_tls, machine })
}

async fn join_external() -> Result<TestServer, TestkitError> {
    let unavailable =
        |reason| Err(TestkitError::Unavailable { backend: Backend::External, reason });
    let Some(connect_string) = variable(CONNECT) else {
        return unavailable(format!("{CONNECT} is not set"));
    };
    // Whether it serves is the client's affair: an ensemble of others need not answer four-letter words.
    let mut reason = "no address in it".to_owned();
    for address in addresses(&connect_string).collect::<Vec<_>>() {
        match timeout(Duration::from_secs(5), TcpStream::connect(&address)).await {
            Ok(Ok(_)) => {
                let (backend, machine) = (Backend::External, Machine::External);
                let (plain, client_tls) = (connect_string.clone(), None);
                return Ok(TestServer { backend, connect_string, plain, client_tls, machine });
            }
            Ok(Err(error)) => reason = format!("{address}: {error}"),
            Err(_) => reason = format!("{address}: no answer"),
        }
    }
    unavailable(format!(
        "{CONNECT} is `{connect_string}`, where no server accepts a connection ({reason})"
    ))
}

/// The `HOST:PORT` of each member of a connect string, without its scheme and its chroot.
pub(super) fn addresses(connect_string: &str) -> impl Iterator<Item = String> + Clone {
    connect_string.split(',').filter_map(|member| {
        let member = member.split_once("://").map_or(member, |(_, rest)| rest);
        let host = member.split('/').next().unwrap_or_default().trim();
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match host {
            "" => None,
            host if has_port => Some(host.to_owned()),
            host => Some(format!("{host}:{DEFAULT_PORT}")),
        }
    })
}

/// Security. Not for a server of the backend `external`: starting there is
/// [`Unsupported`](TestkitError::Unsupported) with any of these.
impl TestServerBuilder {
    /// TLS, with a certificate for `localhost` and `127.0.0.1`, made for this server:
    /// [`TestServer::connect_string`](super::TestServer::connect_string) is `tcp+tls://127.0.0.1:PORT`, and
    /// [`TestServer::client_tls`](super::TestServer::client_tls) has what a client needs. The server runs on Netty.
    pub fn tls(mut self) -> Self {
        self.options.tls = Some(Tls::OfServer);
        self
    }

    /// [`tls`](Self::tls), and the server refuses clients that show no certificate of the same authority.
    pub fn mutual_tls(mut self) -> Self {
        self.options.tls = Some(Tls::Mutual);
        self
    }

    /// SASL DIGEST-MD5 with this user, and others if called again. Clients without SASL are still let in, unless a
    /// [flag](Self::jvm_flag) of Java such as `-Dzookeeper.sessionRequireClientSASLAuth=true` says otherwise.
    ///
    /// The name is of letters, digits, `_` and `-`; the password has neither quotes nor backslashes.
    pub fn sasl_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.options.sasl_users.push((name.into(), Hidden(password.into())));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_connect_string() {
        for (connect_string, expected) in [
            ("a:1", vec!["a:1"]),
            ("a:1,b:2/chroot/x", vec!["a:1", "b:2"]),
            ("tcp+tls://a,tcp://b:3/", vec!["a:2181", "b:3"]),
            ("[::1]:4", vec!["[::1]:4"]),
            ("", vec![]),
        ] {
            assert_eq!(addresses(connect_string).collect::<Vec<_>>(), expected, "{connect_string}");
        }
    }
}
