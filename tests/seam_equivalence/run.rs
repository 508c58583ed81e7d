//! Runs a script on either side, and writes down what happened.

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Barrier;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;
use zookeeper_testkit::{FaultProxy, kill_session};

use super::super::{
    Change, ChildrenWatch, Client, CreateMode, Dialer, Failure, LinkState, Listing, Node,
    NodeWatch, Write, WriteFailure, ZooKeeperClient, world_anyone_acl,
};
use super::Real;
use super::script::{Ask, Script, Step, What};
use crate::lock_path::LockPath;
use crate::simulation::{self, Ensemble};

type Sent<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Watch = Sent<'static, String>;

/// Where a script runs.
pub(super) enum Side {
    /// With the other scripts of a batch, which restart servers together.
    Real(Arc<Real>, Arc<Barrier>),
    Simulated(Ensemble),
}

/// What one session goes through, to each real server or to the simulated ones.
enum Link {
    Real(Vec<FaultProxy>),
    Simulated(simulation::Link),
}

/// Healed when they are dropped.
type Faults = Vec<Box<dyn Any + Send>>;

/// The same of each link, whose types `$kit` has.
macro_rules! each {
    ($link:expr, $kit:ident, $one:ident => $what:expr) => {
        match $link {
            #[allow(unused_imports)]
            Link::Real(all) => {
                use zookeeper_testkit as $kit;
                all.iter().map(|$one| $what).collect::<Vec<_>>()
            }
            #[allow(unused_imports)]
            Link::Simulated($one) => {
                use crate::simulation as $kit;
                vec![$what]
            }
        }
    };
}

impl Link {
    async fn new(side: &Side) -> Self {
        match side {
            Side::Real(servers, _) => {
                let servers = servers.addresses();
                let proxies = servers.iter().map(|server| FaultProxy::start(server));
                Self::Real(join_all(proxies).await.into_iter().map(Result::unwrap).collect())
            }
            Side::Simulated(ensemble) => Self::Simulated(ensemble.link()),
        }
    }

    fn refuse(&self) -> Faults {
        each!(self, kit, link => Box::new(link.refuse()) as _)
    }

    fn stall(&self) -> Faults {
        each!(self, kit, link => Box::new(link.stall(kit::Direction::Both)) as _)
    }

    fn cut(&self, reset: bool) {
        each!(self, kit, link => link.cut(if reset { kit::Cut::Reset } else { kit::Cut::Finish }));
    }

    /// The next request is lost, or the reply to it, or nothing passes behind that.
    fn lose(&self, nth: usize) -> Faults {
        each!(self, kit, link => {
            let any = kit::Operation::Any;
            let lose = || match nth {
                0 => link.lose(kit::Message::request(any)),
                1 => link.lose(kit::Message::reply(any)),
                _ => link.cut_at(kit::Message::reply(any), kit::Cut::Finish),
            };
            Box::new((link.connections() > 0).then(lose)) as _
        })
    }

    fn hold(&self, reply: bool) -> Faults {
        each!(self, kit, link => {
            let any = kit::Operation::Any;
            let held = if reply { kit::Message::reply(any) } else { kit::Message::request(any) };
            Box::new(link.hold(held)) as _
        })
    }

    fn replies(&self) -> usize {
        each!(self, kit, link => link.replies(kit::Operation::Any)).into_iter().sum()
    }

    /// The requests that went over it since this was asked last.
    fn take_log(&self) -> Vec<String> {
        let logs = each!(self, kit, link => {
            let log: Vec<_> = link.log().iter().map(|one| format!("{one:?}")).collect();
            link.clear_log();
            log
        });
        logs.into_iter().flatten().collect()
    }
}

/// What a session saw in a step; whether it was an event.
type Line = (usize, bool, String);

/// What all sessions saw, each in its order.
#[derive(Default)]
struct Journal {
    step: usize,
    lines: Vec<Vec<Line>>,
    states: Vec<Vec<LinkState>>,
    /// Requests that are not answered.
    pending: Vec<usize>,
}

