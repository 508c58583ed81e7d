//! The same servers, links and administrators in both worlds: simulated in virtual time, or real with `WORLD=real`.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use zookeeper_recipes::simulation::{self, Ensemble};
pub(crate) use zookeeper_recipes::simulation::{Cut, Direction, Operation};
use zookeeper_recipes::zookeeper_client::{Acl, Acls, Client, CreateMode, Error, Stat};
use zookeeper_testkit::{self as testkit, FaultProxy, TestEnsemble, TestServer, TestkitError};

/// Whether `WORLD` asks for real servers. Their time is real as well.
pub(crate) fn is_real() -> bool {
    let world = std::env::var("WORLD").unwrap_or_else(|_| "simulated".to_owned());
    assert!(["real", "simulated"].contains(&world.as_str()), "WORLD={world}");
    if world == "real" && is_paused() {
        tokio::time::resume();
    }
    world == "real"
}

/// Whether this test's clock is virtual.
fn is_paused() -> bool {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if !matches!(flavor, Ok(RuntimeFlavor::CurrentThread)) {
        return false;
    }
    let (before, real) = (tokio::time::Instant::now(), std::time::Instant::now());
    while real.elapsed() < Duration::from_micros(2) {}
    tokio::time::Instant::now() == before
}

/// Each test has its own, and the same one in each run with the same `SEED`.
pub(crate) fn seed() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::env::var("SEED").unwrap_or_default().hash(&mut hasher);
    std::thread::current().name().hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone)]
pub(crate) enum Servers {
    One(Arc<TestServer>),
    Three(Arc<TestEnsemble>),
    Simulated(Arc<Ensemble>),
}

impl Servers {
    pub(crate) fn connect_string(&self) -> &str {
        match self {
            Self::One(server) => server.connect_string(),
            Self::Three(ensemble) => ensemble.connect_string(),
            Self::Simulated(ensemble) => ensemble.connect_string(),
        }
    }

    pub(crate) fn members(&self) -> Vec<Server> {
        let count = match self {
            Self::One(_) => 1,
            Self::Three(ensemble) => ensemble.members().len(),
            Self::Simulated(ensemble) => ensemble.servers(),
        };
        (0..count).map(|number| Server::new(self.clone(), number)).collect()
    }

    pub(crate) async fn admin(&self) -> Admin {
        match self {
            Self::Simulated(ensemble) => Admin::Simulated(ensemble.admin().await),
            Self::One(server) => Admin::connect(server.plain_connect_string()).await,
            real => Admin::connect(real.connect_string()).await,
        }
    }

    pub(crate) async fn leader(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Three(ensemble) => ensemble.leader().await.unwrap(),
            Self::Simulated(ensemble) => ensemble.leader().unwrap(),
        }
    }

    /// How many watches they keep, of all clients.
    pub(crate) async fn watches(&self) -> usize {
        let server = match self {
            Self::Simulated(ensemble) => return ensemble.watches(),
            Self::One(server) => server,
            Self::Three(_) => panic!("each has its own"),
        };
        let answer = server.four_letter_word("wchs").await.unwrap();
        let total = answer.lines().find_map(|line| line.strip_prefix("Total watches:")).unwrap();
        total.trim().parse().unwrap()
    }

    /// Two servers do not hear each other until this is dropped.
    pub(crate) fn part(&self, one: usize, other: usize) -> Box<dyn Any> {
        match self {
            Self::One(_) => panic!("one server is not parted"),
            Self::Three(ensemble) => Box::new(ensemble.part(one, other)),
            Self::Simulated(ensemble) => {
                Box::new([ensemble.part(one, other), ensemble.part(other, one)])
            }
        }
    }
}

/// One of the servers.
#[derive(Clone)]
pub(crate) struct Server {
    of: Servers,
    number: usize,
    connect_string: String,
}

/// The same verb of a server of its own, and of a member.
macro_rules! real {
    ($server:ident.$verb:ident()) => {
        match &$server.of {
            Servers::One(server) => server.$verb().await,
            Servers::Three(ensemble) => ensemble.member($server.number).$verb().await,
            Servers::Simulated(_) => Ok(()),
        }
    };
}

impl Server {
    pub(crate) fn new(of: Servers, number: usize) -> Self {
        let connect_string = match &of {
            Servers::One(server) => server.connect_string().to_owned(),
            Servers::Three(ensemble) => ensemble.member(number).connect_string().to_owned(),
            Servers::Simulated(ensemble) => ensemble.link_to(number).connect_string().to_owned(),
        };
        Self { of, number, connect_string }
    }

    pub(crate) fn connect_string(&self) -> &str {
        &self.connect_string
    }

    fn simulated(&self) -> Option<&Ensemble> {
        if let Servers::Simulated(ensemble) = &self.of { Some(ensemble) } else { None }
    }

