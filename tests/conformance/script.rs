//! Random scripts: what the sessions ask for, and what happens to them.

use std::fmt;

use fastrand::Rng;

use super::super::{Acl, AuthId, Permission};

/// So many scripts run at once on real servers, each on paths of its own. What takes long is done by whole batches.
pub(super) const BATCH: u64 = 50;

pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) sessions: usize,
    /// After each of them all sessions are at rest.
    pub(super) steps: Vec<Step>,
    pub(super) requests: usize,
    /// Whether a watch is dropped by its client when the event may be on the way.
    pub(super) races: bool,
}

/// The first number is the session.
#[derive(Debug)]
pub(super) enum Step {
    /// Requests, all made before the first is answered.
    Ask(usize, Vec<Ask>),
    /// The oldest watch is dropped.
    Unwatch(usize),
    /// The link is cut right behind answers, by a reset or a finish, and is back at once.
    Blink(usize, bool, Vec<Ask>),
    /// It is cut for longer. Meanwhile another session goes on, a watch may be dropped, and requests wait.
    Away(usize, bool, (usize, Vec<Ask>), bool, Vec<Ask>),
    /// A message of the request is lost, or the last to pass.
    Lose(usize, Lost, Ask),
    /// The first request or, if so, the reply to it is held while another session goes on.
    Hold(usize, bool, Vec<Ask>, (usize, Vec<Ask>)),
    /// An operator ends the session while it is cut off. It asks before it learns of that, and again.
    Expire(usize, Vec<Ask>),
    /// Closed behind requests; if so, while it is cut off.
    Close(usize, bool, Vec<Ask>),
    /// A further session whose link stays cut runs out of time; this one watches.
    Starve(usize),
    /// Nothing passes until the client has noticed.
    Silence(usize),
    /// A server restarts.
    Restart,
    /// The link is cut some milliseconds after creates were made.
    Torn(usize, bool, u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    Request,
    Reply,
    AfterReply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Contender,
    Persistent,
    Container,
    Set,
    List,
    ListWatch,
    Read,
    ReadWatch,
    Look,
    Exists,
    LookWatch,
    AreGone,
    Watch,
    Delete,
    WhileCreate,
    WhileEphemeral,
    WhileSet,
    WhileDelete,
    Sync,
    MakeParents,
}

#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) kind: Kind,
    pub(super) path: &'static str,
    pub(super) other: &'static str,
    pub(super) data: u8,
    pub(super) version: Option<i32>,
    pub(super) acl: usize,
    /// The future is dropped before it is polled.
    pub(super) dropped: bool,
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, path, other, version, acl, dropped, .. } = self;
        write!(f, "{kind:?} {path}")?;
        match kind {
            Kind::Set => write!(f, " {version:?}")?,
            Kind::AreGone => write!(f, ",{other}")?,
            Kind::Contender | Kind::Persistent | Kind::Container | Kind::MakeParents => {
                write!(f, " acl {acl}")?;
            }
            Kind::WhileCreate | Kind::WhileEphemeral => write!(f, " while {other} acl {acl}")?,
            Kind::WhileSet | Kind::WhileDelete => write!(f, " while {other}")?,
            _ => {}
        }
        f.write_str(if *dropped { " dropped" } else { "" })
    }
}

impl Ask {
    pub(super) fn new(kind: Kind, path: &'static str) -> Self {
        Self { kind, path, other: "/", data: 0, version: None, acl: 0, dropped: false }
    }

    fn random(rng: &mut Rng) -> Self {
        const PATHS: [&str; 8] = ["/a", "/a/x", "/a/y", "/a/x/z", "/b", "/b/x", "/c", "/c/x"];
        let kind = match rng.u8(..32) {
            0..3 => Kind::Contender,
            3..6 => Kind::Persistent,
            6 => Kind::Container,
            7..10 => Kind::Set,
            10 => Kind::List,
            11..14 => Kind::ListWatch,
            14 => Kind::Read,
            15..17 => Kind::ReadWatch,
            17 => Kind::Look,
            18 => Kind::Exists,
            19..22 => Kind::LookWatch,
            22 => Kind::AreGone,
            23 => Kind::Watch,
            24..26 => Kind::Delete,
            26 => Kind::WhileCreate,
            27 => Kind::WhileEphemeral,
            28 => Kind::WhileSet,
            29 => Kind::WhileDelete,
            30 => Kind::Sync,
            _ => Kind::MakeParents,
        };
        let at_root = matches!(kind, Kind::List | Kind::ListWatch | Kind::Look | Kind::Contender);
        let path = if at_root && rng.u8(..4) == 0 { "/" } else { PATHS[rng.usize(..PATHS.len())] };
        Self {
            other: PATHS[rng.usize(..PATHS.len())],
            data: rng.u8(..),
            version: rng.bool().then(|| rng.i32(0..3)),
            acl: if rng.u8(..5) == 0 { rng.usize(1..9) } else { 0 },
            dropped: rng.u8(..8) == 0,
            ..Self::new(kind, path)
        }
    }

