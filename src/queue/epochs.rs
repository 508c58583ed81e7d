//! The own nodes of one epoch after another.

use std::sync::{Arc, Mutex, PoisonError};

use super::epoch_nodes::EpochNodes;
use super::node_monitor::look_after;
use super::shortcuts::Shortcuts;
use crate::session::Session;
use crate::session::epoch::Epoch;

#[derive(Debug)]
pub(super) struct Epochs {
    pub(super) session: Arc<Session>,
    pub(super) rules: Shortcuts,
    present: Mutex<Option<Arc<EpochNodes>>>,
}

impl Epochs {
    pub(super) fn new(session: Arc<Session>, rules: Shortcuts) -> Arc<Self> {
        Arc::new(Self { session, rules, present: Mutex::default() })
    }

    /// The nodes of an epoch. Starts to look after what will be in them.
    pub(super) fn nodes(&self, epoch: &Arc<Epoch>) -> Arc<EpochNodes> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        match &*present {
            Some(nodes) if Arc::ptr_eq(&nodes.epoch, epoch) => nodes.clone(),
            _ => {
                let nodes = Arc::new(EpochNodes::new(&self.session, epoch, self.rules));
                self.session.spawn(look_after(nodes.clone()));
                // Who comes late, with an epoch that is over, must not displace the next one's.
                if !epoch.over().is_cancelled() {
                    present.replace(nodes.clone());
                }
                nodes
            }
        }
    }
}
