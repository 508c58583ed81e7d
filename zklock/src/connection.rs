//! Connects to the servers.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::zookeeper_client::{Acls, Client, SaslOptions, TlsOptions};
use zookeeper_recipes::{Curator, CuratorBuilder, Error, ErrorKind, Released};

use crate::diagnosis::{PATIENCE, TLS_SCHEME, all_refuse_tls, diagnose, each, without_scheme};
use crate::exit::{Failure, Outcome, chain};
use crate::log::Event;
use crate::settings::Settings;
use crate::text;
use crate::tls;

/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit for closing the session when there is nothing to report about it.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// Waits for a session for the connection timeout. `None` if no server gave one. What a server refuses ends it at once.
async fn try_connect(settings: &Settings) -> Result<Option<Curator>, Failure> {
    let (builder, servers) = prepare(settings)?;
    let connected = tokio::select! {
        biased;
        connected = builder.connect(&servers) => connected,
        said = all_refuse_tls(settings), if settings.tls.is_some() => {
            return Err(Failure::unavailable(format!("no ZooKeeper: {said}")));
        }
    };
    match connected {
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(None),
        connected => Ok(connected.map(Some)?),
    }
}

/// Connects for work that leaves nothing on the servers, so a failure to close the session does not matter.
pub(crate) async fn briefly(
    settings: &Settings,
    work: impl AsyncFnOnce(&Curator) -> Outcome,
) -> Outcome {
    let curator = connect(settings, None).await?;
    let outcome = work(&curator).await;
    goodbye(curator, FAREWELL, None).await;
    outcome
}

/// Waits for a session, for `limit` or else for the connection timeout, and tries again and again. What a server refuses ends it at
/// once.
///
/// # Errors
///
/// Code 69 if there is no session in that time, with what each server did instead.
pub(crate) async fn connect(
    settings: &Settings,
    limit: Option<Duration>,
) -> Result<Curator, Failure> {
    let limit = limit.unwrap_or(settings.connection_timeout);
    // The diagnosis must be ready when the time is up.
    let share = PATIENCE.min(limit / 2);
    let connected = async {
        loop {
            match try_connect(settings).await.transpose() {
                Some(connected) => return connected,
                None => sleep(PAUSE).await,
            }
        }
    };
    let in_vain = async {
        sleep(limit - share).await;
        let diagnosed = diagnose(settings, share);
        tokio::join!(diagnosed, sleep(share)).0
    };
    tokio::select! {
        biased;
        connected = connected => connected,
        said = in_vain => {
            let within = humantime::format_duration(limit);
            Err(Failure::unavailable(format!("no ZooKeeper within {within}: {said}")))
        }
    }
}

/// Warns if the servers grant a shorter session timeout than was asked for.
pub(crate) fn warn_of_short_session(curator: &Curator, settings: &Settings) {
    let granted = curator.session_timeout().unwrap_or(settings.session_timeout);
    if let Some(short) = short_session(granted, settings.session_timeout) {
        Event::Warning.say(&short);
    }
}

/// Returns what is wrong with the granted session timeout, if it is shorter than the one that was asked for.
pub(crate) fn short_session(granted: Duration, asked: Duration) -> Option<String> {
    let shown = text::share;
    let ends = granted / 3;
    (granted < asked).then(|| {
        format!(
            "the servers grant a session timeout of {}, not {}, so by default a command may be ended in an outage of more than {}: raise \
             maxSessionTimeout (or tickTime) in zoo.cfg of each server, or lower --session-timeout",
            shown(granted),
            shown(asked),
            shown(ends)
        )
    })
}

/// Closes the session, so that none of our znodes are left. If that fails, the servers remove them when the session
/// times out; a message says so if they have not confirmed the release of `unconfirmed` either.
pub(crate) async fn goodbye(curator: Curator, limit: Duration, unconfirmed: Option<&str>) {
    let is_confirmed = matches!(timeout(limit, curator.close()).await, Ok(Released::Confirmed));
    if let Some(path) = unconfirmed.filter(|_| !is_confirmed) {
        Event::Unconfirmed.say(&format!(
            "no server has confirmed the release of {path}, which may stay taken until the session times out"
        ));
    }
}

/// Returns true if a server is connected, as far as is known.
pub(crate) fn is_connected(curator: &Curator) -> bool {
    matches!(curator.state(), ConnectionState::Connected | ConnectionState::Reconnected)
}

/// Returns the longest time for which the servers may keep the session if they hear nothing more of it. Its lease ends a third of the
/// timeout earlier.
pub(crate) fn session_left(curator: &Curator) -> Duration {
    match curator.session_timeout() {
        Ok(timeout) => curator.session_lease_left() + timeout / 3,
        Err(_) => Duration::ZERO, // the session is over
    }
}

/// Returns true if no server has confirmed a release yet. Reports a release that failed.
pub(crate) fn is_unconfirmed(released: Result<Released, Error>) -> bool {
    match released {
        Ok(released) => released == Released::Pending,
        Err(error) => {
            Event::Warning.say(&chain(&error));
            false
        }
    }
}

/// Rejects options and a connect string that cannot work, before any server is asked.
pub(crate) fn check_options(settings: &Settings) -> Result<(), Failure> {
    let (builder, servers) = prepare(settings)?;
    // It checks both at once, and opens no session before the next await, when it is dropped.
    drop(builder.connect_lazy(&servers)?);
    Ok(())
}

/// Returns a builder with the options, and the servers.
fn prepare(settings: &Settings) -> Result<(CuratorBuilder, String), Failure> {
    let mut builder = Curator::builder()
        .session_timeout(settings.session_timeout)
        .connection_timeout(settings.connection_timeout)
        .namespace(&settings.namespace);
    if let Some(id) = &settings.id {
        builder = builder.identity(id.as_str());
    }
    if !settings.acls.is_empty() {
        builder = builder.acls(Acls::new(&settings.acls));
    }
    let mut connector = Client::connector();
    for credentials in &settings.auths {
        match credentials.sasl()? {
            Some((user, password)) => {
                connector = connector.with_sasl(SaslOptions::digest_md5(user, password));
            }
            None => builder = builder.auth(&credentials.scheme, &credentials.secret),
        }
    }
    let mut servers = settings.server.clone();
    if let Some(tls) = &settings.tls {
        connector = connector.with_tls(TlsOptions::new().with_certs(tls::certificates(tls)?));
        servers = by_tls(&servers);
    } else if servers.contains(TLS_SCHEME) {
        return Err(Failure::usage("server: TLS needs a tls-ca"));
    }
    Ok((builder.connector(connector), servers))
}

/// Returns the servers, each with the scheme of TLS.
fn by_tls(servers: &str) -> String {
    let server = |server: &str| format!("{TLS_SCHEME}{}", without_scheme(server));
    each(servers).map(server).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_spoken_to_by_tls() {
        let rows = [
            ("a", "tcp+tls://a"),
            ("a:1,tcp://b:2, tcp+tls://c:3/app", "tcp+tls://a:1,tcp+tls://b:2,tcp+tls://c:3/app"),
            ("a:1,, ,b:2,", "tcp+tls://a:1,tcp+tls://b:2"),
            ("[::1]:2281", "tcp+tls://[::1]:2281"),
        ];
        for (servers, by) in rows {
            assert_eq!(by_tls(servers), by);
        }
    }
}
