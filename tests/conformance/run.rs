//! Runs a script on either side, and writes down what happened.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use zookeeper_testkit as testkit;
use zookeeper_testkit::{FaultProxy, kill_session};

use super::super::{
    Change, ChildrenWatch, Client, Dialer, Failure, LinkState, Listing, Node, NodeWatch, Write,
    WriteFailure, ZooKeeperClient,
};
use super::Real;
use super::script::{Ask, Kind, Script, Step, acls};
use crate::lock_path::LockPath;
use crate::simulation::{self, Ensemble};

type Sent<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Watch = Sent<'static, String>;

/// Where a script runs.
pub(super) enum Side {
    Real(Arc<Real>),
    Simulated(Ensemble),
}

/// What one session goes through.
enum Link {
    /// To each server.
    Real(Vec<FaultProxy>),
    Simulated(simulation::Link),
}

/// Healed when it is dropped.
enum Fault {
    Real(Vec<testkit::Fault>),
    Simulated(simulation::Fault),
}

impl Fault {
    fn strikes(&self) -> usize {
        match self {
            Self::Real(faults) => faults.iter().map(testkit::Fault::strikes).sum(),
            Self::Simulated(fault) => fault.strikes(),
        }
    }
}

impl Link {
    async fn new(side: &Side) -> Self {
        match side {
            Side::Real(servers) => {
                let proxies = servers.addresses();
                let proxies = proxies.iter().map(|server| FaultProxy::start(server));
                Self::Real(join_all(proxies).await.into_iter().map(Result::unwrap).collect())
            }
            Side::Simulated(ensemble) => Self::Simulated(ensemble.link()),
        }
    }

    fn connect_string(&self) -> String {
        match self {
            Self::Real(proxies) => {
                proxies.iter().map(FaultProxy::connect_string).collect::<Vec<_>>().join(",")
            }
            Self::Simulated(link) => link.connect_string().to_owned(),
        }
    }

    fn refuse(&self) -> Fault {
        match self {
            Self::Real(proxies) => Fault::Real(proxies.iter().map(FaultProxy::refuse).collect()),
            Self::Simulated(link) => Fault::Simulated(link.refuse()),
        }
    }

    fn cut(&self, reset: bool) {
        match self {
            Self::Real(proxies) => {
                let cut = if reset { testkit::Cut::Reset } else { testkit::Cut::Finish };
                proxies.iter().for_each(|proxy| _ = proxy.cut(cut));
            }
            Self::Simulated(link) => {
                link.cut(if reset { simulation::Cut::Reset } else { simulation::Cut::Finish });
            }
        }
    }

    /// The next request is lost, or the reply to it.
    fn lose(&self, reply: bool) -> Fault {
        match self {
            Self::Real(proxies) => {
                use testkit::{Message, Operation::Any};
                let lost = if reply { Message::reply(Any) } else { Message::request(Any) };
                let here = proxies.iter().filter(|proxy| proxy.connections() > 0);
                Fault::Real(here.map(|proxy| proxy.lose(lost)).collect())
            }
            Self::Simulated(link) => {
                use simulation::{Message, Operation::Any};
                let lost = if reply { Message::reply(Any) } else { Message::request(Any) };
                Fault::Simulated(link.lose(lost))
            }
        }
    }

    /// The requests that went over it since this was asked last.
    fn take_log(&self) -> Vec<String> {
        match self {
            Self::Real(proxies) => {
                let all = proxies.iter().flat_map(FaultProxy::log).map(|one| match one {
                    testkit::Operation::Other(22) => "MultiRead".to_owned(),
                    one => format!("{one:?}"),
                });
                let all = all.collect();
                proxies.iter().for_each(FaultProxy::clear_log);
                all
            }
            Self::Simulated(link) => {
                let all = link.log().iter().map(|one| format!("{one:?}")).collect();
                link.clear_log();
                all
            }
        }
    }
}

/// What a session saw.
struct Line {
    step: usize,
    is_event: bool,
    text: String,
}

/// What all sessions saw, each in its order.
#[derive(Default)]
struct Journal {
    step: usize,
    lines: Vec<Vec<Line>>,
    states: Vec<Vec<LinkState>>,
    /// Requests that are not answered.
    pending: usize,
}

type Shared = Arc<Mutex<Journal>>;

fn locked(journal: &Shared) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(journal: &Shared, who: usize, is_event: bool, text: String) {
    let mut journal = locked(journal);
    let step = journal.step;
    journal.lines[who].push(Line { step, is_event, text });
}

struct Session {
    client: Option<Client>,
    link: Link,
    watches: Vec<AbortHandle>,
}

struct Run<'a> {
    side: &'a Side,
    root: String,
    sessions: Vec<Session>,
    ids: Vec<i64>,
    journal: Shared,
    asked: usize,
}

