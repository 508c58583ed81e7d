//! Opening sessions.

use zookeeper_client as zk;

use super::{Client, ClientError, Connector};
use crate::error::{ConfigError, SessionError};
use crate::lock_path::LockPath;

/// Opens sessions, each a new one.
pub(crate) struct Dialer {
    connector: Connector,
    connect_string: String,
    namespace: LockPath,
}

impl Dialer {
    /// `connector` carries everything but the session.
    pub(crate) fn new(
        connector: Connector,
        connect_string: &str,
        namespace: LockPath,
    ) -> Result<Self, ConfigError> {
        refuse_what_cannot_be_supervised(&connector)?;
        // The client reads its connect string only when it connects; a lone comma would pass there.
        if connect_string.trim().is_empty() {
            return Err(invalid_connect_string(connect_string, "it names no server".to_owned()));
        }
        let connector = connector.with_readonly(false);
        Ok(Self { connector, connect_string: connect_string.to_owned(), namespace })
    }

    pub(crate) fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Opens a session.
    pub(crate) async fn dial(&self) -> Result<Client, DialError> {
        let dialed = self.connector.clone().connect(&self.connect_string).await;
        match dialed {
            Ok(client) => {
                Client::new(client, &self.namespace).map_err(|e| DialError::Final(e.into()))
            }
            Err(zk::Error::BadArguments(reason)) => {
                let config = invalid_connect_string(&self.connect_string, (*reason).to_owned());
                Err(DialError::Final(config.into()))
            }
            Err(zk::Error::AuthFailed) => Err(DialError::Final(SessionError::AuthFailed {
                connect_string: self.connect_string.clone(),
            })),
            Err(error) => Err(DialError::Transient(ClientError(error))),
        }
    }
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum DialError {
    /// Trying again cannot help.
    Final(SessionError),
    Transient(ClientError),
}

/// The client has no accessors for these; its `Debug` shows them. Were that to change, a test fails.
fn refuse_what_cannot_be_supervised(connector: &Connector) -> Result<(), ConfigError> {
    let shown = format!("{connector:?}");
    let refuse = |value: &str, reason| {
        Err(ConfigError::InvalidOption { option: "connector", value: value.to_owned(), reason })
    };
    if shown.contains("readonly: true") {
        return refuse(
            "with_readonly(true)",
            "a read-only server cannot say whether a lock is held",
        );
    }
    if shown.contains("detached: true") {
        return refuse(
            "with_detached()",
            "a detached session would keep its locks when it is closed",
        );
    }
    if !shown.contains("session: None") {
        return refuse("with_session(..)", "each epoch is a session of its own");
    }
    Ok(())
}

fn invalid_connect_string(connect_string: &str, reason: String) -> ConfigError {
    ConfigError::InvalidConnectString { connect_string: connect_string.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connectors_that_cannot_be_supervised_are_refused() {
        let plain = || zk::Client::connector().with_auth("digest", b"user:secret");
        let refused = |connector| {
            let namespace = LockPath::parse("namespace", "/").unwrap();
            Dialer::new(connector, "127.0.0.1", namespace).err().map(|e| e.to_string())
        };
        assert_eq!(refused(plain()), None);
        assert!(refused(plain().with_readonly(true)).unwrap().contains("with_readonly"));
        assert!(refused(plain().with_detached()).unwrap().contains("with_detached"));
    }
}
