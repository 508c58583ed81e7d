//! Which sizes are measured where.

use std::fmt;
use std::time::Duration;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Waiters,
    Holds,
    Clients,
    Children,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waiters => "waiters",
            Self::Holds => "holds",
            Self::Clients => "clients",
            Self::Children => "children",
        })
    }
}

const SINGLE: Duration = Duration::from_secs(11 * 60);
const ALL: Duration = Duration::from_secs(14 * 60);

const LARGE: usize = 10_000;

pub(crate) struct Plan {
    /// All of it, and not for trying.
    pub(crate) whole: bool,
    pub(crate) stages: Vec<Stage>,
}

pub(crate) struct Stage {
    pub(crate) members: usize,
    /// Since the program began; after that no further step is begun. The longest takes a minute.
    pub(crate) until: Duration,
    /// How long clients contend, and what is held is watched.
    pub(crate) long: Duration,
    sizes: Vec<(Kind, Vec<usize>)>,
}

impl Plan {
    /// `chosen` names kinds; none of them: all.
    pub(crate) fn new(small: bool, chosen: &[String]) -> Self {
        use Kind::{Children, Clients, Holds, Waiters};
        let stage = |members, seconds, sizes: [(Kind, &[usize]); 4]| Stage {
            members,
            until: if members == 1 { SINGLE } else { ALL },
            long: Duration::from_secs(seconds),
            sizes: sizes
                .into_iter()
                .filter(|(kind, _)| chosen.is_empty() || chosen.contains(&kind.to_string()))
                .map(|(kind, sizes)| (kind, sizes.to_vec()))
                .collect(),
        };
        let stages = if small {
            let sizes: [(Kind, &[usize]); 4] =
                [(Waiters, &[20]), (Holds, &[10]), (Clients, &[3]), (Children, &[100])];
            vec![stage(1, 1, sizes)]
        } else {
            let single: [(Kind, &[usize]); 4] = [
                (Waiters, &[1, 10, 100, 1_000, 10_000]),
                (Holds, &[1, 10, 100, 1_000, 10_000, 100_000]),
                (Clients, &[1, 2, 5, 10, 20, 50, 100, 200]),
                (Children, &[10, 100, 1_000, 10_000, 100_000]),
            ];
            let ensemble: [(Kind, &[usize]); 4] = [
                (Waiters, &[1, 10, 100, 1_000]),
                (Holds, &[1, 100, 10_000]),
                (Clients, &[1, 10, 50]),
                (Children, &[10, 1_000]),
            ];
            vec![stage(1, 8, single), stage(3, 4, ensemble)]
        };
        Self { whole: !small && chosen.is_empty(), stages }
    }
}

impl Stage {
    /// The largest last: where time runs short, they are what is left out.
    pub(crate) fn steps(&self) -> Vec<(Kind, usize)> {
        let all = self.sizes.iter();
        let all = all.flat_map(|(kind, sizes)| sizes.iter().map(move |size| (*kind, *size)));
        let (large, small) = all.partition::<Vec<_>, _>(|(_, size)| *size >= LARGE);
        small.into_iter().chain(large).collect()
    }
}
