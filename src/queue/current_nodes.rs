//! The own nodes of one session after another.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::node_monitor::look_after;
use super::session_nodes::SessionNodes;
use super::shortcuts::Shortcuts;
use crate::lock::Mutex;
use crate::session::Session;
use crate::session::{Connection, NoSession};

#[derive(Debug)]
pub(super) struct CurrentNodes {
    pub(super) connection: Arc<Connection>,
    pub(super) rules: Shortcuts,
    present: Mutex<Option<Arc<SessionNodes>>>,
}

impl CurrentNodes {
    pub(super) fn new(connection: Arc<Connection>, rules: Shortcuts) -> Arc<Self> {
        Arc::new(Self { connection, rules, present: Mutex::default() })
    }

    /// The nodes of the present session, or of the next one if it comes up before callers lose patience.
    pub(super) async fn present_nodes(&self) -> Result<Arc<SessionNodes>, NoSession> {
        let session = self.connection.session(self.connection.settings.connection_timeout).await?;
        Ok(self.nodes(&session))
    }

    /// The nodes of a session. Starts to look after what will be in them.
    pub(super) fn nodes(&self, session: &Arc<Session>) -> Arc<SessionNodes> {
        let mut present = self.present.lock();
        match &*present {
            Some(nodes) if Arc::ptr_eq(&nodes.session, session) => nodes.clone(),
            _ => {
                let (watched, handed_over) = mpsc::unbounded_channel();
                let nodes =
                    Arc::new(SessionNodes::new(&self.connection, session, self.rules, watched));
                self.connection.spawn(look_after(nodes.clone(), handed_over));
                // A caller that comes late, with a session that is over, must not displace the next one's.
                if !session.ended().is_cancelled() {
                    present.replace(nodes.clone());
                }
                nodes
            }
        }
    }
}
