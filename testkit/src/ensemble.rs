//! A quorum of servers.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::links::{Links, Partition};
use super::machine::Machine;
use super::member::{Member, Role};
use super::options::{ServerOptions, common_options};
use super::port::{Port, on_free_ports};
use super::proxy::{Direction, Fault, FaultProxy};
use super::seat::{Seat, Voter};
use super::{Backend, TestkitError};

/// The pause between two queries of the members' roles.
const INTERVAL: Duration = Duration::from_millis(20);
/// Limits the interval of a looking member's notifications, which doubles each time, up to a minute by default. After
/// a long fault, the next one would come late.
const SHORT_NOTIFICATIONS: &str = "-Dzookeeper.fastleader.maxNotificationInterval=1000";
/// Time limit for one answer: a frozen member must not delay the queries to the others.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);

/// A real ZooKeeper ensemble of containers or processes; see [the module](super) for its backends and its end.
///
/// All of its methods take `&self`: share it freely between the tasks of a test.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_testkit::TestEnsemble;
///
/// let ensemble = TestEnsemble::start(3).await?;
/// let leader = ensemble.leader().await?;
/// let fault = ensemble.isolate(leader); // clients still reach it
/// ensemble.member((leader + 1) % 3).restart().await?;
/// fault.heal();
/// ensemble.serving().await?;
/// ensemble.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the ensemble ends it"]
pub struct TestEnsemble {
    connect_string: String,
    backend: Backend,
    patience: Duration,
    members: Vec<Member>,
    /// Dropped after the members, which would complain about lost connections.
    links: Links,
}

impl TestEnsemble {
    /// Starts an ensemble with the default options, as [`TestEnsemble::builder`] and [`TestEnsembleBuilder::start`]
    /// do.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes what was started.
    ///
    /// # Errors
    ///
    /// The errors of [`TestEnsembleBuilder::start`].
    pub async fn start(size: usize) -> Result<Self, TestkitError> {
        Self::builder(size).start().await
    }

    /// Returns a builder for an ensemble of `size` members.
    pub fn builder(size: usize) -> TestEnsembleBuilder {
        TestEnsembleBuilder { size, options: ServerOptions::default() }
    }

    /// Returns the connect string for clients, with the addresses of all members: `127.0.0.1:PORT,127.0.0.1:PORT,…`.
    ///
    /// The addresses stay the same when members stop and start.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Returns the backend of the members.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns all members.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns a member by its number, counted from 0.
    ///
    /// # Panics
    ///
    /// If there are not as many.
    #[must_use]
    pub fn member(&self, number: usize) -> &Member {
        &self.members[number]
    }

    /// Waits until exactly one member reports that it leads, and returns its number.
    ///
    /// A leader that is cut off from the others reports that it leads until `syncLimit` ticks have passed. Members
    /// that were killed, stopped or frozen do not count.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Timeout`] after the [start timeout](TestEnsembleBuilder::start_timeout).
    pub async fn leader(&self) -> Result<usize, TestkitError> {
        self.eventually("find the one leader", the_leader).await
    }

    /// Waits until all members that were not killed, stopped or frozen serve under one leader.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`TestkitError::Timeout`] after the [start timeout](TestEnsembleBuilder::start_timeout).
    pub async fn serving(&self) -> Result<(), TestkitError> {
        let serves = |(member, role): (&Member, &Option<Role>)| {
            !member.is_up() || matches!(role, Some(Role::Leader | Role::Follower))
        };
        self.eventually("wait until the ensemble serves", |roles| {
            the_leader(roles)?;
            self.members.iter().zip(roles).all(serves).then_some(())
        })
        .await
    }

    /// Cuts a member off from all others, **while clients still reach it**: no bytes between it and them arrive, and
    /// no connection is closed.
    ///
    /// A follower still answers reads, from the data that it has, until `syncLimit` ticks have passed without a
    /// message from its leader.
    ///
    /// # Panics
    ///
    /// If there are not as many members.
    pub fn isolate(&self, number: usize) -> Fault {
        let others = (0..self.members.len()).filter(|other| *other != number);
        Fault::all(others.map(|other| self.links.part(number, other, Partition::Silent)))
    }

    /// Cuts two members off from each other, and leaves their other connections alone: no bytes between the two
    /// arrive, and no connection is closed.
    ///
    /// # Panics
    ///
    /// If there are not as many members.
    pub fn part(&self, one: usize, other: usize) -> Fault {
        self.part_with(one, other, Partition::Silent)
    }

    /// Cuts two members off from each other like [`part`](Self::part), in the given way.
    ///
    /// # Panics
    ///
    /// If there are not as many members.
    pub fn part_with(&self, one: usize, other: usize, how: Partition) -> Fault {
        self.links.part(one, other, how)
    }

    /// Cuts a member off from its clients: no bytes between it and them arrive, and no connection is closed. The
    /// other members still reach it.
    ///
    /// Use its [`proxy`](Member::proxy) for other faults.
    ///
    /// # Panics
    ///
    /// If there are not as many members.
    pub fn cut_from_clients(&self, number: usize) -> Fault {
        self.member(number).proxy().stall(Direction::Both)
    }

