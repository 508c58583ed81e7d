//! Links with faults on demand, simulated or real.

use zookeeper_recipes::simulation;
pub use zookeeper_recipes::simulation::{Cut, Direction, Operation};
use zookeeper_testkit::{self as testkit, FaultProxy};

use super::alike;

const OPERATIONS: [(Operation, testkit::Operation); 16] = [
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
    (Operation::SetWatches, testkit::Operation::SetWatches),
    (Operation::RemoveWatches, testkit::Operation::RemoveWatches),
    (Operation::Auth, testkit::Operation::Auth),
    (Operation::CloseSession, testkit::Operation::CloseSession),
    (Operation::Event, testkit::Operation::Event),
];

/// The value in the terms of the test kit's proxy.
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

/// The message that a fault strikes: the first of its kind, or the `nth`.
#[derive(Clone, Copy, Debug)]
pub struct Message(testkit::Message, simulation::Message);

impl Message {
    pub fn request(one: Operation) -> Self {
        Self(testkit::Message::request(one.real()), simulation::Message::request(one))
    }

    pub fn reply(one: Operation) -> Self {
        Self(testkit::Message::reply(one.real()), simulation::Message::reply(one))
    }

    pub fn nth(self, nth: usize) -> Self {
        Self(self.0.nth(nth), self.1.nth(nth))
    }
}

/// A link to the servers with faults on demand.
pub enum Link {
    Real(FaultProxy),
    Simulated(simulation::Link),
}

#[allow(clippy::useless_conversion)] // some types are the same in both variants
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

    pub fn lose(&self, Message(real, simulated): Message) -> Fault {
        match self {
            Self::Real(link) => link.lose(real).into(),
            Self::Simulated(link) => link.lose(simulated).into(),
        }
    }

    pub fn hold(&self, Message(real, simulated): Message) -> Fault {
        match self {
            Self::Real(link) => link.hold(real).into(),
            Self::Simulated(link) => link.hold(simulated).into(),
        }
    }

    /// Ends the connection in the middle of that message. Simulated messages have no bytes.
    pub fn cut_within(&self, Message(real, _): Message) -> Fault {
        match self {
            Self::Real(link) => link.cut_within(real).into(),
            Self::Simulated(_) => panic!("a simulated message has no bytes"),
        }
    }

    pub fn cut_at(&self, Message(real, simulated): Message, cut: Cut) -> Fault {
        match self {
            Self::Real(link) => link.cut_at(real, cut.real()).into(),
            Self::Simulated(link) => link.cut_at(simulated, cut).into(),
        }
    }

    pub fn log(&self) -> Vec<Operation> {
        let known = |real: testkit::Operation| {
            OPERATIONS.iter().find(|(_, one)| *one == real).expect("a known operation").0
        };
        match self {
            Self::Real(link) => link.log().into_iter().map(known).collect(),
            Self::Simulated(link) => link.log(),
        }
    }
}

/// A fault that lasts until it is healed or dropped.
#[must_use = "dropping the fault heals it"]
pub enum Fault {
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
    pub fn strikes(&self) -> usize {
        match self {
            Self::Real(fault) => fault.strikes(),
            Self::Simulated(fault) => fault.strikes(),
        }
    }

    pub async fn struck(&self) {
        match self {
            Self::Real(fault) => fault.struck().await,
            Self::Simulated(fault) => fault.struck().await,
        }
    }

    pub fn heal(self) {}
}
