//! The same servers, links and administrators in both worlds: simulated in virtual time, or real with `WORLD=real`.

mod admin;
mod link;
mod servers;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use zookeeper_recipes::simulation::Version;

pub use self::admin::Admin;
pub use self::link::{Cut, Direction, Fault, Link, Message, Operation};
pub use self::servers::{Server, Servers, is_before};

/// Returns true if `WORLD` asks for real servers. The time of the test is then real as well.
pub fn is_real() -> bool {
    let world = std::env::var("WORLD").unwrap_or_else(|_| "simulated".to_owned());
    assert!(["real", "simulated"].contains(&world.as_str()), "WORLD={world}");
    if world == "real" && is_paused() {
        tokio::time::resume();
    }
    world == "real"
}

/// How late something may come: never in virtual time, and on real servers as late as a busy machine makes it.
pub fn lateness() -> Duration {
    if is_real() { Duration::from_secs(60) } else { Duration::ZERO }
}

/// Returns true if this test's clock is virtual.
fn is_paused() -> bool {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if !matches!(flavor, Ok(RuntimeFlavor::CurrentThread)) {
        return false;
    }
    let (before, real) = (tokio::time::Instant::now(), std::time::Instant::now());
    while real.elapsed() < Duration::from_micros(2) {}
    tokio::time::Instant::now() == before
}

/// The seed of this test: each test has another one, and the same one in each run with the same `SEED`.
pub(crate) fn seed() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::env::var("SEED").unwrap_or_default().hash(&mut hasher);
    std::thread::current().name().hash(&mut hasher);
    hasher.finish()
}

/// The version of the simulated servers: that of `VERSION`, such as 3.9, or the default.
pub(crate) fn version() -> Version {
    let asked = std::env::var("VERSION").unwrap_or_default();
    if asked.is_empty() {
        return Version::default();
    }
    let known = Version::ALL.into_iter().find(|known| known.to_string() == asked);
    known.unwrap_or_else(|| panic!("VERSION={asked}"))
}

/// Functions that both variants have. The arguments of `Real` have types of the test kit.
macro_rules! alike {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {$(
        pub fn $name(&self, $($argument: $type),*) -> $output {
            match self {
                Self::Real(one) => one.$name($($argument.real()),*).into(),
                Self::Simulated(one) => one.$name($($argument),*).into(),
            }
        }
    )*};
    ($(async $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {$(
        pub async fn $name(&self, $($argument: $type),*) -> Result<$output, Error> {
            match self {
                Self::Real(one) => one.$name($($argument),*).await,
                Self::Simulated(one) => one.$name($($argument),*).await,
            }
        }
    )*};
}
use alike;
