//! Servers, simulated or real.

use std::any::Any;
use std::sync::Arc;

use zookeeper_recipes::simulation::Ensemble;
use zookeeper_testkit::{FaultProxy, TestEnsemble, TestServer, TestkitError};

use super::{Admin, Link};

#[derive(Clone)]
pub enum Servers {
    One(Arc<TestServer>),
    Three(Arc<TestEnsemble>),
    Simulated(Arc<Ensemble>),
}

impl Servers {
    pub fn connect_string(&self) -> &str {
        match self {
            Self::One(server) => server.connect_string(),
            Self::Three(ensemble) => ensemble.connect_string(),
            Self::Simulated(ensemble) => ensemble.connect_string(),
        }
    }

    pub fn members(&self) -> Vec<Server> {
        let count = match self {
            Self::One(_) => 1,
            Self::Three(ensemble) => ensemble.members().len(),
            Self::Simulated(ensemble) => ensemble.servers(),
        };
        (0..count).map(|number| Server::new(self.clone(), number)).collect()
    }

    pub async fn admin(&self) -> Admin {
        match self {
            Self::Simulated(ensemble) => Admin::Simulated(ensemble.admin().await),
            Self::One(server) => Admin::connect(server.plain_connect_string()).await,
            real => Admin::connect(real.connect_string()).await,
        }
    }

    pub async fn leader(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Three(ensemble) => ensemble.leader().await.unwrap(),
            Self::Simulated(ensemble) => ensemble.leader().unwrap(),
        }
    }

    /// Returns the number of watches that the servers keep for all clients.
    pub async fn watches(&self) -> usize {
        let server = match self {
            Self::Simulated(ensemble) => return ensemble.watches(),
            Self::One(server) => server,
            Self::Three(_) => panic!("each has its own"),
        };
        let answer = server.four_letter_word("wchs").await.unwrap();
        let total = answer.lines().find_map(|line| line.strip_prefix("Total watches:")).unwrap();
        total.trim().parse().unwrap()
    }

    /// Returns whether a client watches the data of this node of a real server.
    pub async fn is_watched(&self, path: &str) -> bool {
        let Self::One(server) = self else { panic!("each has its own") };
        let answer = server.four_letter_word("wchp").await.unwrap();
        answer.lines().any(|line| line == path)
    }

    /// Disconnects two servers from each other until the returned value is dropped.
    pub fn part(&self, one: usize, other: usize) -> Box<dyn Any> {
        match self {
            Self::One(_) => panic!("one server is not parted"),
            Self::Three(ensemble) => Box::new(ensemble.part(one, other)),
            Self::Simulated(ensemble) => {
                Box::new([ensemble.part(one, other), ensemble.part(other, one)])
            }
        }
    }
}

/// Returns whether an answer to `srvr` names a version before this one.
pub fn is_before(srvr: &str, version: [u32; 2]) -> bool {
    let named = srvr.lines().find_map(|line| line.strip_prefix("Zookeeper version: ")).unwrap();
    let numbers: Vec<u32> = named.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    numbers[..2] < version[..]
}

/// One server of [`Servers`].
#[derive(Clone)]
pub struct Server {
    of: Servers,
    number: usize,
    connect_string: String,
}

/// Calls a function that a single server and a member of an ensemble both have.
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
    pub fn new(of: Servers, number: usize) -> Self {
        let connect_string = match &of {
            Servers::One(server) => server.connect_string().to_owned(),
            Servers::Three(ensemble) => ensemble.member(number).connect_string().to_owned(),
            Servers::Simulated(ensemble) => ensemble.link_to(number).connect_string().to_owned(),
        };
        Self { of, number, connect_string }
    }

    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    fn simulated(&self) -> Option<&Ensemble> {
        if let Servers::Simulated(ensemble) = &self.of { Some(ensemble) } else { None }
    }

    pub async fn stop(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.stop(self.number));
        real!(self.stop())
    }

    pub async fn kill(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.stop(self.number));
        real!(self.kill())
    }

    pub async fn start_again(&self) -> Result<(), TestkitError> {
        if let Some(ensemble) = self.simulated() {
            ensemble.start_again(self.number);
            ensemble.serving().await;
        }
        real!(self.start_again())
    }

    pub async fn restart(&self) -> Result<(), TestkitError> {
        self.stop().await?;
        self.start_again().await
    }

    pub async fn pause(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.pause(self.number));
        real!(self.pause())
    }

    pub async fn resume(&self) -> Result<(), TestkitError> {
        self.simulated().inspect(|ensemble| ensemble.resume(self.number));
        real!(self.resume())
    }

    /// Returns an administrator that connects to this server only.
    pub async fn admin(&self) -> Admin {
        match self.simulated() {
            Some(ensemble) => Admin::Simulated(ensemble.link_to(self.number).admin().await),
            None => Admin::connect(&self.connect_string).await,
        }
    }

    /// Returns a link to this server only.
    pub async fn link(&self) -> Link {
        match self.simulated() {
            Some(ensemble) => Link::Simulated(ensemble.link_to(self.number)),
            None => Link::Real(FaultProxy::start(&self.connect_string).await.unwrap()),
        }
    }
}