type Shared = Arc<Mutex<Journal>>;

fn locked(journal: &Shared) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(journal: &Shared, who: usize, is_event: bool, text: String) {
    let mut journal = locked(journal);
    let step = journal.step;
    journal.lines[who].push((step, is_event, text));
}

struct Session {
    client: Option<Client>,
    link: Link,
    watches: Vec<AbortHandle>,
}

struct Run<'a> {
    side: &'a Side,
    script: &'a Script,
    sessions: Vec<Session>,
    ids: Vec<i64>,
    journal: Shared,
    asked: usize,
}

/// In milliseconds, longer than anything takes. What takes longer hangs.
const PATIENCE: u32 = 60_000;

/// A busy machine is silent for some seconds.
const LONG: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods)] // tasks end with the runtime
impl Run<'_> {
    fn root(&self) -> String {
        format!("/s{}", self.script.seed)
    }

    async fn dial(&mut self, timeout: Duration) {
        let link = Link::new(self.side).await;
        let servers = each!(&link, kit, link => link.connect_string().to_owned()).join(",");
        let (connector, servers) = (ZooKeeperClient::connector(), servers + &self.root());
        let dialer = Dialer::new(connector, timeout, &servers, LockPath::root()).unwrap();
        let client = dialer.dial().await.expect("a session");
        let who = self.sessions.len();
        {
            let mut journal = locked(&self.journal);
            journal.lines.push(Vec::new());
            journal.states.push(Vec::new());
            journal.pending.push(0);
        }
        let mut watch = client.watch_link();
        let (now, granted) = (watch.now(), client.session_timeout());
        tell(&self.journal, who, false, format!("{now:?}, {granted:?}"));
        let journal = self.journal.clone();
        tokio::spawn(async move {
            loop {
                let state = watch.changed().await;
                locked(&journal).states[who].push(state);
                tell(&journal, who, false, format!("{state:?}"));
            }
        });
        self.ids.push(client.session_id());
        self.sessions.push(Session { client: Some(client), link, watches: Vec::new() });
    }

    /// Makes requests; none is waited for.
    fn ask(&mut self, who: usize, asks: &[Ask]) {
        for ask in asks {
            self.asked += 1;
            let (ask, number, journal) = (*ask, self.asked, self.journal.clone());
            let Some(client) = self.sessions[who].client.clone() else { return };
            if ask.dropped {
                drop(send(&client, &ask));
                continue;
            }
            locked(&journal).pending[who] += 1;
            let asked_in = locked(&journal).step;
            // It sends at its first poll, and tasks are polled in the order in which they wake.
            let task = tokio::spawn(async move {
                let (text, watch) = send(&client, &ask).await;
                drop(client);
                tell(&journal, who, false, format!("#{number} {ask:?}: {text}"));
                locked(&journal).pending[who] -= 1;
                if let Some(watch) = watch {
                    let event = watch.await;
                    let mark = if locked(&journal).step == asked_in { " at once" } else { "" };
                    tell(&journal, who, true, format!("#{number} {ask:?} fired: {event}{mark}"));
                }
            });
            if ask.watches() {
                self.sessions[who].watches.push(task.abort_handle());
            }
        }
    }

    async fn until(&self, what: &str, mut condition: impl FnMut(&Journal) -> bool) {
        for _ in 0..PATIENCE {
            if condition(&locked(&self.journal)) {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
        tell(&self.journal, 0, false, format!("HANGS until {what}"));
    }

    async fn until_state(&self, who: usize, state: LinkState) {
        self.until("a state", |journal| journal.states[who].last() == Some(&state)).await;
    }

    async fn ask_and_wait(&mut self, who: usize, asks: &[Ask]) {
        self.ask(who, asks);
        self.until("all is answered", |journal| journal.pending[who] == 0).await;
    }

    /// A write is answered where all before it was applied, and after its events. The second time for what was sent
    /// before the first and was not waited for.
    async fn settle(&self, but: Option<usize>) {
        for _ in 0..2 {
            let all = self.sessions.iter().enumerate().filter(|(who, _)| Some(*who) != but);
            let asked = all.filter_map(|(who, session)| Some((who, session.client.as_ref()?)));
            join_all(asked.map(|(who, client)| self.write(who, client))).await;
        }
    }

    async fn write(&self, who: usize, client: &Client) {
        loop {
            match client.delete("/none").await {
                Err(Failure::NoNode | Failure::SessionOver(_)) => return,
                Err(Failure::Unknown(_)) => sleep(Duration::from_millis(10)).await,
                other => return tell(&self.journal, who, false, format!("settles: {other:?}")),
            }
        }
    }

    async fn unwatch(&mut self, who: usize) {
        let watches = &mut self.sessions[who].watches;
        watches.retain(|watch| !watch.is_finished());
        if !watches.is_empty() {
            watches.remove(0).abort();
        }
        yield_now().await;
    }

    /// Cuts a link for as long as the fault lives.
    async fn cut_off(&self, who: usize, reset: bool) -> Faults {
        let refusal = self.sessions[who].link.refuse();
        self.sessions[who].link.cut(reset);
        self.until_state(who, LinkState::Disconnected).await;
        refusal
    }

    /// Waits until a link was cut since `before`.
    async fn until_cut(&self, who: usize, before: usize) {
        self.until("cut", |journal| journal.states[who].len() > before).await;
    }

    async fn step(&mut self, step: &Step) {
        let Step { what, who, asks, other, meanwhile, nth } = step;
        let (who, first) = (*who, *nth == 0);
        let before = locked(&self.journal).states[who].len();
        match what {
            What::Ask => self.ask_and_wait(who, asks).await,
            What::Unwatch => self.unwatch(who).await,
            What::Blink => {
                self.ask_and_wait(who, asks).await;
                self.sessions[who].link.cut(first);
                self.until_cut(who, before).await;
            }
            What::Away => {
                let refusal = self.cut_off(who, first).await;
                self.ask_and_wait(*other, meanwhile).await;
                if first {
                    self.unwatch(who).await;
                }
                self.settle(Some(who)).await;
                self.ask(who, asks);
                yield_now().await;
                drop(refusal);
                self.ask_and_wait(who, &[]).await;
            }
            What::Lose => {
                let _lost = self.sessions[who].link.lose(*nth);
                self.ask_and_wait(who, asks).await;
                self.until_cut(who, before).await;
            }
            What::Hold => {
                let link = &self.sessions[who].link;
                let (held, due) =
                    (link.hold(first), link.replies() + asks.len() * usize::from(first));
                self.ask(who, asks);
                let link = &self.sessions[who].link;
                self.until("replied", |_| link.replies() >= due).await;
                self.settle(Some(who)).await;
                self.ask_and_wait(*other, meanwhile).await;
                self.settle(Some(who)).await;
                drop(held);
                self.ask_and_wait(who, &[]).await;
            }
            What::Expire => {
                let refusal = self.cut_off(who, true).await;
                let client = self.sessions[who].client.as_ref().unwrap();
                match self.side {
                    Side::Real(servers, _) => {
                        let session = client.inner().unwrap().session();
                        kill_session(&servers.addresses().join(","), session).await.unwrap();
                    }
                    Side::Simulated(ensemble) => ensemble.expire_session(client.session_id()),
                }
                self.ask(who, asks);
                yield_now().await;
                drop(refusal);
                self.until_state(who, LinkState::Expired).await;
                self.ask_and_wait(who, asks).await;
            }
            What::Close => {
                let refusal = if first { self.cut_off(who, true).await } else { Faults::new() };
                self.ask(who, asks);
                yield_now().await;
                self.sessions[who].client = None;
                drop(refusal);
                self.until_state(who, LinkState::Closed).await;
            }
            What::Starve => self.starve(who).await,
            What::Silence => {
                let stalled = self.sessions[who].link.stall();
                self.until_state(who, LinkState::Disconnected).await;
                drop(stalled);
            }
            What::Restart => self.restart().await,
            What::Torn => self.tear(who, *nth).await,
        }
    }

    async fn restart(&mut self) {
        match self.side {
            Side::Real(servers, batch) => {
                if batch.wait().await.is_leader() {
                    servers.restart().await;
                }
                batch.wait().await;
            }
            Side::Simulated(ensemble) => {
                let nth = usize::try_from(self.script.seed).unwrap() % ensemble.servers();
                ensemble.stop(nth);
                sleep(Duration::from_secs(1)).await;
                ensemble.start_again(nth);
                ensemble.serving().await;
            }
        }
    }

    async fn starve(&mut self, other: usize) {
        let who = self.sessions.len();
        let look = [Ask::new("look-watch", "/starved")];
        self.dial(Duration::from_secs(1)).await;
        self.ask_and_wait(who, &[Ask::new("while-ephemeral", "/starved")]).await;
        self.ask_and_wait(who, &look).await;
        self.ask_and_wait(other, &look).await;
        let _refusal = self.cut_off(who, true).await;
        self.ask(who, &look);
        self.until_state(who, LinkState::Expired).await;
        self.ask_and_wait(who, &look).await;
        let is_look = |(_, is_event, text): &Line| *is_event && text.contains("/starved");
        self.until("expired", |journal| journal.lines[other].iter().any(is_look)).await;
    }

    /// Which of the creates took effect is open; but what was confirmed did, and of the others the first ones.
    async fn tear(&mut self, who: usize, nth: usize) {
        let client = self.sessions[who].client.clone().unwrap();
        let _ = client.create("/torn", b"", &world_anyone_acl(), CreateMode::Persistent).await;
        let sent = ["/torn/0", "/torn/1", "/torn/2", "/torn/3"].map(|path| {
            let client = client.clone();
            tokio::spawn(async move {
                client.create(path, b"", &world_anyone_acl(), CreateMode::Persistent).await
            })
        });
        match nth / 2 {
            pause @ 0..4 => join_all((0..pause).map(|_| yield_now())).await.clear(),
            _ => sleep(Duration::from_millis(1)).await,
        }
        let before = locked(&self.journal).states[who].len();
        self.sessions[who].link.cut(nth.is_multiple_of(2));
        let answers = join_all(sent).await;
        self.until_cut(who, before).await;
        self.settle(None).await;
        let there = client.list("/torn").await.map_or(Vec::new(), |listing| listing.children);
        let mut lost = false;
        for (nth, answer) in answers.into_iter().map(Result::unwrap).enumerate() {
            let is_there = there.contains(&nth.to_string());
            let fits = match answer {
                Ok(_) => is_there,
                Err(Failure::Unknown(_)) => !(is_there && lost),
                Err(_) => false,
            };
            lost |= answer.is_err() && !is_there;
            if !fits {
                tell(&self.journal, who, false, format!("TORN {nth}: {answer:?}, {there:?}"));
            }
        }
    }

    /// Which requests went over the links in this step.
    fn log(&mut self, nth: usize) {
        let step = &self.script.steps[nth];
        for (who, session) in self.sessions.iter_mut().enumerate() {
            let mut log = session.link.take_log();
            log.retain(|sent| !self.script.races || sent != "RemoveWatches");
            if !step.is_ordered() {
                // It may have gone two ways, and more than once.
                log.sort();
                log.dedup_by(|one, other| one == other && one == "SetWatches");
            }
            let log = log.join(" ");
            if !matches!(step.what, What::Torn | What::Restart) && log != "Delete Delete" {
                tell(&self.journal, who, false, format!("sent {log}"));
            }
        }
    }

    /// All nodes, as a new session sees them.
    async fn tree(&mut self) {
        self.dial(LONG).await;
        let who = self.sessions.len() - 1;
        let client = self.sessions[who].client.clone().unwrap();
        let mut paths = vec!["/".to_owned()];
        while let Some(path) = paths.pop() {
            let looked = told(client.look(&path).await, |node| format!("{:?}", node.map(shown)));
            let (read, listed) = (told(client.read(&path).await, shown), client.list(&path).await);
            if let Ok(listing) = &listed {
                let mut children = listing.children.clone();
                children.retain(|child| child != "torn");
                children.sort_unstable_by(|one, other| other.cmp(one));
                let above = path.trim_end_matches('/');
                paths.extend(children.iter().map(|child| format!("{above}/{child}")));
            }
            let text = format!("{path}: {looked} {read} {}", told(listed, listing));
            tell(&self.journal, who, false, text);
        }
    }

    /// In words that do not depend on the side.
    fn transcript(&self) -> Vec<String> {
        let mut journal = locked(&self.journal);
        let unordered = |(step, is_event, _): &Line| *is_event && self.script.is_unordered(*step);
        let is_state = |text: &str| text == "Disconnected" || text == "Connected";
        let mut all = String::new();
        for (who, lines) in journal.lines.iter_mut().enumerate() {
            lines.retain(|(step, _, text)| {
                self.script.steps[*step].what != What::Restart || !is_state(text)
            });
            lines
                .chunk_by_mut(|one, other| unordered(one) && unordered(other) && one.0 == other.0)
                .for_each(<[_]>::sort);
            for (step, _, text) in lines {
                all += &format!("{step:>2} s{who} {text}\n");
            }
        }
        named(&all, &self.ids).lines().map(str::to_owned).collect()
    }
}

/// Transactions by their order, sessions by their number.
fn named(text: &str, ids: &[i64]) -> String {
    let numbers = text.split('~').skip(1).step_by(2).map(|number| number.parse::<i64>().unwrap());
    let order: BTreeSet<i64> = numbers.collect();
    let mut text = text.replace("^0^", "none");
    for (nth, number) in order.iter().enumerate() {
        text = text.replace(&format!("~{number}~"), &nth.to_string());
    }
    for (who, id) in ids.iter().enumerate() {
        text = text.replace(&format!("^{id}^"), &format!("s{who}"));
    }
    text
}

pub(super) async fn run(script: &Script, side: &Side) -> Vec<String> {
    let (sessions, ids, journal) = (Vec::new(), Vec::new(), Shared::default());
    let mut run = Run { side, script, sessions, ids, journal, asked: 0 };
    for _ in 0..script.sessions {
        run.dial(LONG).await;
    }
    let client = run.sessions[0].client.as_ref().unwrap();
    client.make_path(&LockPath::root(), &world_anyone_acl()).await.expect("a root");
    run.settle(None).await;
    for (nth, step) in script.steps.iter().enumerate() {
        locked(&run.journal).step = nth;
        run.step(step).await;
        run.settle(None).await;
        run.log(nth);
    }
    run.tree().await;
    run.transcript()
}

fn told<T>(outcome: Result<T, Failure>, show: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(outcome) => show(outcome),
        Err(Failure::Unknown(_)) => "Unknown".to_owned(),
        Err(failure) => format!("{failure:?}"),
    }
}

