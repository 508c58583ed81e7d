//! The options of a user's `Connector`. The client has no accessors for them, but its `Debug` shows them. If that changes, the
//! tests of [`dialer`](super::dialer) fail.

use zookeeper_client::Connector;

use crate::error::Error;

/// The options that matter for a supervised session.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // each is an option of its own
pub(super) struct ConnectorOptions {
    read_only: bool,
    detached: bool,
    resumes_session: bool,
    pub(super) has_connection_timeout: bool,
    pub(super) has_tls: bool,
}

impl ConnectorOptions {
    pub(super) fn of(connector: &Connector) -> Self {
        let shown = format!("{connector:?}");
        // A password may stand before the session.
        let options = shown.rfind("session: ").map_or("", |at| &shown[at..]);
        Self {
            read_only: options.contains("readonly: true"),
            detached: options.contains("detached: true"),
            resumes_session: !options.contains("session: None"),
            has_connection_timeout: !options.contains(" connection_timeout: 0ns"),
            has_tls: shown.starts_with("Connector { tls: Some("),
        }
    }

    /// Fails for options with which the session cannot be supervised.
    pub(super) fn check(&self) -> Result<(), Error> {
        let (value, reason) = if self.read_only {
            ("with_readonly(true)", "a read-only server cannot say whether a lock is held")
        } else if self.detached {
            ("with_detached()", "a detached session would keep its locks when it is closed")
        } else if self.resumes_session {
            ("with_session(..)", "each epoch is a session of its own")
        } else {
            return Ok(());
        };
        Err(Error::invalid("connector", value, reason))
    }
}
