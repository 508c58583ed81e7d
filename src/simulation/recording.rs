//! The typed events of a run, from which its [picture](super::Picture) is drawn. The trace and its hash know nothing of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::op::Operation;
use super::process_state::ProcessState;
use super::server::Role;
use super::state::millis;
use super::world::World;
use crate::error::{Error, Loss};

/// An event, and when it happened, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) at: u64,
    pub(super) event: RunEvent,
}

#[derive(Clone, Debug)]
pub(super) enum RunEvent {
    /// A caller asks for a lock. A process is a number; 0 is the code outside all processes.
    WaitBegan {
        wait: u64,
        process: usize,
        curator: u64,
        task: String,
        path: String,
    },
    WaitEnded {
        wait: u64,
        outcome: &'static str,
    },
    /// A caller has a lock. It loses the lock with the term at the latest.
    HoldBegan {
        hold: u64,
        term: u64,
        process: usize,
        facts: RecordedHold,
    },
    HoldEnded {
        hold: u64,
        loss: Option<Loss>,
    },
    TermEnded {
        term: u64,
        loss: Loss,
    },
    Paused {
        process: usize,
    },
    Resumed {
        process: usize,
    },
    Killed {
        process: usize,
    },
    ServerRole {
        server: usize,
        role: Role,
        epoch: i64,
    },
    ServerPaused {
        server: usize,
    },
    ServerResumed {
        server: usize,
    },
    /// A client of the process has the session.
    SessionOf {
        session: i64,
        process: usize,
    },
    SessionExpired {
        session: i64,
        server: usize,
    },
    /// A client of the process connects over the link.
    LinkUsed {
        link: usize,
        process: usize,
    },
    FaultBegan {
        fault: u64,
        place: Place,
        name: String,
    },
    FaultEnded {
        fault: u64,
    },
    /// A message arrived, or was lost at this moment.
    Message {
        from: End,
        to: End,
        sent: u64,
        operation: Option<Operation>,
        is_lost: bool,
    },
    Mark {
        text: String,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedHold {
    pub(crate) task: String,
    pub(crate) path: String,
    /// The text before the sequence number in the name of the contender's znode.
    pub(crate) kind: &'static str,
    pub(crate) token: i64,
    pub(crate) session: i64,
}

/// The place of a fault.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Link(usize),
    Session(i64),
    Servers(Vec<usize>),
}

/// An end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client { process: usize, session: i64 },
    Server(usize),
}

#[derive(Default)]
pub(super) struct Recording {
    /// `None` while nothing is recorded.
    events: Option<Vec<Recorded>>,
    /// The names of the processes, from number 1 on.
    processes: Vec<String>,
    /// Delays of messages to a server.
    lags: BTreeMap<usize, u64>,
    last_number: u64,
}

impl Recording {
    pub(super) fn start(&mut self) {
        self.events = Some(Vec::new());
    }

    pub(super) fn is_on(&self) -> bool {
        self.events.is_some()
    }

    pub(super) fn add(&mut self, at: u64, event: RunEvent) {
        if let Some(events) = &mut self.events {
            events.push(Recorded { at, event });
        }
    }

    pub(super) fn events(&self) -> &[Recorded] {
        self.events.as_deref().unwrap_or_default()
    }

    /// Names a new process by its number, which is returned.
    pub(super) fn add_process(&mut self) -> usize {
        let number = self.processes.len() + 1;
        self.processes.push(format!("process {number}"));
        number
    }

    pub(super) fn rename(&mut self, process: usize, name: String) {
        if let Some(known) = process.checked_sub(1).and_then(|at| self.processes.get_mut(at)) {
            *known = name;
        }
    }

    pub(super) fn processes(&self) -> &[String] {
        &self.processes
    }

    /// A number for a wait, a hold, a term or a fault.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn begin_fault(&mut self, at: u64, place: Place, name: String) -> u64 {
        let fault = self.number();
        self.add(at, RunEvent::FaultBegan { fault, place, name });
        fault
    }

    pub(super) fn end_fault(&mut self, at: u64, fault: u64) {
        self.add(at, RunEvent::FaultEnded { fault });
    }

    /// Messages to a server are delayed from now on; by 0 if they no longer are.
    pub(super) fn lag(&mut self, at: u64, server: usize, delay: u64) {
        if let Some(fault) = self.lags.remove(&server) {
            self.end_fault(at, fault);
        }
        if delay > 0 {
            let name = format!("messages to server {server} take {delay} ms more");
            let fault = self.begin_fault(at, Place::Servers(vec![server]), name);
            self.lags.insert(server, fault);
        }
    }
}

/// Adds what the present process reports to this thread's simulation, which numbers it. `None` outside a simulation.
fn report(ago: u64, event: impl FnOnce(u64, usize) -> RunEvent) -> Option<u64> {
    World::here().map(|world| {
        world.change(|state| {
            let number = state.recording.number();
            if state.recording.is_on() {
                let at = state.events.now().saturating_sub(ago);
                state.recording.add(at, event(number, ProcessState::current().number()));
            }
            number
        })
    })
}

/// A caller's wait, which is reported as given up if it is dropped before its end.
#[derive(Debug)]
pub(crate) struct ReportedWait(Option<u64>);

impl ReportedWait {
    pub(crate) fn begin(curator: u64, task: &dyn std::fmt::Debug, path: &str) -> Self {
        Self(report(0, |wait, process| {
            let task = format!("{task:?}");
            RunEvent::WaitBegan { wait, process, curator, task, path: path.to_owned() }
        }))
    }

    pub(crate) fn answered<T>(&mut self, answer: &Result<T, Error>) {
        self.end(match answer {
            Ok(_) => "acquired",
            Err(error) if error.is_busy() => "busy",
            Err(_) => "failed",
        });
    }

    fn end(&mut self, outcome: &'static str) {
        if let Some(wait) = self.0.take() {
            report(0, |_, _| RunEvent::WaitEnded { wait, outcome });
        }
    }
}

impl Drop for ReportedWait {
    fn drop(&mut self) {
        self.end("given up");
    }
}

/// The holds of one term.
#[derive(Debug)]
pub(crate) struct ReportedTerm(Option<u64>);

impl Default for ReportedTerm {
    fn default() -> Self {
        Self(World::here().map(|world| world.change(|state| state.recording.number())))
    }
}

impl ReportedTerm {
    pub(crate) fn begin(&self, facts: impl FnOnce() -> RecordedHold) -> ReportedHold {
        ReportedHold(self.0.and_then(|term| {
            report(0, |hold, process| RunEvent::HoldBegan { hold, term, process, facts: facts() })
        }))
    }

    /// The term ended so long ago.
    pub(crate) fn ended(&self, loss: Loss, ago: Duration) {
        if let Some(term) = self.0 {
            report(millis(ago), |_, _| RunEvent::TermEnded { term, loss });
        }
    }
}

/// One hold. Only its first end counts.
#[derive(Debug)]
pub(crate) struct ReportedHold(Option<u64>);

impl ReportedHold {
    pub(crate) fn ended(&self, loss: Option<Loss>) {
        if let Some(hold) = self.0 {
            report(0, |_, _| RunEvent::HoldEnded { hold, loss });
        }
    }
}