fn change(change: Change) -> String {
    let Change { czxid, mzxid, version } = change;
    format!("c~{czxid}~ m~{mzxid}~ v{version}")
}

fn shown(node: Node) -> String {
    format!("{} ^{}^ {:?}", change(node.change), node.owner, node.data)
}

fn listing(mut listing: Listing) -> String {
    listing.children.sort_unstable();
    let Listing { children, czxid, cversion, num_children } = listing;
    format!("c~{czxid}~ cv{cversion} {num_children} {}", children.join(" "))
}

fn node_watch(watch: NodeWatch) -> Watch {
    Box::pin(async move { format!("{:?}", watch.await) })
}

fn children_watch(watch: ChildrenWatch) -> Watch {
    Box::pin(async move {
        watch.fired().await;
        "children".to_owned()
    })
}

/// The same with a watch.
fn watched<T, W>(
    outcome: Result<(T, W), Failure>,
    show: impl FnOnce(T) -> String,
    of: impl FnOnce(W) -> Watch,
) -> (String, Option<Watch>) {
    match outcome {
        Ok((outcome, watch)) => (show(outcome), Some(of(watch))),
        Err(failure) => (told(Err::<(), _>(failure), |()| String::new()), None),
    }
}

/// Sends a request; the future waits for what it comes to.
fn send<'a>(client: &'a Client, ask: &'a Ask) -> Sent<'a, (String, Option<Watch>)> {
    let Ask { kind, path, other, version, .. } = *ask;
    let (data, acls) = ([ask.data], ask.acls());
    macro_rules! plain {
        ($sent:expr, $show:expr) => {{
            let sent = $sent;
            Box::pin(async move { (told(sent.await, $show), None) })
        }};
    }
    macro_rules! watching {
        ($sent:expr, $show:expr, $watch:expr) => {{
            let sent = $sent;
            Box::pin(async move { watched(sent.await, $show, $watch) })
        }};
    }
    let write = |write: Write<'_>| -> Sent<'a, _> {
        let sent = client.write_while_there(other, path, &write);
        Box::pin(async move {
            let text = match sent.await {
                Ok(()) => "done".to_owned(),
                Err(WriteFailure::NotThere) => "NotThere".to_owned(),
                Err(WriteFailure::Check(failure)) => {
                    told(Err(failure), |()| String::new()) + " at check"
                }
                Err(WriteFailure::Write(failure)) => told(Err(failure), |()| String::new()),
            };
            (text, None)
        })
    };
    let origin = |node: Option<Node>| node.map_or("none".to_owned(), shown);
    match kind {
        "contender" => {
            let prefix = format!("{}/n-", path.trim_end_matches('/')).leak();
            plain!(client.create_contender(prefix, &data, &acls), |created| {
                format!("{} c~{}~ {}", created.sequence, created.czxid, created.owner != 0)
            })
        }
        "persistent" => plain!(client.create(path, &data, &acls, CreateMode::Persistent), change),
        "container" => plain!(client.create(path, &data, &acls, CreateMode::Container), change),
        "set" => plain!(client.set_data(path, &data, version), change),
        "list" => plain!(client.list(path), listing),
        "list-watch" => watching!(client.list_and_watch(path), listing, children_watch),
        "read" => plain!(client.read(path), shown),
        "read-watch" => watching!(client.read_and_watch(path), shown, node_watch),
        "look" => plain!(client.look(path), origin),
        "exists" => plain!(client.exists(path), |exists| exists.to_string()),
        "look-watch" => watching!(client.look_and_watch(path), origin, node_watch),
        "watch" => {
            let sent = client.watch(path);
            Box::pin(async move {
                let sent = sent.await.map(|watch| (watch.czxid(), watch));
                watched(sent, |czxid| format!("c~{czxid}~"), node_watch)
            })
        }
        "delete" => plain!(client.delete(path), |()| "done".to_owned()),
        "while-create" => {
            write(Write::Create { data: &data, acls: &acls, mode: CreateMode::Persistent })
        }
        "while-ephemeral" => {
            write(Write::Create { data: &data, acls: &acls, mode: CreateMode::Ephemeral })
        }
        "while-set" => write(Write::Set { data: &data }),
        "while-delete" => write(Write::Delete),
        "sync" => plain!(client.sync(), |()| "done".to_owned()),
        _ => Box::pin(async move {
            let path = LockPath::parse("path", path).unwrap();
            let made = client.make_path(&path, &acls).await;
            let text = match made {
                Ok(()) => "done".to_owned(),
                Err(e) => {
                    format!("{} at {}", told(Err::<(), _>(e.failure), |()| String::new()), e.path)
                }
            };
            (text, None)
        }),
    }
}