    pub(crate) async fn stop(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.stop(self.number));
        real!(self.stop())
    }

    pub(crate) async fn kill(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.stop(self.number));
        real!(self.kill())
    }

    pub(crate) async fn start_again(&self) -> Result<(), TestkitError> {
        if let Some(ensemble) = self.simulated() {
            ensemble.start_again(self.number);
            ensemble.serving().await;
        }
        real!(self.start_again())
    }

    pub(crate) async fn restart(&self) -> Result<(), TestkitError> {
        self.stop().await?;
        self.start_again().await
    }

    pub(crate) async fn pause(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.pause(self.number));
        real!(self.pause())
    }

    pub(crate) async fn resume(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.resume(self.number));
        real!(self.resume())
    }

    /// One that asks it alone.
    #[allow(dead_code)]
    pub(crate) async fn admin(&self) -> Admin {
        match self.simulated() {
            Some(ensemble) => Admin::Simulated(ensemble.link_to(self.number).admin().await),
            None => Admin::connect(&self.connect_string).await,
        }
    }

    /// A link to it alone.
    pub(crate) async fn link(&self) -> Link {
        match self.simulated() {
            Some(ensemble) => Link::Simulated(ensemble.link_to(self.number)),
            None => Link::Real(FaultProxy::start(&self.connect_string).await.unwrap()),
        }
    }
}

const OPERATIONS: [(Operation, testkit::Operation); 17] = [
    (Operation::Any, testkit::Operation::Any),
    (Operation::Connect, testkit::Operation::Connect),
    (Operation::Create, testkit::Operation::Create),
    (Operation::Delete, testkit::Operation::Delete),
    (Operation::Exists, testkit::Operation::Exists),
    (Operation::GetData, testkit::Operation::GetData),
    (Operation::SetData, testkit::Operation::SetData),
    (Operation::List, testkit::Operation::List),
    (Operation::Sync, testkit::Operation::Sync),
    (Operation::Ping, testkit::Operation::Ping),
    (Operation::Multi, testkit::Operation::Multi),
    (Operation::MultiRead, testkit::Operation::Other(22)),
    (Operation::SetWatches, testkit::Operation::SetWatches),
    (Operation::RemoveWatches, testkit::Operation::RemoveWatches),
    (Operation::Auth, testkit::Operation::Auth),
    (Operation::CloseSession, testkit::Operation::CloseSession),
    (Operation::Event, testkit::Operation::Event),
];

/// What the test kit's proxy calls it.
trait Real {
    type Real;
    fn real(self) -> Self::Real;
}

impl Real for Operation {
    type Real = testkit::Operation;
    fn real(self) -> testkit::Operation {
        OPERATIONS.iter().find(|(one, _)| *one == self).expect("a known operation").1
    }
}

impl Real for Direction {
    type Real = testkit::Direction;
    fn real(self) -> testkit::Direction {
        match self {
            Self::ToServer => testkit::Direction::ToServer,
            Self::ToClient => testkit::Direction::ToClient,
            Self::Both => testkit::Direction::Both,
        }
    }
}

impl Real for Cut {
    type Real = testkit::Cut;
    fn real(self) -> testkit::Cut {
        if self == Self::Finish { testkit::Cut::Finish } else { testkit::Cut::Reset }
    }
}

/// A message that a fault is about: the first of its kind, or the `nth`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message(testkit::Message, simulation::Message);

impl Message {
    pub(crate) fn request(one: Operation) -> Self {
        Self(testkit::Message::request(one.real()), simulation::Message::request(one))
    }

    pub(crate) fn reply(one: Operation) -> Self {
        Self(testkit::Message::reply(one.real()), simulation::Message::reply(one))
    }

    pub(crate) fn nth(self, nth: usize) -> Self {
        Self(self.0.nth(nth), self.1.nth(nth))
    }
}

/// A link to the servers with faults on demand.
pub(crate) enum Link {
    Real(FaultProxy),
    Simulated(simulation::Link),
}

