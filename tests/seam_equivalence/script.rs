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

/// What happens to a session, and what it and another one ask for.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) who: usize,
    /// Its requests, all made before the first is answered.
    pub(super) asks: Vec<Ask>,
    pub(super) other: usize,
    pub(super) meanwhile: Vec<Ask>,
    /// Which variety.
    pub(super) nth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Ask,
    /// The oldest watch is dropped.
    Unwatch,
    /// The link is cut right behind the answers, by a reset or a finish, and is back at once.
    Blink,
    /// It is cut while the other one goes on. A watch may be dropped, and requests wait.
    Away,
    /// The request or its reply is lost, or the reply is the last to pass.
    Lose,
    /// The first request or the reply to it is held while the other one goes on.
    Hold,
    /// An operator ends the session while it is cut off. It asks before it learns of that, and again.
    Expire,
    /// Closed behind the requests, perhaps while it is cut off.
    Close,
    /// A further session whose link stays cut runs out of time; this one watches.
    Starve,
    /// Nothing passes until the client has noticed.
    Silence,
    /// A server restarts.
    Restart,
    /// The link is cut while creates are on the way.
    Torn,
}

#[derive(Clone, Copy)]
pub(super) struct Ask {
    /// One of [`KINDS`].
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    pub(super) other: &'static str,
    pub(super) data: u8,
    pub(super) version: Option<i32>,
    pub(super) acl: usize,
    /// The future is dropped before it is polled.
    pub(super) dropped: bool,
}

const KINDS: &str = "contender contender contender persistent persistent persistent container set set set list read look \
                     list-watch list-watch list-watch read-watch read-watch look-watch look-watch look-watch watch exists \
                     exists delete delete while-create while-ephemeral while-set while-delete sync parents";
const PATHS: [&str; 8] = ["/a", "/a/x", "/a/y", "/a/x/z", "/b", "/b/x", "/c", "/c/x"];

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, path, other, version, acl, dropped, .. } = self;
        write!(
            f,
            "{kind} {path} {other} {version:?} {acl}{}",
            if *dropped { " dropped" } else { "" }
        )
    }
}

impl Ask {
    pub(super) fn new(kind: &'static str, path: &'static str) -> Self {
        Self { kind, path, other: "/", data: 0, version: None, acl: 0, dropped: false }
    }

    fn random(rng: &mut Rng) -> Self {
        let kind = rng.choice(&KINDS.split(' ').collect::<Vec<_>>()).copied().unwrap();
        let at_root = ["list", "list-watch", "look", "contender"].contains(&kind);
        let path = if at_root && rng.u8(..4) == 0 { "/" } else { PATHS[rng.usize(..8)] };
        Self {
            other: PATHS[rng.usize(..8)],
            data: rng.u8(..),
            version: rng.bool().then(|| rng.i32(0..3)),
            acl: if rng.u8(..5) == 0 { rng.usize(1..9) } else { 0 },
            dropped: rng.u8(..8) == 0,
            ..Self::new(kind, path)
        }
    }

    pub(super) fn watches(&self) -> bool {
        self.kind.ends_with("watch")
    }

    /// The first is open to anyone; the last ones no server takes.
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

impl Step {
    fn new(what: What, who: usize, asks: Vec<Ask>) -> Self {
        Self { what, who, asks, other: who, meanwhile: Vec::new(), nth: 0 }
    }

    fn random(rng: &mut Rng, alive: &mut Vec<usize>) -> Self {
        let (who, other) = (*rng.choice(&*alive).unwrap(), *rng.choice(&*alive).unwrap());
        let what = match rng.u8(..100) {
            0..3 => What::Blink,
            3..7 if who != other => What::Away,
            7..11 => What::Lose,
            11..19 => What::Unwatch,
            19..21 if alive.len() > 1 => What::Expire,
            21..23 if alive.len() > 1 => What::Close,
            23..27 if who != other => What::Hold,
            _ => What::Ask,
        };
        if matches!(what, What::Expire | What::Close) {
            alive.retain(|one| *one != who);
        }
        let most = if what == What::Ask { 6 } else { 3 };
        let mut asks = |most| {
            let count = if rng.bool() || most == 1 { 1 } else { rng.usize(1..=most) };
            (0..count).map(|_| Ask::random(rng)).collect::<Vec<_>>()
        };
        let mut step = Self::new(what, who, asks(if what == What::Lose { 1 } else { most }));
        if matches!(what, What::Away | What::Hold) {
            (step.other, step.meanwhile) = (other, asks(6));
        }
        // Each sends one request at once.
        if matches!(what, What::Lose | What::Hold | What::Blink) {
            step.asks.iter_mut().for_each(|ask| (ask.acl, ask.dropped) = (0, false));
        }
        if what == What::Unwatch {
            step.asks.clear();
        }
        // Parents are several requests, of which the next is made at the reply to one.
        let is_lost = what == What::Lose && step.asks[0].kind != "parents";
        step.nth = rng.usize(..if is_lost { 3 } else { 2 });
        step
    }

    /// Whether all follows from the requests, in their order.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.what, What::Ask | What::Hold | What::Unwatch)
    }
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let sessions = rng.usize(2..=3);
        let mut alive: Vec<_> = (0..sessions).collect();
        let first = ["/a", "/b"].map(|path| Ask::new("persistent", path));
        let mut steps = vec![Step::new(What::Ask, 0, first.to_vec())];
        steps.extend((0..rng.usize(10..=30)).map(|_| Step::random(rng, &mut alive)));
        let last = |what| Step::new(what, alive[0], Vec::new());
        match seed / BATCH % 10 {
            1 => steps.insert(rng.usize(1..steps.len()), last(What::Restart)),
            5 => steps.push(last(What::Silence)),
            _ => {}
        }
        if seed % 20 == 7 {
            steps.push(last(What::Starve));
        }
        if rng.u8(..4) == 0 {
            steps.push(Step { nth: rng.usize(..12), ..last(What::Torn) });
        }
        let (mut requests, mut races) = (0, false);
        for ask in steps.iter_mut().flat_map(|step| step.asks.iter_mut().chain(&mut step.meanwhile))
        {
            ask.dropped &= !ask.watches() || seed.is_multiple_of(3);
            requests += 1;
            races |= ask.dropped && ask.watches();
        }
        Self { seed, sessions, steps, requests, races }
    }

    /// Whether events of a step may come in any order.
    pub(super) fn is_unordered(&self, step: usize) -> bool {
        self.races || !self.steps[step].is_ordered()
    }
}
