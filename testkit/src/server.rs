//! A test server on any backend.

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

/// The variable that names the external server.
const CONNECT: &str = "ZOOKEEPER_CONNECT";
const DEFAULT_PORT: &str = "2181";

/// A real ZooKeeper server; see [the module](super) for its backends and its end.
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
    /// The connect string without TLS.
    plain: String,
    client_tls: Option<ClientTls>,
    machine: Machine,
}

impl TestServer {
    /// Starts a server with the default options, as [`TestServer::builder`] and [`TestServerBuilder::start`] do.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes what was started.
    ///
    /// # Errors
    ///
    /// The errors of [`TestServerBuilder::start`].
    pub async fn start() -> Result<Self, TestkitError> {
        Self::builder().start().await
    }

    /// Returns a builder for a server.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// Returns the connect string for clients: `127.0.0.1:PORT`, or for an external server the value of
    /// `ZOOKEEPER_CONNECT`. With [TLS](TestServerBuilder::tls) it is `tcp+tls://127.0.0.1:PORT`.
    ///
    /// The address stays the same when the server stops and starts.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Returns the connect string without TLS, for an administrator and for [`kill_session`](super::kill_session),
    /// also if clients use TLS.
    #[must_use]
    pub fn plain_connect_string(&self) -> &str {
        &self.plain
    }

    /// Returns the certificates for a client of this server, if the server was started [with
    /// TLS](TestServerBuilder::tls).
    #[must_use]
    pub fn client_tls(&self) -> Option<&ClientTls> {
        self.client_tls.as_ref()
    }

    /// Returns the backend of the server.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Ends the server gracefully and keeps its data and its port. Nothing happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The server may still stop; call again to await it.
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
    /// The server may still end; call again to await it.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn kill(&self) -> Result<(), TestkitError> {
        self.machine.kill().await
    }

    /// Starts a server that was stopped or killed, on the same port and with the same data, and waits until it
    /// serves. Sessions survive if their clients reconnect in time. A [paused](Self::pause) server is resumed. A running
    /// server stays as it is.
    ///
    /// # Cancel safety
    ///
    /// The server may still start; call again to await it.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; [`TestkitError::NotServing`] if it does not serve in time;
    /// otherwise an error of the backend.
    pub async fn start_again(&self) -> Result<(), TestkitError> {
        self.machine.start_again().await
    }

    /// Stops and starts the server: [`stop`](Self::stop), then [`start_again`](Self::start_again).
    ///
    /// # Cancel safety
    ///
    /// The server may be left stopped; [`start_again`](Self::start_again) starts it.
    ///
    /// # Errors
    ///
    /// The errors of the two.
    pub async fn restart(&self) -> Result<(), TestkitError> {
        self.stop().await?;
        self.start_again().await
    }

    /// Freezes the server until [`resume`](Self::resume): connections stay open, no answers come, and no sessions
    /// expire. Nothing happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The server may still be frozen.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn pause(&self) -> Result<(), TestkitError> {
        self.machine.pause().await
    }

    /// Resumes a frozen server. Nothing happens if it is not frozen.
    ///
    /// # Cancel safety
    ///
    /// The server may still be resumed.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Unsupported`] for an external server; otherwise an error of the backend.
    pub async fn resume(&self) -> Result<(), TestkitError> {
        self.machine.resume().await
    }

    /// Sends the server one of the [four-letter words](https://zookeeper.apache.org/doc/current/zookeeperAdmin.html),
    /// `srvr`, `cons`, `dump`, `mntr` and so on. In an ensemble, the first member answers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Failed`] if the server does not answer within five seconds.
    pub async fn four_letter_word(&self, word: &str) -> Result<String, TestkitError> {
        let address = addresses(&self.plain).next().unwrap_or_default();
        let answer = four_letter::ask(&address, word).await;
        answer.map_err(TestkitError::cannot(format!("ask {address} the word `{word}`")))
    }

    /// Ends the server and removes its data. An external server stays as it is.
    ///
    /// # Cancel safety
    ///
    /// Everything is still removed, as when the server is dropped.
    ///
    /// # Errors
    ///
    /// An error of the backend. The failed removal is then tried once more.
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
    /// [`TestkitError::InvalidOption`] before anything is started, also for an unknown `ZOOKEEPER_BACKEND`. With a
    /// forced backend, its own error; otherwise [`TestkitError::NoBackend`], which reports why each of the three
    /// failed.
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
    // This does not check that the server serves, because an external ensemble does not necessarily answer
    // four-letter words.
    let mut reason = "no address in it".to_owned();
    for address in addresses(&connect_string).collect::<Vec<_>>() {
        match timeout(Duration::from_secs(5), TcpStream::connect(&address)).await {
            Ok(Ok(_)) => {
                return Ok(TestServer {
                    backend: Backend::External,
                    plain: connect_string.clone(),
                    connect_string,
                    client_tls: None,
                    machine: Machine::External,
                });
            }
            Ok(Err(error)) => reason = format!("{address}: {error}"),
            Err(_) => reason = format!("{address}: no answer"),
        }
    }
    unavailable(format!(
        "{CONNECT} is `{connect_string}`, where no server accepts a connection ({reason})"
    ))
}

/// Returns the `HOST:PORT` of each member of a connect string, without scheme and chroot.
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

/// Options for security. The backend `external` supports none of them: starting there with one of them is
/// [`Unsupported`](TestkitError::Unsupported).
impl TestServerBuilder {
    /// Enables TLS, with a certificate for `localhost` and `127.0.0.1` that is made for this server.
    /// [`TestServer::connect_string`](super::TestServer::connect_string) is then `tcp+tls://127.0.0.1:PORT`, and
    /// [`TestServer::client_tls`](super::TestServer::client_tls) has the client's certificates. The server runs on
    /// Netty.
    pub fn tls(mut self) -> Self {
        self.options.tls = Some(Tls::OfServer);
        self
    }

    /// Enables [`tls`](Self::tls), and makes the server refuse clients without a certificate of the same authority.
    pub fn mutual_tls(mut self) -> Self {
        self.options.tls = Some(Tls::Mutual);
        self
    }

    /// Enables SASL DIGEST-MD5 for this user; call it again to add others. Clients without SASL may still connect,
    /// unless a [flag](Self::jvm_flag) of Java such as `-Dzookeeper.sessionRequireClientSASLAuth=true` forbids it.
    ///
    /// The name consists of letters, digits, `_` and `-`. The password has neither quotes nor backslashes.
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
