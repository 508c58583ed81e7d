//! Strangers: other clients, step by step.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;
use zookeeper_recipes::simulation::Admin;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Error};

use crate::judge::Access;
use crate::simulated_task::{Begun, SimulatedTask};

impl SimulatedTask {
    /// Follows another client's steps: creates, lists until it is the first, deletes. It has no lease.
    pub(crate) async fn stranger(&mut self, name: fn(&mut Rng) -> String) {
        while !self.run.is_over() {
            // A new session each time: the last one may have expired.
            let admin = self.run.ensemble.admin().await;
            self.pause().await;
            let prefix = name(&mut self.rng);
            let node = format!("{}/{prefix}", self.path);
            let mode = CreateMode::EphemeralSequential;
            let created = admin.create(&node, b"stranger", mode, &Acls::anyone_all()).await;
            let node = match created {
                Ok((node, _)) => Some(node),
                Err(_) => self.found(&admin, &prefix).await,
            };
            let Some(node) = node else {
                // An operator may have deleted the path.
                let mode = CreateMode::Container;
                let _ = admin.create(&self.path, b"", mode, &Acls::anyone_all()).await;
                continue;
            };
            self.first(&admin, &node).await;
            while admin.delete(&node, None).await.is_err() && self.run.judge.has(&node) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// The node of a create that was not answered, if there is one.
    async fn found(&self, admin: &Admin, prefix: &str) -> Option<String> {
        loop {
            let listed = match admin.sync().await {
                Ok(()) => admin.list_children(&self.path).await,
                Err(error) => Err(error),
            };
            match listed {
                Ok(children) => {
                    let own = children.into_iter().find(|child| child.starts_with(prefix))?;
                    return Some(format!("{}/{own}", self.path));
                }
                Err(Error::NoNode | Error::SessionExpired) => return None,
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn first(&mut self, admin: &Admin, node: &str) {
        let own = node.rsplit('/').next().unwrap_or_default().to_owned();
        loop {
            let mut children = match admin.list_children(&self.path).await {
                Ok(children) => children,
                Err(Error::NoNode | Error::SessionExpired) => return,
                Err(_) => {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            children.sort_by_key(|child| {
                child
                    .chars()
                    .rev()
                    .take(10)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect::<String>()
            });
            if !children.contains(&own) {
                return;
            }
            if children.first() == Some(&own) {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let (judge, there) = (self.run.judge.clone(), node.to_owned());
        let is_there = Arc::new(move || judge.has(&there));
        // Its session ends with its node.
        let begun = [self.begin(Vec::new(), Access::Alone, None, is_there)];
        self.hold(&begun).await;
        begun.into_iter().for_each(Begun::end);
    }
}

fn guid(rng: &mut Rng) -> String {
    let bits = rng.u128(..);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        bits >> 96,
        (bits >> 80) & 0xffff,
        (bits >> 64) & 0xfff,
        (bits >> 48) & 0xfff,
        bits & 0xffff_ffff_ffff
    )
}

pub(crate) fn curator_node(rng: &mut Rng) -> String {
    format!("_c_{}-lock-", guid(rng))
}

pub(crate) fn kazoo_node(rng: &mut Rng) -> String {
    format!("{}__lock__", guid(rng).replace('-', ""))
}
