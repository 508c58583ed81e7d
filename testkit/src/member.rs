//! One server of an ensemble.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::machine::Machine;
use super::proxy::FaultProxy;
use super::{Backend, TestkitError, four_letter};

/// A member's role in its ensemble, as the member reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The member leads.
    Leader,
    /// The member follows a leader.
    Follower,
    /// The member belongs to no quorum at the moment, and does not serve clients.
    Looking,
}

/// A member of a [`TestEnsemble`](super::TestEnsemble): a server that can be ended, started and frozen like a
/// [`TestServer`](super::TestServer).
///
/// All of its methods take `&self`: share it freely between the tasks of a test.
#[derive(Debug)]
pub struct Member {
    machine: Machine,
    /// The address of the server itself.
    address: String,
    proxy: FaultProxy,
    condition: Mutex<Condition>,
}

/// The state into which the user has put a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Up,
    Paused,
    Down,
}

impl Member {
    pub(super) fn new(machine: Machine, address: String, proxy: FaultProxy) -> Self {
        Self { machine, address, proxy, condition: Mutex::new(Condition::Up) }
    }

    /// Returns the connect string for this member alone, through its proxy: `127.0.0.1:PORT`.
    ///
    /// The address stays the same when the member stops and starts.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        self.proxy.connect_string()
    }

    /// Returns the proxy between clients and this member. The other members bypass it.
    pub fn proxy(&self) -> &FaultProxy {
        &self.proxy
    }

    /// Asks the member for its role.
    ///
    /// A member that is cut off from the others reports its old role until `syncLimit` ticks have passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Failed`] if the member does not answer within five seconds because it does not run or is
    /// frozen.
    pub async fn role(&self) -> Result<Role, TestkitError> {
        let answer = self.four_letter_word("srvr").await?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
        Ok(match mode {
            Some("leader") => Role::Leader,
            Some(_) => Role::Follower,
            None => Role::Looking,
        })
    }

    /// Ends the member gracefully and keeps its data and its ports. Nothing happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The member may still stop; call again to await it.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub async fn stop(&self) -> Result<(), TestkitError> {
        *self.condition() = Condition::Down;
        self.machine.stop().await
    }

    /// Ends the member by `SIGKILL` and keeps its data and its ports. Nothing happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The member may still end; call again to await it.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub async fn kill(&self) -> Result<(), TestkitError> {
        *self.condition() = Condition::Down;
        self.machine.kill().await
    }

    /// Starts a member that was stopped or killed, on the same ports and with the same data, and waits until it
    /// serves. Without a quorum no member serves: if this member needs others for a quorum, use
    /// [`launch`](Self::launch). A [paused](Self::pause) member is resumed. Nothing happens if it is running and
    /// serves.
    ///
    /// # Cancel safety
    ///
    /// The member may still start; call again to await it.
    ///
    /// # Errors
    ///
    /// [`TestkitError::NotServing`] if the member does not serve in time; a local process is then ended. Otherwise an
    /// error of the backend.
    pub async fn start_again(&self) -> Result<(), TestkitError> {
        self.launch().await?;
        let started = self.machine.start_again().await;
        if let Err(TestkitError::NotServing { backend: Backend::Process, .. }) = started {
            *self.condition() = Condition::Down;
        }
        started
    }

    /// Starts a member that was stopped or killed, and does not wait until it serves. Nothing happens if it is running.
    ///
    /// # Cancel safety
    ///
    /// The member may still start.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub async fn launch(&self) -> Result<(), TestkitError> {
        self.machine.launch_again().await?;
        *self.condition() = Condition::Up;
        Ok(())
    }

    /// Stops and starts the member: [`stop`](Self::stop), then [`start_again`](Self::start_again).
    ///
    /// # Cancel safety
    ///
    /// The member may be left stopped; [`start_again`](Self::start_again) starts it.
    ///
    /// # Errors
    ///
    /// The errors of the two.
    pub async fn restart(&self) -> Result<(), TestkitError> {
        self.stop().await?;
        self.start_again().await
    }

    /// Stops the member, and starts it with the ZooKeeper in the folder `home`, such as `ZOOKEEPER_HOME` names. It keeps
    /// its data and its ports. All later starts use that ZooKeeper, too. If one member after the other is restarted so,
    /// this is a rolling upgrade.
    ///
    /// # Cancel safety
    ///
    /// The member may be left stopped; [`start_again`](Self::start_again) starts it, with either ZooKeeper.
    ///
    /// # Errors
    ///
    /// [`TestkitError::InvalidOption`] if `home` has no folder `lib`, and [`TestkitError::Unavailable`] with the backend
    /// `docker`; the member then runs on. Otherwise the errors of [`restart`](Self::restart).
    pub async fn restart_with_distribution(
        &self,
        home: impl AsRef<Path>,
    ) -> Result<(), TestkitError> {
        self.machine.set_distribution(home.as_ref())?;
        self.restart().await
    }

    /// Freezes the member until [`resume`](Self::resume): connections stay open, and answers do not come. Nothing
    /// happens if it is not running.
    ///
    /// # Cancel safety
    ///
    /// The member may still be frozen.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub async fn pause(&self) -> Result<(), TestkitError> {
        self.change(Condition::Up, Condition::Paused);
        self.machine.pause().await
    }

    /// Resumes a frozen member. Nothing happens if it is not frozen.
    ///
    /// # Cancel safety
    ///
    /// The member may still be resumed.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub async fn resume(&self) -> Result<(), TestkitError> {
        self.machine.resume().await?;
        self.change(Condition::Paused, Condition::Up);
        Ok(())
    }

    /// Sends the member one of the [four-letter words](https://zookeeper.apache.org/doc/current/zookeeperAdmin.html),
    /// `srvr`, `cons`, `dump`, `mntr` and so on. The request bypasses the proxy and its faults.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Failed`] if the member does not answer within five seconds.
    pub async fn four_letter_word(&self, word: &str) -> Result<String, TestkitError> {
        let answer = four_letter::ask(&self.address, word).await;
        answer.map_err(TestkitError::cannot(format!("ask {} the word `{word}`", self.address)))
    }

    /// Returns true if the member should serve when it has a quorum.
    pub(super) fn is_up(&self) -> bool {
        *self.condition() == Condition::Up
    }

    pub(super) async fn close(self) -> Result<(), TestkitError> {
        self.machine.close().await
    }

    fn change(&self, from: Condition, to: Condition) {
        let mut condition = self.condition();
        if *condition == from {
            *condition = to;
        }
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
