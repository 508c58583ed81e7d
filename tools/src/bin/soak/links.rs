//! The links of a worker, and what faults do to them.

use tools::Result;
use zookeeper_testkit::{Cut, Direction, Fault, FaultProxy, Message, TestEnsemble};

use crate::schedule::{Kind, To};

/// The links of one worker: a proxy to each member.
pub(crate) struct Links(Vec<FaultProxy>);

/// Heals when it is dropped.
pub(crate) type Faults = Vec<Fault>;

impl Links {
    pub(crate) async fn start(ensemble: &TestEnsemble) -> Result<Self> {
        let mut proxies = Vec::new();
        for member in ensemble.members() {
            proxies.push(FaultProxy::start(member.connect_string()).await?);
        }
        Ok(Self(proxies))
    }

    pub(crate) fn connect_string(&self) -> String {
        let all: Vec<_> = self.0.iter().map(FaultProxy::connect_string).collect();
        all.join(",")
    }

    fn chosen(&self, links: To) -> impl Iterator<Item = &FaultProxy> {
        let chosen = move |place: &usize| match links {
            To::All => true,
            To::One(one) => *place == one,
        };
        self.0.iter().enumerate().filter(move |(place, _)| chosen(place)).map(|(_, proxy)| proxy)
    }

    /// What the kind says, at once or until the faults are dropped.
    pub(crate) fn disturb(&self, kind: Kind) -> Faults {
        match kind {
            Kind::Cut(links, cut) => {
                self.chosen(links).for_each(|proxy| _ = proxy.cut(cut));
                Vec::new()
            }
            Kind::Stall(links, direction) => {
                self.chosen(links).map(|proxy| proxy.stall(direction)).collect()
            }
            Kind::Delay(links, by) => {
                self.chosen(links).map(|proxy| proxy.delay(Direction::Both, by)).collect()
            }
            Kind::Refuse(links) => self.chosen(links).map(refuse).collect(),
            Kind::LoseRequest(of) => {
                self.0.iter().map(|proxy| proxy.lose(Message::request(of))).collect()
            }
            Kind::LoseReply(of) => {
                self.0.iter().map(|proxy| proxy.lose(Message::reply(of))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Also the connections there are.
fn refuse(proxy: &FaultProxy) -> Fault {
    let fault = proxy.refuse();
    proxy.cut(Cut::Reset);
    fault
}