/// Functions that both have; with arguments of which the real one has a type of its own.
macro_rules! alike {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {$(
        pub(crate) fn $name(&self, $($argument: $type),*) -> $output {
            match self {
                Self::Real(one) => one.$name($($argument.real()),*).into(),
                Self::Simulated(one) => one.$name($($argument),*).into(),
            }
        }
    )*};
    ($(async $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {$(
        pub(crate) async fn $name(&self, $($argument: $type),*) -> Result<$output, Error> {
            match self {
                Self::Real(one) => one.$name($($argument),*).await,
                Self::Simulated(one) => one.$name($($argument),*).await,
            }
        }
    )*};
}

#[allow(clippy::useless_conversion)] // of what is alike in both
impl Link {
    alike! {
        connect_string() -> &str;
        stall(direction: Direction) -> Fault;
        refuse() -> Fault;
        cut(cut: Cut) -> usize;
        requests(operation: Operation) -> usize;
        replies(operation: Operation) -> usize;
        connections() -> usize;
        accepted() -> usize;
        clear_log() -> ();
    }

    pub(crate) fn lose(&self, Message(real, simulated): Message) -> Fault {
        match self {
            Self::Real(link) => link.lose(real).into(),
            Self::Simulated(link) => link.lose(simulated).into(),
        }
    }

    pub(crate) fn hold(&self, Message(real, simulated): Message) -> Fault {
        match self {
            Self::Real(link) => link.hold(real).into(),
            Self::Simulated(link) => link.hold(simulated).into(),
        }
    }

    /// Ends the connection in the middle of that message, which has bytes only if it is real.
    #[allow(dead_code)] // it is of `tests/faults`, and so are the next one and `Server::admin`
    pub(crate) fn cut_within(&self, Message(real, _): Message) -> Fault {
        match self {
            Self::Real(link) => link.cut_within(real).into(),
            Self::Simulated(_) => panic!("a simulated message has no bytes"),
        }
    }

    #[allow(dead_code)]
    pub(crate) fn cut_at(&self, Message(real, simulated): Message, cut: Cut) -> Fault {
        match self {
            Self::Real(link) => link.cut_at(real, cut.real()).into(),
            Self::Simulated(link) => link.cut_at(simulated, cut).into(),
        }
    }

    pub(crate) fn log(&self) -> Vec<Operation> {
        let known = |real: testkit::Operation| {
            OPERATIONS.iter().find(|(_, one)| *one == real).expect("a known operation").0
        };
        match self {
            Self::Real(link) => link.log().into_iter().map(known).collect(),
            Self::Simulated(link) => link.log(),
        }
    }
}

/// Until it is healed or dropped.
#[must_use = "dropping the fault heals it"]
pub(crate) enum Fault {
    Real(testkit::Fault),
    Simulated(simulation::Fault),
}

impl From<testkit::Fault> for Fault {
    fn from(fault: testkit::Fault) -> Self {
        Self::Real(fault)
    }
}

impl From<simulation::Fault> for Fault {
    fn from(fault: simulation::Fault) -> Self {
        Self::Simulated(fault)
    }
}

impl Fault {
    pub(crate) fn strikes(&self) -> usize {
        match self {
            Self::Real(fault) => fault.strikes(),
            Self::Simulated(fault) => fault.strikes(),
        }
    }

    pub(crate) async fn struck(&self) {
        match self {
            Self::Real(fault) => fault.struck().await,
            Self::Simulated(fault) => fault.struck().await,
        }
    }

    pub(crate) fn heal(self) {}
}

/// A client beside the crate's.
#[derive(Clone, Debug)]
pub(crate) enum Admin {
    Real(Client),
    Simulated(simulation::Admin),
}

impl Admin {
    /// Of a real server; its session outlives an outage that a test makes.
    async fn connect(connect_string: &str) -> Self {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
        let client = connector.connect(connect_string).await;
        Self::Real(client.expect("an administrator's connection"))
    }

    alike! {
        async delete(path: &str, version: Option<i32>) -> ();
        async set_data(path: &str, data: &[u8], version: Option<i32>) -> Stat;
        async get_data(path: &str) -> (Vec<u8>, Stat);
        async check_stat(path: &str) -> Option<Stat>;
        async list_children(path: &str) -> Vec<String>;
        async get_acl(path: &str) -> (Vec<Acl>, Stat);
    }

    /// The real one.
    #[allow(dead_code)] // it is for `zklock`
    pub(crate) fn client(&self) -> &Client {
        let Self::Real(client) = self else { panic!("it is simulated") };
        client
    }

    /// The path of the new node; of a sequential one with its number.
    pub(crate) async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
    ) -> Result<String, Error> {
        match self {
            Self::Real(client) => {
                let options = mode.with_acls(Acls::new(acls));
                let (_, sequence) = client.create(path, data, &options).await?;
                let is_sequential = sequence.into_i64() >= 0;
                Ok(if is_sequential { format!("{path}{sequence}") } else { path.to_owned() })
            }
            Self::Simulated(admin) => Ok(admin.create(path, data, mode, acls).await?.0),
        }
    }

    /// All of them or none.
    pub(crate) async fn delete_all(&self, paths: &[String]) {
        match self {
            Self::Real(client) => {
                let mut writer = client.new_multi_writer();
                paths.iter().for_each(|path| writer.add_delete(path, None).unwrap());
                drop(writer.commit().await.unwrap());
            }
            Self::Simulated(admin) => admin.delete_all(paths).await.unwrap(),
        }
    }

    pub(crate) async fn set_acl(&self, path: &str, acls: &[Acl]) -> Result<(), Error> {
        match self {
            Self::Real(client) => client.set_acl(path, acls, None).await.map(drop),
            Self::Simulated(admin) => admin.set_acl(path, acls).await,
        }
    }

    /// Shows it to be a user of the scheme `digest`.
    pub(crate) async fn auth(&self, credentials: &str) {
        match self {
            Self::Real(client) => client.auth("digest", credentials.as_bytes()).await.unwrap(),
            Self::Simulated(admin) => admin.auth("digest", credentials).await.unwrap(),
        }
    }
}
