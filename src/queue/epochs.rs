//! The own nodes of one epoch after another.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::epoch_nodes::EpochNodes;
use super::node_monitor::look_after;
use super::shortcuts::Shortcuts;
use crate::session::epoch::Epoch;
use crate::session::{NoEpoch, Session};
use crate::sync::Mutex;

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

    /// The nodes of the present epoch, or of the next one if it comes up before callers lose patience.
    pub(super) async fn present_nodes(&self) -> Result<Arc<EpochNodes>, NoEpoch> {
        let epoch = self.session.epoch(self.session.settings.connection_timeout).await?;
        Ok(self.nodes(&epoch))
    }

    /// The nodes of an epoch. Starts to look after what will be in them.
    pub(super) fn nodes(&self, epoch: &Arc<Epoch>) -> Arc<EpochNodes> {
        let mut present = self.present.lock();
        match &*present {
            Some(nodes) if Arc::ptr_eq(&nodes.epoch, epoch) => nodes.clone(),
            _ => {
                let (watched, handed_over) = mpsc::unbounded_channel();
                let nodes = Arc::new(EpochNodes::new(&self.session, epoch, self.rules, watched));
                self.session.spawn(look_after(nodes.clone(), handed_over));
                // A caller that comes late, with an epoch that is over, must not displace the next one's.
                if !epoch.over().is_cancelled() {
                    present.replace(nodes.clone());
                }
                nodes
            }
        }
    }
}
