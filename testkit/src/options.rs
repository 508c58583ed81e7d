//! The options of a server, the same for every backend.

use std::fmt;
use std::time::Duration;

use super::{Backend, TestkitError};

/// The limits of the session timeouts that clients may request.
const SHORTEST_SESSION: Duration = Duration::from_secs(1);
const LONGEST_SESSION: Duration = Duration::from_secs(60);

/// Ticks within which a follower must find its leader and copy its data.
pub(super) const INIT_LIMIT: u32 = 20;
/// Ticks after which a leader and a follower part if they hear nothing of each other.
pub(super) const SYNC_LIMIT: u32 = 10;

/// The certificates that a server with TLS uses: only its own, or the client's as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tls {
    OfServer,
    Mutual,
}

/// A secret, which `Debug` does not show.
#[derive(Clone)]
pub(super) struct Hidden(pub(super) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

#[derive(Debug, Clone)]
pub(super) struct ServerOptions {
    /// The forced backend, which overrides the environment.
    pub(super) backend: Option<Backend>,
    pub(super) tick_time: Duration,
    pub(super) start_timeout: Duration,
    pub(super) properties: Vec<(String, String)>,
    pub(super) jvm_flags: Vec<String>,
    pub(super) tls: Option<Tls>,
    /// The names and passwords of the users.
    pub(super) sasl_users: Vec<(String, Hidden)>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            backend: None,
            // Sessions expire at ticks, so a short tick makes expiry prompt.
            tick_time: Duration::from_millis(200),
            start_timeout: Duration::from_secs(60),
            properties: Vec::new(),
            jvm_flags: Vec::new(),
            tls: None,
            sasl_users: Vec::new(),
        }
    }
}

/// Defines the options that a server and an ensemble share, as methods of a builder with a field `options`.
macro_rules! common_options {
    ($builder:ty) => {
        impl $builder {
            /// Forces a backend, whatever `ZOOKEEPER_BACKEND` says.
            pub fn backend(mut self, backend: Backend) -> Self {
                self.options.backend = Some(backend);
                self
            }

            /// Sets ZooKeeper's unit of time, by default 200 ms. Sessions expire at ticks. A member of an ensemble
            /// and its leader part when they have not heard of each other for `syncLimit` ticks, by default ten.
            pub fn tick_time(mut self, tick_time: Duration) -> Self {
                self.options.tick_time = tick_time;
                self
            }

            /// Sets the interval at which a server checks for empty containers to delete; ZooKeeper's own default is
            /// one minute.
            pub fn container_check_interval(self, interval: Duration) -> Self {
                self.jvm_flag(format!("-Dznode.container.checkIntervalMs={}", interval.as_millis()))
            }

            /// Adds a line `KEY=VALUE` to every `zoo.cfg`, such as `syncLimit=5`.
            pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.options.properties.push((key.into(), value.into()));
                self
            }

            /// Adds a flag for every Java process, such as `-Dkey=value`.
            pub fn jvm_flag(mut self, flag: impl Into<String>) -> Self {
                self.options.jvm_flags.push(flag.into());
                self
            }

            /// Sets the time within which all servers must serve, at the start and whenever a method waits for that;
            /// by default one minute. The time to pull an image is not counted.
            pub fn start_timeout(mut self, limit: Duration) -> Self {
                self.options.start_timeout = limit;
                self
            }
        }
    };
}
pub(super) use common_options;

impl ServerOptions {
    /// Checks the options. The official image takes extra lines and flags as lists separated by spaces.
    pub(super) fn check(&self) -> Result<(), TestkitError> {
        let invalid = |option, value: &str, reason| {
            Err(TestkitError::InvalidOption { option, value: value.to_owned(), reason })
        };
        if self.tick_time.as_millis() == 0 {
            return invalid(
                "tick_time",
                &format!("{:?}", self.tick_time),
                "a tick has at least one millisecond",
            );
        }
        for (key, value) in &self.properties {
            if key.is_empty() || key.contains('=') || has_space(key) {
                return invalid("property", key, "a key is a word without `=`");
            }
            if has_space(value) {
                return invalid("property", value, "a value must not contain white space");
            }
        }
        for (name, password) in &self.sasl_users {
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
                return invalid("sasl_user", name, "a name is of letters, digits, `_` and `-`");
            }
            if password.0.contains(['"', '\\', '\n']) {
                return invalid("sasl_user", name, "its password has a quote or a backslash");
            }
        }
        match self.jvm_flags.iter().find(|flag| flag.is_empty() || has_space(flag)) {
            Some(flag) => invalid("jvm_flag", flag, "a flag is one word, without white space"),
            None => Ok(()),
        }
    }

    /// Returns the lines of `zoo.cfg` for which the official image has no variable. The caller's lines come last and
    /// win.
    pub(super) fn extra_lines(&self) -> impl Iterator<Item = String> {
        let shortest = SHORTEST_SESSION.min(self.tick_time * 2).as_millis();
        let longest = LONGEST_SESSION.max(self.tick_time * 20).as_millis();
        let ours =
            [format!("minSessionTimeout={shortest}"), format!("maxSessionTimeout={longest}")];
        ours.into_iter().chain(self.properties.iter().map(|(key, value)| format!("{key}={value}")))
    }

    /// Returns the flags of Java. The caller's flags come last and win.
    pub(super) fn all_jvm_flags(&self) -> impl Iterator<Item = String> {
        // A test server lives for seconds: no time for the second compiler, no use for parallel collectors.
        let ours =
            ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"];
        ours.into_iter().map(str::to_owned).chain(self.jvm_flags.iter().cloned())
    }
}

fn has_space(text: &str) -> bool {
    text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_second_to_a_minute_at_any_tick() {
        for (tick, lines) in [
            (200, ["minSessionTimeout=400", "maxSessionTimeout=60000"]),
            (2_000, ["minSessionTimeout=1000", "maxSessionTimeout=60000"]),
            (5_000, ["minSessionTimeout=1000", "maxSessionTimeout=100000"]),
        ] {
            let options = ServerOptions {
                tick_time: Duration::from_millis(tick),
                ..ServerOptions::default()
            };
            assert_eq!(options.extra_lines().collect::<Vec<_>>(), lines);
        }
    }

    #[test]
    fn what_the_image_would_tear_apart_is_refused() {
        let with = |key: &str, value: &str, flag: &str| {
            let properties = vec![(key.to_owned(), value.to_owned())];
            ServerOptions {
                properties,
                jvm_flags: vec![flag.to_owned()],
                ..ServerOptions::default()
            }
            .check()
        };
        assert!(with("snapCount", "100", "-Da=b").is_ok());
        for (key, value, flag) in
            [("a b", "1", "-D"), ("", "1", "-D"), ("a", "1 2", "-D"), ("a", "1", "-D -E")]
        {
            assert!(with(key, value, flag).is_err(), "{key:?} {value:?} {flag:?}");
        }
        let tick =
            ServerOptions { tick_time: Duration::from_micros(1), ..ServerOptions::default() };
        assert!(tick.check().is_err());
    }
}
