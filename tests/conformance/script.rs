//! Random scripts: what the sessions ask for, and what happens to them.

use fastrand::Rng;

use super::super::{Acl, AuthId, Permission};

/// A script, by its seed.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) sessions: usize,
    pub(super) steps: Vec<Step>,
}

/// After each step all sessions are at rest.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Requests, all made before the first is answered.
    Ask(usize, Vec<Ask>),
    /// The oldest watch is dropped.
    Unwatch(usize),
    /// The link is cut, and is back at once.
    Blink(usize, bool),
    /// It is cut for longer: meanwhile another session goes on, and requests wait; a watch may be dropped.
    Away(usize, bool, (usize, Vec<Ask>), bool, Vec<Ask>),
    /// The request or, if so, the reply is lost.
    Lose(usize, bool, Ask),
    /// Ended by an operator, and then asked.
    Expire(usize, Vec<Ask>),
    /// Closed, behind requests whose answers are not waited for.
    Close(usize, Vec<Ask>),
    /// A further session whose link stays cut runs out of time; another one watches.
    Starve(usize),
    /// The one server restarts.
    Restart,
    /// The link is cut while so many creates are on the way, some milliseconds after they were made.
    Torn(usize, bool, u64),
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

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    pub(super) fn watches(&self) -> bool {
        matches!(self.kind, Kind::ListWatch | Kind::ReadWatch | Kind::LookWatch | Kind::Watch)
    }
}

const PATHS: [&str; 8] = ["/a", "/a/x", "/a/y", "/a/x/z", "/b", "/b/x", "/c", "/c/x"];

const KINDS: [Kind; 32] = [
    Kind::Contender,
    Kind::Contender,
    Kind::Contender,
    Kind::Persistent,
    Kind::Persistent,
    Kind::Persistent,
    Kind::Container,
    Kind::Set,
    Kind::Set,
    Kind::Set,
    Kind::List,
    Kind::ListWatch,
    Kind::ListWatch,
    Kind::ListWatch,
    Kind::Read,
    Kind::ReadWatch,
    Kind::ReadWatch,
    Kind::Look,
    Kind::Exists,
    Kind::LookWatch,
    Kind::LookWatch,
    Kind::LookWatch,
    Kind::AreGone,
    Kind::Watch,
    Kind::Delete,
    Kind::Delete,
    Kind::WhileCreate,
    Kind::WhileEphemeral,
    Kind::WhileSet,
    Kind::WhileDelete,
    Kind::Sync,
    Kind::MakeParents,
];

/// The first is open to anyone; the last ones no server takes.
pub(super) fn acls(which: usize) -> Vec<Acl> {
    let but_read = Permission::WRITE | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    let acl = |permission, scheme, id| vec![Acl::new(permission, AuthId::new(scheme, id))];
    match which {
        0 => acl(Permission::ALL, "world", "anyone"),
        1 => acl(Permission::READ, "world", "anyone"),
        2 => acl(but_read, "world", "anyone"),
        3 => acl(Permission::ALL, "digest", "user:hash"),
        4 => acl(Permission::READ | Permission::CREATE, "world", "anyone"),
        5 => acl(Permission::ALL, "digest", "nobody"),
        6 => acl(Permission::ALL, "auth", ""),
        7 => acl(Permission::ALL, "nosuch", "id"),
        _ => Vec::new(),
    }
}

fn ask(rng: &mut Rng) -> Ask {
    let kind = KINDS[rng.usize(..KINDS.len())];
    // Lists of the root see all.
    let at_root = matches!(kind, Kind::List | Kind::ListWatch | Kind::Look | Kind::Contender);
    let path = if at_root && rng.u8(..4) == 0 { "/" } else { PATHS[rng.usize(..PATHS.len())] };
    Ask {
        kind,
        path,
        other: PATHS[rng.usize(..PATHS.len())],
        data: rng.u8(..),
        version: rng.bool().then(|| rng.i32(0..3)),
        acl: if rng.u8(..5) == 0 { rng.usize(1..9) } else { 0 },
        dropped: rng.u8(..8) == 0,
    }
}

fn asks(rng: &mut Rng, most: usize) -> Vec<Ask> {
    let count = if rng.bool() { 1 } else { rng.usize(1..=most) };
    (0..count).map(|_| ask(rng)).collect()
}

/// `restarts` is the step before which the server restarts, if it does.
pub(super) fn script(seed: u64, restarts: bool) -> Script {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let sessions = rng.usize(2..=3);
    let mut alive: Vec<_> = (0..sessions).collect();
    let persistent = |path| Ask {
        kind: Kind::Persistent,
        path,
        other: "/a",
        data: 0,
        version: None,
        acl: 0,
        dropped: false,
    };
    let mut steps = vec![Step::Ask(0, vec![persistent("/a"), persistent("/b")])];
    for _ in 0..rng.usize(10..=30) {
        let who = alive[rng.usize(..alive.len())];
        let other = alive[rng.usize(..alive.len())];
        steps.push(match rng.u8(..100) {
            0..3 => Step::Blink(who, rng.bool()),
            3..7 if who != other => {
                Step::Away(who, rng.bool(), (other, asks(rng, 6)), rng.bool(), asks(rng, 4))
            }
            7..10 => {
                let mut ask = ask(rng);
                ask.dropped = false;
                Step::Lose(who, rng.bool(), ask)
            }
            10..18 => Step::Unwatch(who),
            18..20 if alive.len() > 1 => {
                alive.retain(|one| *one != who);
                Step::Expire(who, asks(rng, 3))
            }
            20..22 if alive.len() > 1 => {
                alive.retain(|one| *one != who);
                let mut last = asks(rng, 3);
                last.iter_mut().for_each(|ask| ask.dropped = true);
                Step::Close(who, last)
            }
            _ => Step::Ask(who, asks(rng, 6)),
        });
    }
    if restarts {
        steps.insert(rng.usize(1..steps.len()), Step::Restart);
    }
    if seed % 20 == 7 {
        steps.push(Step::Starve(alive[0]));
    }
    if rng.u8(..4) == 0 {
        steps.push(Step::Torn(alive[0], rng.bool(), rng.u64(0..4)));
    }
    Script { seed, sessions, steps }
}

impl Step {
    pub(super) fn requests(&self) -> usize {
        match self {
            Self::Ask(_, asks) | Self::Expire(_, asks) | Self::Close(_, asks) => asks.len(),
            Self::Away(_, _, (_, meanwhile), _, waiting) => meanwhile.len() + waiting.len(),
            Self::Lose(..) => 1,
            Self::Torn(..) | Self::Starve(_) => 4,
            Self::Unwatch(_) | Self::Blink(..) | Self::Restart => 0,
        }
    }
}

impl Script {
    /// Whether events of a step may come in any order.
    pub(super) fn is_unordered(&self, step: usize) -> bool {
        !matches!(self.steps.get(step), Some(Step::Ask(..) | Step::Unwatch(_)))
    }

    /// Whether an event may be on the way to a watch that is dropped.
    pub(super) fn races(&self) -> bool {
        let drops = |asks: &[Ask]| asks.iter().any(|ask| ask.dropped && ask.watches());
        self.steps.iter().any(|step| match step {
            Step::Ask(_, asks) | Step::Expire(_, asks) | Step::Close(_, asks) => drops(asks),
            Step::Away(_, _, (_, meanwhile), unwatch, waiting) => {
                *unwatch || drops(meanwhile) || drops(waiting)
            }
            _ => false,
        })
    }
}
