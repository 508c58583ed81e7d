//! [`LeaderSelector`]: runs a function while it leads.

use std::future::Future;
use std::time::Duration;

use super::candidate::Candidate;
use super::leadership::Leadership;
use super::run::LeaderRun;
use super::surface::candidate_surface;
use crate::admission::Family;
use crate::contender_filter::ContenderFilter;
use crate::curator::Curator;
use crate::error::ConfigError;
use crate::recipe::Recipe;
use crate::surface::option_surface;

/// How long a body may go on by default.
const GRACE: Duration = Duration::from_secs(10);

/// Runs your async function while this process is the leader, and lets the next candidate lead when it ends.
///
/// It has the znodes of Apache Curator's `LeaderSelector`, which are those of an
/// [`InterProcessMutex`](crate::InterProcessMutex), so JVM and Rust processes can stand for one election.
///
/// * **Fair**: first come, first served. When the function ends, the next candidate leads.
/// * **One at a time**: the function is asked to end by its leadership's
///   [token](Leadership::cancellation_token) when the leadership is lost, when it is
///   [interrupted](LeaderRun::interrupt_leadership) and when the run is closed. Its end is awaited before the place is
///   given up, at most for the [grace](Self::with_grace); then it is dropped. One that blocks its thread cannot be
///   dropped, and keeps its place as long as the session lives. When the *session* is lost the servers give the place
///   away, whatever the function does: usually a third of the session timeout after the cancellation, a twenty-fourth of
///   it at the worst, and with [`LossPolicy::SessionExpired`](crate::LossPolicy::SessionExpired) before that. Tasks that
///   the function has started are its own to end.
/// * **Never silent**: [`LeaderRun::next`] returns how each term ended: what the function returned, its panic, a lost
///   leadership, or why the candidate could not enter.
///
/// A selector is a cheap handle, and each [run](Self::run) of it is a candidate of its own.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, LeaderSelector};
/// # async fn work() {}
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
/// let selector = LeaderSelector::new(&curator, "/leader")?.with_id("node-7")?;
/// selector
///     .run(|leadership| async move {
///         let stop = leadership.cancellation_token();
///         while !stop.is_cancelled() {
///             work().await;
///         }
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LeaderSelector {
    candidate: Candidate,
    grace: Duration,
    auto_requeue: bool,
}

option_surface!(LeaderSelector, with_id, "an endless back-off, from 100 ms to 10 s");
candidate_surface!(LeaderSelector);

impl LeaderSelector {
    /// A selector at `path`, under the curator's namespace. Options are the curator's, but for the retry policy.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn new(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let candidate = Candidate::of_selector(curator, path)?;
        Ok(Self { candidate, grace: GRACE, auto_requeue: false })
    }

    /// Who counts as a candidate, for a path that other clients than Curator use, such as kazoo's `Election`. Defaults
    /// to [`ContenderFilter::Curator`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidOption`] if the id is not text, which kazoo decodes.
    pub fn with_filter(mut self, filter: ContenderFilter) -> Result<Self, ConfigError> {
        let text = filter.needs_text();
        self.candidate.kind = filter.kind();
        self.candidate.family = Family::Exclusive(filter);
        self.map_recipe(|recipe| recipe.with_text(text))
    }

    /// How long the function may go on after it was asked to end; then it is dropped. Defaults to 10 s. Where the
    /// leadership was lost, the next leader does not wait for it.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// After each term it is a candidate again, at the tail; without, [`LeaderRun::requeue`] says when. After a panic or
    /// a refusal of the servers there is a pause, by the retry policy.
    #[must_use]
    pub fn auto_requeue(mut self) -> Self {
        self.auto_requeue = true;
        self
    }

    /// Is a candidate from now on, and runs `body` in a task of its own whenever it leads; see [`LeaderRun`]. It needs
    /// no connection: while there is none, it waits for one.
    ///
    /// `self.run(body).await` runs it once, and gives what it gave.
    pub fn run<T, F, Fut>(&self, body: F) -> LeaderRun<T>
    where
        T: Send + 'static,
        F: FnMut(Leadership) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        LeaderRun::start(self.candidate.clone(), self.grace, self.auto_requeue, body)
    }

    fn recipe_mut(&mut self) -> &mut Recipe {
        &mut self.candidate.recipe
    }
}
