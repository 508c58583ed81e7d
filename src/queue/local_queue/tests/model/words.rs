//! The steps of a trace in words.

use super::servers::{Answer, Purpose, Request, name_of};
use super::world::{Step, World};
use crate::queue::local_queue::NodeId;

impl World {
    /// Describes a step that is possible in this state.
    pub(super) fn words(&self, step: Step) -> String {
        match step {
            Step::Joins(p, c) => {
                let caller = &self.processes[p].callers[c];
                let waiter = &caller.waiter;
                let kind = self.processes[p].queues[caller.queue].kind;
                let how = if waiter.no_wait { "tries" } else { "asks for" };
                format!("process {p}: caller {c} {how} a {kind:?}")
            }
            Step::Withdraws(p, c) => format!("process {p}: caller {c} stops waiting"),
            Step::Releases(p, c) => format!("process {p}: caller {c} releases its hold"),
            Step::WritesFenced(p, c) => format!("process {p}: caller {c} sends a fenced write"),
            Step::Accompanies(p, c) => {
                format!("process {p}: a read is created alongside the hold of caller {c}")
            }
            Step::ReleasesCompanion(p) => format!("process {p}: the companion read is released"),
            Step::Executes(p) => {
                let request = self.servers.sessions[p].requests.front();
                let request = request.map(request_in_words).unwrap_or_default();
                format!("servers: execute of process {p}: {request}")
            }
            Step::Hears(p) => {
                let answer = self.servers.sessions[p].answers.front();
                let answer = answer.map(answer_in_words).unwrap_or_default();
                format!("process {p}: hears {answer}")
            }
            Step::HearsWithEvent(p) => {
                format!("{}, and that contenders came or left", self.words(Step::Hears(p)))
            }
            Step::LosesConnection(p) => format!("process {p}: the connection breaks"),
            Step::Reconnects(p) => format!("process {p}: the client is connected again"),
            Step::LosesLease(p) => format!("process {p}: the session lease ends"),
            Step::RenewsLease(p) => format!("process {p}: the session is proved, the lease lasts"),
            Step::Expires(p) => format!("servers: the session of process {p} expires"),
            Step::LearnsOfExpiry(p) => format!("process {p}: learns of the end of its session"),
            Step::EntersAgain(p, q) => format!("process {p}: the attempt of queue {q} ended"),
            Step::ListsAgain(p, q) => format!("process {p}: the entry of queue {q} lists again"),
            Step::StopsEntry(p, q) => format!("process {p}: the entry of queue {q} stops"),
            Step::EndsRetention(p, q) => format!("process {p}: the retention of queue {q} ends"),
            Step::IsAskedToGiveUp(p, q) => {
                format!("process {p}: another process asks for the node of queue {q}")
            }
            Step::Closes(p) => format!("process {p}: the connection is about to be closed"),
            Step::RunsOutOfRoom(p) => format!("process {p}: the session's room gets scarce"),
            Step::OperatorDeletes(key) => format!("an operator deletes {}", name_of(key)),
            Step::CuratorCreates => format!("Curator creates a {:?}", self.curator.plan[0]),
            Step::CuratorHolds => "Curator holds".to_owned(),
            Step::CuratorDeletes => "Curator deletes its node".to_owned(),
        }
    }
}

fn names(children: &[NodeId]) -> String {
    let names: Vec<_> = children.iter().map(|child| name_of(*child)).collect();
    format!("[{}]", names.join(", "))
}

fn purpose_in_words(purpose: Purpose, watch: bool) -> String {
    let with = if watch { " with a watch on the children" } else { "" };
    match purpose {
        Purpose::Entering => format!("the listing behind the create{with}"),
        Purpose::Again(own) => format!("the next listing for {}{with}", name_of(own)),
        Purpose::Sole(node) => format!("the listing whether {} is sole{with}", name_of(node)),
    }
}

fn request_in_words(request: &Request) -> String {
    match request {
        Request::Create { kind, .. } => format!("create of a {kind:?}"),
        Request::List { purpose, watch, .. } => purpose_in_words(*purpose, *watch),
        Request::Watch { target, .. } => format!("watch on {}", name_of(*target)),
        Request::Delete(key) => format!("delete of {}", name_of(*key)),
        Request::Companion(write) => format!("create of a read alongside {}", name_of(*write)),
        Request::Search { .. } => "search for the node of a create".to_owned(),
        Request::Fenced { key, hold, .. } => {
            format!("fenced write of hold {hold} by {}", name_of(*key))
        }
    }
}

fn answer_in_words(answer: &Answer) -> String {
    match answer {
        Answer::Created { key, .. } => format!("that {} is created", name_of(*key)),
        Answer::Listing { purpose, watch, children, .. } => {
            format!("{}: {}", purpose_in_words(*purpose, *watch), names(children))
        }
        Answer::Watching { target, exists: true, .. } => {
            format!("that {} is watched", name_of(*target))
        }
        Answer::Watching { target, .. } => format!("that {} does not exist", name_of(*target)),
        Answer::Accompanied { created: true, .. } => "that the read is created".to_owned(),
        Answer::Accompanied { .. } => "that no read is created".to_owned(),
        Answer::Found { key: Some(key), .. } => format!("that {} is found", name_of(*key)),
        Answer::Found { .. } => "that no node is found".to_owned(),
        Answer::Children { .. } => "that contenders came or left".to_owned(),
        Answer::Deleted(key) => format!("that {} is deleted", name_of(*key)),
    }
}
