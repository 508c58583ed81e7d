//! [`ContenderFilter`]: which children of a lock path an exclusive lock yields to.
//!
//! Pure: no I/O, no clock.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::node_name::{Kind, last_number, sequence_of};

/// Which children of a lock path count as contenders, and what our own are called: for fleets that are not all of
/// one kind.
///
/// All clients of a path must see each other. Which sets of clients do, and which do not: [mixed
/// fleets](crate::guide::mixed_fleets). Every process of ours on a path must use the same filter.
///
/// A contender of another recipe, as far as its name tells, is refused with
/// [`ErrorKind::UnusablePath`](crate::ErrorKind::UnusablePath); other children are ignored.
///
/// ```
/// use zookeeper_recipes::interop::ContenderFilter;
///
/// let filter = ContenderFilter::custom("solr", |child| child.contains("-n_"));
/// assert_eq!(format!("{filter:?}"), "Custom(\"solr\")");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContenderFilter {
    /// Names with `lock-` before the number, which is what Curator's mutex and `LeaderSelector` yield to and what ours
    /// are called: for Curator, go-zookeeper, and kazoo with a subclass that uses these names.
    #[default]
    Curator,
    /// Names with `__lock__` or `__rlock__` before the number. Ours are called as kazoo's, which yields to them as it
    /// is. Curator does not.
    Kazoo,
    /// Both. Ours are called as Curator's; so kazoo needs `extra_lock_patterns=["-lock-"]`, in every client, and
    /// Curator a driver of its own that sorts by the last ten characters.
    Inclusive,
    /// What a function says: [`ContenderFilter::custom`].
    Custom(CustomFilter),
}

/// A filter of one's own; see [`ContenderFilter::custom`].
#[derive(Clone)]
pub struct CustomFilter {
    name: &'static str,
    counts: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl ContenderFilter {
    /// The children for which `counts` says so, if a sequence number ends their names; and those that are called as
    /// Curator's, as ours are. `name` is what `Debug` shows. `counts` is called under a lock: it must not block.
    pub fn custom(
        name: &'static str,
        counts: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Custom(CustomFilter { name, counts: Arc::new(counts) })
    }

    /// What ours are called.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Kazoo => Kind::KazooLock,
            Self::Curator | Self::Inclusive | Self::Custom(_) => Kind::Lock,
        }
    }

    /// The sequence number of a contender.
    pub(crate) fn sequence_of(&self, name: &str) -> Option<i64> {
        let one_of = |kinds: &[Kind]| kinds.iter().find_map(|kind| sequence_of(name, *kind));
        match self {
            Self::Curator => sequence_of(name, Kind::Lock),
            Self::Kazoo => one_of(&[Kind::KazooLock, Kind::KazooRead]),
            Self::Inclusive => one_of(&[Kind::Lock, Kind::KazooLock, Kind::KazooRead]),
            Self::Custom(custom) if (custom.counts)(name) => last_number(name),
            Self::Custom(_) => sequence_of(name, Kind::Lock),
        }
    }

    /// Whether nodes must be text that others decode.
    pub(crate) fn needs_text(&self) -> bool {
        matches!(self, Self::Kazoo | Self::Inclusive)
    }
}

impl fmt::Debug for CustomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name, f)
    }
}

/// By identity: two functions cannot be compared.
impl PartialEq for CustomFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counts, &other.counts)
    }
}

impl Eq for CustomFilter {}

impl Hash for CustomFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.counts).cast::<()>().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_counts() {
        let curator = "_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-lock-0000000007";
        let kazoo = "1b4e28ba2fa141d2883f0016d3cca427__lock__0000000007";
        let reader = "1b4e28ba2fa141d2883f0016d3cca427__rlock__0000000007";
        let solr = "7-core-n_0000000007";
        let others = ["_c_x-__WRIT__0000000007", "_c_x-latch-0000000007", "x0000000007", "0", ""];
        let custom = ContenderFilter::custom("solr", |child| child.contains("-n_"));
        let rows: [(&ContenderFilter, &[&str]); 4] = [
            (&ContenderFilter::Curator, &[curator]),
            (&ContenderFilter::Kazoo, &[kazoo, reader]),
            (&ContenderFilter::Inclusive, &[curator, kazoo, reader]),
            (&custom, &[curator, solr]),
        ];
        for (filter, counted) in rows {
            for name in [curator, kazoo, reader, solr].iter().chain(&others) {
                let expected = counted.contains(name).then_some(7);
                assert_eq!(filter.sequence_of(name), expected, "{name:?} by {filter:?}");
            }
        }
    }

    #[test]
    fn what_ours_are_called_counts() {
        let custom = ContenderFilter::custom("nobody", |_| false);
        for filter in
            [ContenderFilter::Curator, ContenderFilter::Kazoo, ContenderFilter::Inclusive, custom]
        {
            let prefix = crate::queue::rules::node_name::protected_prefix(
                crate::random::guid(),
                filter.kind(),
            );
            assert_eq!(filter.sequence_of(&format!("{prefix}0000000042")), Some(42), "{filter:?}");
        }
    }

    #[test]
    fn custom_filters_are_told_apart() {
        let custom = || ContenderFilter::custom("same", |_| true);
        let one = custom();
        assert_eq!(one, one.clone());
        assert_ne!(one, ContenderFilter::custom("same", |child| child.len() > 3));
    }
}
