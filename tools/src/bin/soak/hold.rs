//! One hold: asks all the time whether it holds, and logs each answer.

use std::time::Duration;

use tokio::time::sleep;
use tools::Result;
use zookeeper_recipes::{Curator, Hold};

use crate::log::{Log, Mode, Name, What, now, sequence_number};

/// Between two questions.
pub(crate) const STEP: Duration = Duration::from_millis(3);

/// A hold, and what the worker takes it for.
pub(crate) struct Held<'a> {
    pub(crate) hold: &'a Hold,
    pub(crate) mode: Mode,
    pub(crate) ignores_lease: bool,
    /// Other libraries contend as well.
    pub(crate) is_mixed: bool,
    pub(crate) curator: &'a Curator,
    pub(crate) log: &'a Log,
}

impl Held<'_> {
    fn name(&self) -> Name {
        Name(self.mode, self.hold.fencing_token().value())
    }

    /// Asks, and logs the question with its answer.
    fn is_held(&self) -> Result<bool> {
        let (hold, before) = (self.name(), now());
        let is_held = self.ignores_lease || self.hold.is_held();
        let after = now();
        let answer = if is_held { What::Yes { hold, after } } else { What::No { hold } };
        self.log.write(before, answer)?;
        Ok(is_held)
    }

    fn log_loss(&self) -> Result<()> {
        let how = self.hold.loss().map_or_else(String::new, |loss| format!("{loss:?}"));
        Ok(self.log.now(What::Lost { hold: self.name(), how })?)
    }

    async fn lost(&self) {
        if self.ignores_lease {
            std::future::pending::<()>().await;
        }
        self.hold.lost().await;
    }

    /// Asks at each step, until the hold is lost. Logs how it ends.
    pub(crate) async fn run(&self, steps: u32) -> Result<()> {
        let hold = self.name();
        self.log.now(What::Holds { hold, node: self.hold.node().to_owned() })?;
        if self.is_mixed {
            tokio::select! {
                nodes = self.nodes_before() => self.log.now(What::Behind { hold, nodes: nodes? })?,
                _ = self.hold.lost() => {}
            }
        }
        let mut lost = std::pin::pin!(self.lost());
        let mut notified = false;
        let mut step = 0;
        while self.is_held()? {
            if step == steps {
                return Ok(self.log.now(What::Releases { hold, how: "worked".to_owned() })?);
            }
            tokio::select! {
                () = sleep(STEP) => step += 1,
                () = &mut lost, if !notified => {
                    notified = true;
                    // From here on a yes is a finding.
                    self.log_loss()?;
                }
            }
        }
        self.log_loss()?;
        // It never says yes again.
        sleep(STEP).await;
        self.is_held()?;
        Ok(())
    }

    /// The nodes with a smaller number than the hold's own, when a server answers.
    async fn nodes_before(&self) -> Result<Vec<String>> {
        let own = sequence_number(self.hold.node()).ok_or("a node without a number")?;
        let (parent, _) = self.hold.node().rsplit_once('/').ok_or("a node without a parent")?;
        loop {
            if let Ok(client) = self.curator.client()
                && let Ok(mut names) = client.list_children(parent).await
            {
                names.retain(|name| sequence_number(name).is_some_and(|number| number < own));
                return Ok(names.iter().map(|name| format!("{parent}/{name}")).collect());
            }
            sleep(STEP).await;
        }
    }
}