    pub(super) fn watches(&self) -> bool {
        matches!(self.kind, Kind::ListWatch | Kind::ReadWatch | Kind::LookWatch | Kind::Watch)
    }

    /// The first are open to anyone; the last ones no server takes.
    pub(super) fn acls(&self) -> Vec<Acl> {
        let but_read =
            Permission::WRITE | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
        let (permission, scheme, id) = match self.acl {
            0 => (Permission::ALL, "world", "anyone"),
            1 => (Permission::READ, "world", "anyone"),
            2 => (but_read, "world", "anyone"),
            3 => (Permission::READ | Permission::CREATE, "world", "anyone"),
            4 => (Permission::ALL, "digest", "user:hash"),
            5 => (Permission::ALL, "digest", "nobody"),
            6 => (Permission::ALL, "auth", ""),
            7 => (Permission::ALL, "nosuch", "id"),
            _ => return Vec::new(),
        };
        vec![Acl::new(permission, AuthId::new(scheme, id))]
    }
}

fn asks(rng: &mut Rng, most: usize) -> Vec<Ask> {
    let count = if rng.bool() { 1 } else { rng.usize(1..=most) };
    (0..count).map(|_| Ask::random(rng)).collect()
}

impl Step {
    fn asks(&mut self) -> Vec<&mut Ask> {
        match self {
            Self::Ask(_, asks)
            | Self::Blink(_, _, asks)
            | Self::Expire(_, asks)
            | Self::Close(_, _, asks) => asks.iter_mut().collect(),
            Self::Away(_, _, (_, some), _, more) | Self::Hold(_, _, more, (_, some)) => {
                some.iter_mut().chain(more).collect()
            }
            Self::Lose(_, _, ask) => vec![ask],
            _ => Vec::new(),
        }
    }
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let sessions = rng.usize(2..=3);
        let mut alive: Vec<_> = (0..sessions).collect();
        let first = ["/a", "/b"].map(|path| Ask::new(Kind::Persistent, path));
        let mut steps = vec![Step::Ask(0, first.to_vec())];
        for _ in 0..rng.usize(10..=30) {
            let who = alive[rng.usize(..alive.len())];
            let other = alive[rng.usize(..alive.len())];
            steps.push(match rng.u8(..100) {
                0..3 => Step::Blink(who, rng.bool(), asks(rng, 2)),
                3..7 if who != other => {
                    Step::Away(who, rng.bool(), (other, asks(rng, 6)), rng.bool(), asks(rng, 4))
                }
                7..11 => {
                    let ask = Ask { dropped: false, acl: 0, ..Ask::random(rng) };
                    // Several requests, of which the next is made at the reply to one.
                    let most = if ask.kind == Kind::MakeParents { 2 } else { 3 };
                    let lost = [Lost::Request, Lost::Reply, Lost::AfterReply][rng.usize(..most)];
                    Step::Lose(who, lost, ask)
                }
                11..19 => Step::Unwatch(who),
                end @ 19..23 if alive.len() > 1 => {
                    alive.retain(|one| *one != who);
                    let asks = asks(rng, 3);
                    if end < 21 {
                        Step::Expire(who, asks)
                    } else {
                        Step::Close(who, rng.bool(), asks)
                    }
                }
                23..27 if who != other => {
                    let mut held = asks(rng, 3);
                    // Each sends one request at once.
                    held.iter_mut().for_each(|ask| (ask.acl, ask.dropped) = (0, false));
                    Step::Hold(who, rng.bool(), held, (other, asks(rng, 3)))
                }
                _ => Step::Ask(who, asks(rng, 6)),
            });
        }
        match seed / BATCH % 10 {
            1 => steps.insert(rng.usize(1..steps.len()), Step::Restart),
            5 => steps.push(Step::Silence(alive[0])),
            _ => {}
        }
        if seed % 20 == 7 {
            steps.push(Step::Starve(alive[0]));
        }
        if rng.u8(..4) == 0 {
            steps.push(Step::Torn(alive[0], rng.bool(), rng.u64(0..6)));
        }
        let (mut requests, mut races) = (0, false);
        for step in &mut steps {
            let is_cut = matches!(step, Step::Blink(..));
            step.asks().iter_mut().for_each(|ask| ask.dropped &= !is_cut);
        }
        for ask in steps.iter_mut().flat_map(Step::asks) {
            ask.dropped &= !ask.watches() || seed.is_multiple_of(3);
            requests += 1;
            races |= ask.dropped && ask.watches();
        }
        Self { seed, sessions, steps, requests, races }
    }

    /// Whether events of a step may come in any order.
    pub(super) fn is_unordered(&self, step: usize) -> bool {
        self.races || !matches!(self.steps[step], Step::Ask(..) | Step::Hold(..) | Step::Unwatch(_))
    }
}