    /// Ends all members and removes their data.
    ///
    /// # Cancel safety
    ///
    /// Everything is still removed, as when the ensemble is dropped.
    ///
    /// # Errors
    ///
    /// The first error of the backend. The failed removal is then tried once more.
    pub async fn close(self) -> Result<(), TestkitError> {
        let mut result = Ok(());
        for member in self.members {
            result = result.and(member.close().await);
        }
        result
    }

    /// Returns the role of each member, `None` for one that does not run or does not answer soon.
    async fn roles(&self) -> Vec<Option<Role>> {
        let mut roles = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let role = async {
                let answer = timeout(ANSWER_LIMIT, member.role()).await;
                answer.ok().and_then(Result::ok)
            };
            roles.push(if member.is_up() { role.await } else { None });
        }
        roles
    }

    async fn eventually<T>(
        &self,
        operation: &str,
        found: impl Fn(&[Option<Role>]) -> Option<T> + Send + Sync,
    ) -> Result<T, TestkitError> {
        let waited = self.patience;
        let event = async {
            loop {
                if let Some(found) = found(&self.roles().await) {
                    return found;
                }
                sleep(INTERVAL).await;
            }
        };
        let timed_out = |_| TestkitError::Timeout { operation: operation.to_owned(), waited };
        timeout(waited, event).await.map_err(timed_out)
    }
}

/// Returns the only leader. `None` also while a former leader still believes that it leads.
fn the_leader(roles: &[Option<Role>]) -> Option<usize> {
    let mut leaders = (0..roles.len()).filter(|number| roles[*number] == Some(Role::Leader));
    leaders.next().filter(|_| leaders.next().is_none())
}

/// Options for a [`TestEnsemble`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct TestEnsembleBuilder {
    size: usize,
    options: ServerOptions,
}

common_options!(TestEnsembleBuilder);

impl TestEnsembleBuilder {
    /// Starts all members at the same time, and waits until each of them serves.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes what was started.
    ///
    /// # Errors
    ///
    /// [`TestkitError::InvalidOption`] before anything is started, also for an unknown `ZOOKEEPER_BACKEND`;
    /// [`TestkitError::Unsupported`] if [`Backend::External`] is forced. With another backend forced, its own error;
    /// otherwise [`TestkitError::NoBackend`].
    pub async fn start(self) -> Result<TestEnsemble, TestkitError> {
        self.options.check()?;
        if self.size == 0 {
            return Err(TestkitError::InvalidOption {
                option: "size",
                value: self.size.to_string(),
                reason: "an ensemble has at least one member",
            });
        }
        Backend::choose(self.options.backend, |backend| self.start_on(backend)).await
    }

    async fn start_on(&self, backend: Backend) -> Result<TestEnsemble, TestkitError> {
        if backend == Backend::External {
            let operation = "become an ensemble of the testkit's own";
            return Err(TestkitError::Unsupported { operation, backend });
        }
        if backend == Backend::Docker && !cfg!(target_os = "linux") {
            let reason =
                "the containers of an ensemble share the host's network, which takes Linux";
            return Err(TestkitError::Unavailable { backend, reason: reason.to_owned() });
        }
        on_free_ports(|| self.launch(backend)).await
    }

    async fn launch(&self, backend: Backend) -> Result<TestEnsemble, TestkitError> {
        let ports: Vec<[Port; 3]> = (0..self.size)
            .map(|_| Ok([Port::reserve()?, Port::reserve()?, Port::reserve()?]))
            .collect::<Result<_, TestkitError>>()?;
        let voting: Vec<_> =
            ports.iter().map(|[_, rest @ ..]| rest.each_ref().map(Port::number)).collect();
        let links = Links::start(&voting).await?;
        let mut options = self.options.clone();
        options.jvm_flags.insert(0, SHORT_NOTIFICATIONS.to_owned());
        let mut members = Vec::with_capacity(self.size);
        for (number, [client, quorum, election]) in ports.into_iter().enumerate() {
            let address = client.address();
            let proxy = FaultProxy::start(&address).await?;
            let servers = servers(number, client.number(), &voting, &links);
            let voter = Voter { id: number + 1, servers, _ports: [quorum, election] };
            let seat = Seat { client, voter: Some(voter), secure: None };
            let machine = Machine::launch(backend, &options, seat).await?;
            members.push(Member::new(machine, address, proxy));
        }
        for member in &members {
            member.start_again().await?;
        }
        let addresses: Vec<_> = members.iter().map(Member::connect_string).collect();
        let connect_string = addresses.join(",");
        let patience = self.options.start_timeout;
        Ok(TestEnsemble { connect_string, backend, patience, members, links })
    }
}

/// Returns the lines `server.ID=…` as one member sees them: the others behind their proxies.
fn servers(number: usize, client: u16, voting: &[[u16; 2]], links: &Links) -> Vec<String> {
    let line = |(other, own): (usize, &[u16; 2])| {
        let [quorum, election] = links.ports(number, other).unwrap_or(*own);
        let line = format!("server.{}=127.0.0.1:{quorum}:{election}", other + 1);
        if other == number { format!("{line};127.0.0.1:{client}") } else { line }
    };
    voting.iter().enumerate().map(line).collect()
}