/// Longer than anything takes. What takes longer hangs.
const PATIENCE: u32 = 60_000;

#[allow(clippy::disallowed_methods)] // tasks end with the runtime
impl Run<'_> {
    async fn dial(&mut self, chroot: &str, timeout: Duration) {
        let link = Link::new(self.side).await;
        let servers = format!("{}{chroot}", link.connect_string());
        let dialer =
            Dialer::new(ZooKeeperClient::connector(), timeout, &servers, LockPath::root()).unwrap();
        let client = dialer.dial().await.expect("a session");
        let who = self.sessions.len();
        {
            let mut journal = locked(&self.journal);
            journal.lines.push(Vec::new());
            journal.states.push(Vec::new());
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
            let asked_in = locked(&journal).step;
            locked(&journal).pending += 1;
            // It sends at its first poll, and tasks are polled in their order.
            let task = tokio::spawn(async move {
                let (text, watch) = send(&client, &ask).await;
                drop(client);
                tell(&journal, who, false, format!("#{number} {ask:?}: {text}"));
                locked(&journal).pending -= 1;
                if let Some(watch) = watch {
                    let event = watch.await;
                    let step = locked(&journal).step;
                    let mark = if step == asked_in { " at once" } else { "" };
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

    fn seen(&self, who: usize, state: LinkState) -> usize {
        locked(&self.journal).states[who].iter().filter(|seen| **seen == state).count()
    }

    async fn until_again(&self, who: usize, state: LinkState, before: usize) {
        let count = |journal: &Journal| journal.states[who].iter().filter(|s| **s == state).count();
        self.until(&format!("s{who} {state:?}"), |journal| count(journal) > before).await;
    }

    async fn until_answered(&self) {
        self.until("answered", |journal| journal.pending == 0).await;
    }

    /// A write is answered where all before it was applied, and after its events. The second time for what was sent
    /// before the first and was not waited for.
    async fn settle(&self, but: Option<usize>) {
        self.write_all(but).await;
        self.write_all(but).await;
    }

    async fn write_all(&self, but: Option<usize>) {
        let all = self.sessions.iter().enumerate().filter(|(who, _)| Some(*who) != but);
        let asked = all.filter_map(|(who, session)| Some((who, session.client.as_ref()?)));
        let asked = asked.map(|(who, client)| async move {
            match client.delete("/none").await {
                Err(Failure::NoNode | Failure::SessionOver(_)) => {}
                other => tell(&self.journal, who, false, format!("settles: {other:?}")),
            }
        });
        join_all(asked).await;
    }

    async fn ask_and_wait(&mut self, who: usize, asks: &[Ask]) {
        self.ask(who, asks);
        self.until_answered().await;
    }

    fn unwatch(&mut self, who: usize) {
        self.sessions[who].watches.retain(|watch| !watch.is_finished());
        if !self.sessions[who].watches.is_empty() {
            self.sessions[who].watches.remove(0).abort();
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Ask(who, asks) => self.ask_and_wait(*who, asks).await,
            Step::Unwatch(who) => {
                self.unwatch(*who);
                tokio::task::yield_now().await;
            }
            Step::Blink(who, reset) => {
                let before = self.seen(*who, LinkState::Disconnected);
                self.sessions[*who].link.cut(*reset);
                self.until_again(*who, LinkState::Disconnected, before).await;
            }
            Step::Away(who, reset, (other, meanwhile), unwatch, waiting) => {
                let link = &self.sessions[*who].link;
                let before = self.seen(*who, LinkState::Disconnected);
                let refusal = link.refuse();
                link.cut(*reset);
                self.until_again(*who, LinkState::Disconnected, before).await;
                self.ask_and_wait(*other, meanwhile).await;
                if *unwatch {
                    self.unwatch(*who);
                    tokio::task::yield_now().await;
                }
                self.settle(Some(*who)).await;
                self.ask(*who, waiting);
                tokio::task::yield_now().await;
                drop(refusal);
                self.until_answered().await;
            }
            Step::Lose(who, reply, ask) => {
                let before = self.seen(*who, LinkState::Disconnected);
                let fault = self.sessions[*who].link.lose(*reply);
                self.ask_and_wait(*who, &[*ask]).await;
                if fault.strikes() > 0 {
                    self.until_again(*who, LinkState::Disconnected, before).await;
                }
            }
            Step::Expire(who, asks) => {
                let link = &self.sessions[*who].link;
                let before = self.seen(*who, LinkState::Disconnected);
                let refusal = link.refuse();
                link.cut(true);
                self.until_again(*who, LinkState::Disconnected, before).await;
                let client = self.sessions[*who].client.as_ref().unwrap();
                match self.side {
                    Side::Real(servers) => {
                        let session = client.inner().unwrap().session();
                        kill_session(&servers.addresses().join(","), session).await.unwrap();
                    }
                    Side::Simulated(ensemble) => ensemble.expire_session(client.session_id()),
                }
                drop(refusal);
                self.until_again(*who, LinkState::Expired, 0).await;
                self.ask_and_wait(*who, asks).await;
            }
            Step::Close(who, asks) => {
                self.ask(*who, asks);
                self.sessions[*who].client = None;
                self.until_again(*who, LinkState::Closed, 0).await;
            }
            Step::Starve(other) => self.starve(*other).await,
            Step::Restart => {
                let live = (0..self.sessions.len()).filter(|who| self.is_connected(*who));
                let before: Vec<_> =
                    live.map(|who| (who, self.seen(who, LinkState::Disconnected))).collect();
                match self.side {
                    Side::Real(servers) => servers.restart().await,
                    Side::Simulated(ensemble) => {
                        ensemble.stop(0);
                        ensemble.start_again(0);
                    }
                }
                for (who, before) in before {
                    self.until_again(who, LinkState::Disconnected, before).await;
                }
            }
            Step::Torn(who, reset, pause) => self.tear(*who, *reset, *pause).await,
        }
    }

    fn is_connected(&self, who: usize) -> bool {
        let last = locked(&self.journal).states[who].last().copied();
        self.sessions[who].client.is_some() && matches!(last, None | Some(LinkState::Connected))
    }

    async fn starve(&mut self, other: usize) {
        let one = |kind, path| Ask {
            kind,
            path,
            other: "/",
            data: 0,
            version: None,
            acl: 0,
            dropped: false,
        };
        let who = self.sessions.len();
        self.dial(&self.root.clone(), Duration::from_secs(1)).await;
        self.ask_and_wait(who, &[one(Kind::WhileEphemeral, "/starved")]).await;
        self.ask_and_wait(who, &[one(Kind::LookWatch, "/starved")]).await;
        self.ask_and_wait(other, &[one(Kind::LookWatch, "/starved")]).await;
        let refusal = self.sessions[who].link.refuse();
        self.sessions[who].link.cut(true);
        self.until_again(who, LinkState::Expired, 0).await;
        self.ask_and_wait(who, &[one(Kind::Read, "/starved")]).await;
        drop(refusal);
        let client = self.sessions[other].client.clone().unwrap();
        while client.exists("/starved").await.is_ok_and(|exists| exists) {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Which of the creates took effect is open; but what was confirmed did, and of the others the first ones.
    async fn tear(&mut self, who: usize, reset: bool, pause: u64) {
        let client = self.sessions[who].client.clone().unwrap();
        let _ = client.create_persistent("/torn", b"", &acls(0)).await;
        let before = self.seen(who, LinkState::Disconnected);
        let sent = (0..4).map(|nth| {
            let client = client.clone();
            tokio::spawn(async move {
                client.create_persistent(&format!("/torn/{nth}"), b"", &acls(0)).await
            })
        });
        let sent: Vec<_> = sent.collect();
        for _ in 0..pause {
            tokio::task::yield_now().await;
        }
        self.sessions[who].link.cut(reset);
        let answers = join_all(sent).await;
        self.until_again(who, LinkState::Disconnected, before).await;
        self.settle(None).await;
        let there = client.list("/torn").await.map_or(Vec::new(), |listing| listing.children);
        let mut lost = false;
        for (nth, answer) in answers.into_iter().map(Result::unwrap).enumerate() {
            let is_there = there.contains(&nth.to_string());
            let fits = match answer {
                Ok(_) => is_there,
                Err(Failure::Unknown(_)) => !(is_there && std::mem::replace(&mut lost, !is_there)),
                Err(_) => false,
            };
            if !fits {
                tell(&self.journal, who, false, format!("TORN {nth}: {answer:?}, {there:?}"));
            }
        }
    }

    /// Which requests went over the links in this step.
    fn log(&mut self, step: &Step, is_unordered: bool, with_removals: bool) {
        for (who, session) in self.sessions.iter_mut().enumerate() {
            let mut new = session.link.take_log();
            new.retain(|sent| with_removals || sent != "RemoveWatches");
            if is_unordered {
                // It may have gone two ways.
                new.sort();
            }
            if matches!(step, Step::Torn(..)) {
                new.clear();
            }
            new.dedup_by(|one, other| one == other && one == "SetWatches");
            let new = new.join(" ").replace(" Delete Delete", "").replace("Delete Delete", "");
            if !new.is_empty() {
                tell(&self.journal, who, false, format!("sent {new}"));
            }
        }
    }

    /// All nodes, as a new session sees them.
    async fn tree(&mut self) {
        self.dial(&self.root.clone(), Duration::from_secs(20)).await;
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
    fn transcript(&self, script: &Script) -> Vec<String> {
        let journal = locked(&self.journal);
        let mut told = Vec::new();
        for (who, lines) in journal.lines.iter().enumerate() {
            let mut lines: Vec<_> = lines.iter().collect();
            let unordered = |line: &&Line| line.is_event && script.is_unordered(line.step);
            lines
                .chunk_by_mut(|one, other| {
                    unordered(one) && unordered(other) && one.step == other.step
                })
                .for_each(|run| run.sort_by_key(|line| unordered(line).then(|| &line.text)));
            told.extend(lines.iter().map(|line| format!("{:>2} s{who} {}", line.step, line.text)));
        }
        let whole = ranked(&told.join("\n"), &self.ids);
        whole.lines().map(str::to_owned).collect()
    }
}

/// Transactions by their order, sessions by their number.
fn ranked(text: &str, ids: &[i64]) -> String {
    let numbers = |mark: char| text.split(mark).skip(1).step_by(2);
    let order: BTreeSet<i64> = numbers('~').map(|number| number.parse().unwrap()).collect();
    let nth = |(nth, part): (usize, &str)| match nth % 2 {
        0 => part.to_owned(),
        _ => order.iter().position(|one| one.to_string() == part).unwrap().to_string(),
    };
    let text: String = text.split('~').enumerate().map(nth).collect();
    let mut named = text.replace("^0^", "none");
    for (who, id) in ids.iter().enumerate() {
        named = named.replace(&format!("^{id}^"), &format!("s{who}"));
    }
    named
}

pub(super) async fn run(script: &Script, side: &Side) -> Vec<String> {
    let root = format!("/s{}", script.seed);
    let journal = Shared::default();
    let (sessions, ids) = (Vec::new(), Vec::new());
    let mut run = Run { side, root: root.clone(), sessions, ids, journal, asked: 0 };
    for _ in 0..script.sessions {
        run.dial(&root, Duration::from_secs(20)).await;
    }
    let client = run.sessions[0].client.clone().unwrap();
    let made = client.make_parents(&LockPath::parse("root", &root).unwrap(), &acls(0)).await;
    made.expect("a root");
    drop(client);
    run.settle(None).await;
    for (nth, step) in script.steps.iter().enumerate() {
        locked(&run.journal).step = nth;
        run.step(step).await;
        run.settle(None).await;
        run.log(step, script.is_unordered(nth), !script.races());
    }
    run.tree().await;
    run.transcript(script)
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
        watch.changed().await;
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
    let (data, acls) = ([ask.data], acls(ask.acl));
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
        Kind::Contender => {
            let prefix = format!("{}/n-", path.trim_end_matches('/')).leak();
            plain!(client.create_contender(prefix, &data, &acls), |(number, czxid)| {
                format!("{number} c~{czxid}~")
            })
        }
        Kind::Persistent => plain!(client.create_persistent(path, &data, &acls), change),
        Kind::Container => {
            plain!(client.create(path, &data, &acls, super::super::Mode::Container), change)
        }
        Kind::Set => plain!(client.set_data(path, &data, version), change),
        Kind::List => plain!(client.list(path), listing),
        Kind::ListWatch => watching!(client.list_and_watch(path), listing, children_watch),
        Kind::Read => plain!(client.read(path), shown),
        Kind::ReadWatch => watching!(client.read_and_watch(path), shown, node_watch),
        Kind::Look => plain!(client.look(path), origin),
        Kind::Exists => plain!(client.exists(path), |exists| exists.to_string()),
        Kind::LookWatch => watching!(client.look_and_watch(path), origin, node_watch),
        Kind::AreGone => plain!(client.are_gone([path, other]), |gone| format!("{gone:?}")),
        Kind::Watch => {
            let sent = client.watch(path);
            Box::pin(async move {
                let sent = sent.await.map(|watch| (watch.czxid(), watch));
                watched(sent, |czxid| format!("c~{czxid}~"), node_watch)
            })
        }
        Kind::Delete => plain!(client.delete(path), |()| "done".to_owned()),
        Kind::WhileCreate => write(Write::Create { data: &data, acls: &acls, ephemeral: false }),
        Kind::WhileEphemeral => write(Write::Create { data: &data, acls: &acls, ephemeral: true }),
        Kind::WhileSet => write(Write::Set { data: &data }),
        Kind::WhileDelete => write(Write::Delete),
        Kind::Sync => plain!(client.sync(), |()| "done".to_owned()),
        Kind::MakeParents => Box::pin(async move {
            let path = client.root().join(&LockPath::parse("path", path).unwrap());
            let made = client.make_parents(&path, &acls).await;
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
