//! What goes wrong, and is mended again.

use std::ops::Range;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use zookeeper_recipes::simulation::{
    Admin, Cut, Direction, Ensemble, Fault as Struck, Link, Message, Operation, Partition,
};

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};

use crate::plan::{Fault, Recipe, What};
use crate::simulated_task::{Run, path};
use crate::work::Running;

/// What a picture shows of the time after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The processes that run, each with its own link.
pub(crate) struct Members {
    pub(crate) running: Vec<Running>,
    links: Vec<Link>,
}

impl Members {
    pub(crate) fn start(run: &Run) -> Self {
        let links: Vec<_> = run.plan.processes.iter().map(|_| run.ensemble.link()).collect();
        let start = |(number, link): (usize, &Link)| run.start(number, link.connect_string());
        let running = links.iter().enumerate().map(start).collect();
        Self { running, links }
    }
}

/// What ends when its time is over.
enum Wrong {
    Link(Struck),
    Parted(#[allow(dead_code)] Partition),
    Paused(usize),
    Killed(usize),
    Stopped(Range<usize>),
    PausedServers(Range<usize>),
    Lagging(usize),
}

/// Makes the plan's trouble, one after the other and some beside each other, until its time is over; then all is well. A run that has
/// failed ends soon: what follows shows no more, and may take an hour.
pub(crate) async fn make(run: &Run, members: &mut Members, admin: &Admin) {
    let began = Instant::now();
    let mut wrong: Vec<(u64, Wrong)> = Vec::new();
    let mut faults = run.plan.faults.iter().peekable();
    loop {
        let ends = wrong.iter().map(|(end, _)| *end).min();
        let begins = faults.peek().map(|fault| fault.at);
        let Some(next) = ends.into_iter().chain(begins).min() else { break };
        sleep_until(began + Duration::from_millis(next)).await;
        if run.judge.has_failed() {
            return sleep(AFTER_FAILURE).await;
        }
        while let Some(place) = wrong.iter().position(|(end, _)| *end <= next) {
            let (_, over) = wrong.remove(place);
            mend(run, members, over);
            run.judge.wrong(wrong.len());
        }
        if begins == Some(next)
            && let Some(fault) = faults.next()
        {
            // What an operator deletes is known by its name.
            if matches!(fault.what, What::DeleteContender(_)) {
                begin(run, members, admin, fault).await;
                continue;
            }
            run.judge.wrong(wrong.len() + 1);
            if let Some(one) = begin(run, members, admin, fault).await {
                wrong.push((next + fault.lasts, one));
            }
            run.judge.wrong(wrong.len());
        }
    }
    sleep_until(began + run.plan.length).await;
}

async fn begin(run: &Run, members: &Members, admin: &Admin, fault: &Fault) -> Option<Wrong> {
    let (ensemble, judge) = (&run.ensemble, &run.judge);
    ensemble.note(format_args!("! {fault:?}"));
    let on = |process: usize| members.links.get(process);
    let own = |process: usize| members.running.get(process).and_then(|one| one.curator.get());
    let wrong = match fault.what {
        What::Cut(process) => {
            judge.struck(on(process)?.cut(Cut::Reset));
            return None;
        }
        What::Finish(process) => {
            judge.struck(on(process)?.cut(Cut::Finish));
            return None;
        }
        What::Expire(process) => {
            let session = own(process)?.session_id().ok()?;
            judge.operator_ends(session);
            ensemble.expire_session(session);
            judge.struck(1);
            return None;
        }
        What::DeleteContender(number) => {
            let parent = match run.plan.paths.get(number)? {
                Recipe::Slots(count) => {
                    let index = usize::try_from(fault.lasts).unwrap_or(0) % count;
                    format!("{}/slots/{index}", path(number))
                }
                _ => path(number),
            };
            let mut nodes = ensemble.children(&parent);
            if fault.lasts.is_multiple_of(2) {
                // Whoever holds, most often.
                nodes.sort_by_key(|node| {
                    node.get(node.len().saturating_sub(10)..).map(str::to_owned)
                });
            }
            let node = nodes.into_iter().next()?;
            let node = format!("{parent}/{node}");
            judge.operator_deletes(&node);
            judge.struck(usize::from(admin.delete(&node, None).await.is_ok()));
            return None;
        }
        What::DeletePath(number) => {
            judge.struck(usize::from(delete_below(run, admin, &path(number)).await));
            return None;
        }
        What::CopyName(process, number) => {
            let lost = on(process)?.lose(Message::reply(Operation::Create));
            if timeout(Duration::from_millis(fault.lasts), lost.struck()).await.is_ok() {
                judge.struck(1);
                copy_names(run, admin, &path(number)).await;
            }
            return None;
        }
        What::LoseRequest(process, nth) => {
            Wrong::Link(on(process)?.lose(Message::request(Operation::Any).nth(nth.into())))
        }
        What::LoseReply(process, nth) => {
            Wrong::Link(on(process)?.lose(Message::reply(Operation::Any).nth(nth.into())))
        }
        What::HoldReply(process, nth) => {
            Wrong::Link(on(process)?.hold(Message::reply(Operation::Any).nth(nth.into())))
        }
        What::StallToServer(process) => Wrong::Link(on(process)?.stall(Direction::ToServer)),
        What::StallToClient(process) => Wrong::Link(on(process)?.stall(Direction::ToClient)),
        What::Refuse(process) => {
            judge.struck(on(process)?.cut(Cut::Reset));
            Wrong::Link(on(process)?.refuse())
        }
        What::Delay(process) => Wrong::Link(
            on(process)?.delay(Direction::Both, Duration::from_millis(fault.lasts / 20)),
        ),
        What::Partition(process) => Wrong::Parted(ensemble.partition(own(process)?)),
        What::Pause(process) => {
            members.running.get(process)?.process.pause();
            judge.pauses(process, true);
            Wrong::Paused(process)
        }
        // One that is dead is started again once.
        What::Kill(process) if members.running.get(process)?.process.is_killed() => return None,
        What::Kill(process) => {
            members.running.get(process)?.process.kill();
            judge.killed();
            Wrong::Killed(process)
        }
        What::StopServer(server) => stop(ensemble, server..server + 1),
        What::StopServers => stop(ensemble, 0..ensemble.servers()),
        What::PauseServer(server) => pause(ensemble, server..server + 1),
        What::PauseServers => pause(ensemble, 0..ensemble.servers()),
        What::Isolate(server) => Wrong::Parted(ensemble.isolate(server)),
        What::Part(from, to) => Wrong::Parted(ensemble.part(from, to)),
        What::Lag(server) => {
            ensemble.lag(server, Duration::from_millis(fault.lasts.min(2_000)));
            Wrong::Lagging(server)
        }
    };
    if !matches!(wrong, Wrong::Link(_)) {
        judge.struck(1);
    }
    Some(wrong)
}

fn stop(ensemble: &Ensemble, servers: Range<usize>) -> Wrong {
    servers.clone().for_each(|server| ensemble.stop(server));
    Wrong::Stopped(servers)
}

fn pause(ensemble: &Ensemble, servers: Range<usize>) -> Wrong {
    servers.clone().for_each(|server| ensemble.pause(server));
    Wrong::PausedServers(servers)
}

fn mend(run: &Run, members: &mut Members, wrong: Wrong) {
    match wrong {
        Wrong::Link(fault) => run.judge.struck(fault.strikes().min(1)),
        Wrong::Parted(_) => {}
        Wrong::Paused(process) => {
            members.running[process].process.resume();
            run.judge.pauses(process, false);
        }
        // Another takes its place.
        Wrong::Killed(process) => {
            members.running[process] = run.start(process, members.links[process].connect_string());
        }
        Wrong::Stopped(servers) => servers.for_each(|server| run.ensemble.start_again(server)),
        Wrong::PausedServers(servers) => servers.for_each(|server| run.ensemble.resume(server)),
        Wrong::Lagging(server) => run.ensemble.lag(server, Duration::ZERO),
    }
    run.ensemble.note(format_args!("! over"));
}

/// Somebody who puts copies in the place of contenders, of the same name but for the number; until whoever lost a reply has
/// looked for its node.
async fn copy_names(run: &Run, admin: &Admin, top: &str) {
    let node_at = |child: &str| run.ensemble.node(&format!("{top}/{child}"));
    // The names without their numbers, each with the session that had it.
    let mut copied = Vec::new();
    let mut is_unknown = false;
    for child in run.ensemble.children(top) {
        // Strangers go by the names of their nodes, which a copy on a path that is made anew may have. A node without a session
        // is no contender's.
        let Some((data, owner)) = node_at(&child) else { continue };
        if data == b"stranger" || owner == 0 {
            continue;
        }
        let name = child.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let mode = CreateMode::EphemeralSequential;
        let copy = format!("{top}/{name}");
        is_unknown |= admin.create(&copy, b"copy", mode, &Acls::anyone_all()).await.is_err();
        copied.push((name.to_owned(), owner));
        let node = format!("{top}/{child}");
        run.judge.operator_deletes(&node);
        let _ = admin.delete(&node, None).await;
    }
    // A create without an answer may take effect late.
    for _ in 0..if is_unknown { 5 } else { 1 } {
        sleep(Duration::from_secs(2)).await;
        for child in run.ensemble.children(top) {
            let owner = node_at(&child).map(|(_, owner)| owner);
            let is_copy = |(name, had): &(String, i64)| {
                child.starts_with(name) && owner.is_some_and(|owner| owner != *had)
            };
            if copied.iter().any(is_copy) {
                let node = format!("{top}/{child}");
                // A member's node has no number: it can be that of another process by now.
                run.judge.operator_deletes(&node);
                let _ = admin.delete(&node, None).await;
            }
        }
    }
}

/// As an operator deletes a path: again until nothing is left of it, for a while.
async fn delete_below(run: &Run, admin: &Admin, top: &str) -> bool {
    for _ in 0..5 {
        let mut nodes = run.ensemble.nodes();
        nodes.retain(|node| node == top || node.starts_with(&format!("{top}/")));
        nodes.reverse();
        for node in &nodes {
            run.judge.operator_deletes(node);
            let _ = admin.delete(node, None).await;
        }
        if run.ensemble.node(top).is_none() {
            return true;
        }
        sleep(Duration::from_millis(5)).await;
    }
    false
}
