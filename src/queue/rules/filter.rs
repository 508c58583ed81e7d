//! [`ContenderFilter`], the choice of children that an exclusive lock yields to.
//!
//! Pure: no I/O, no clock.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::node_name::{Kind, last_number, sequence_of};

/// Chooses the children of a lock path that count as contenders, and the names of our own, for fleets with different clients.
///
/// All clients of a path must see each other. The guide lists the sets of clients that do: [mixed
/// fleets](crate::guide::mixed_fleets). Every process of ours on a path must use the same filter.
///
/// A contender of another recipe, as far as its name shows, is refused with
/// [`ErrorKind::UnusablePath`](crate::ErrorKind::UnusablePath), unless the filter is a custom one; other children are ignored.
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
    /// Names with `lock-` before the number. Curator's mutex and `LeaderSelector` yield to them, and ours have such names. For
    /// Curator, go-zookeeper, and kazoo with a subclass that uses these names.
    #[default]
    Curator,
    /// Names with `__lock__` or `__rlock__` before the number. Ours have kazoo's names, so unmodified kazoo clients yield to them.
    /// Curator does not.
    Kazoo,
    /// Both kinds of names. Ours have Curator's names, so every kazoo client needs `extra_lock_patterns=["-lock-"]`, and every
    /// Curator client a driver that sorts by the last ten characters.
    Inclusive,
    /// A function decides: [`ContenderFilter::custom`].
    Custom(CustomFilter),
}

/// A filter of one's own; see [`ContenderFilter::custom`].
#[derive(Clone)]
pub struct CustomFilter {
    name: &'static str,
    counts: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl ContenderFilter {
    /// Counts the children for which `counts` returns true, if a sequence number ends their names; and children with Curator's
    /// names, which ours have. `Debug` shows `name`. `counts` is called under a lock: it must not block.
    pub fn custom(
        name: &'static str,
        counts: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Custom(CustomFilter { name, counts: Arc::new(counts) })
    }

    /// The kind of our own nodes.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Kazoo => Kind::KazooLock,
            Self::Curator | Self::Inclusive | Self::Custom(_) => Kind::Lock,
        }
    }

    /// Returns the sequence number of a contender; `None` for other children.
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

    /// Returns true if the data of nodes must be text, because other clients decode it.
    pub(crate) fn needs_text(&self) -> bool {
        matches!(self, Self::Kazoo | Self::Inclusive)
    }
}

impl fmt::Debug for CustomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name, f)
    }
}

/// Filters are compared by identity, because functions cannot be compared.
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
    fn each_filter_counts_its_names() {
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
    fn our_own_names_count() {
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
    fn data_must_be_text_where_kazoo_may_read_it() {
        let custom = ContenderFilter::custom("solr", |_| true);
        assert_eq!(format!("{custom:?}"), "Custom(\"solr\")");
        for (filter, needs_text) in [
            (ContenderFilter::Curator, false),
            (ContenderFilter::Kazoo, true),
            (ContenderFilter::Inclusive, true),
            (custom, false),
        ] {
            assert_eq!(filter.needs_text(), needs_text, "{filter:?}");
        }
    }

    #[test]
    fn custom_filters_differ_by_identity() {
        let custom = || ContenderFilter::custom("same", |_| true);
        let one = custom();
        assert_eq!(one, one.clone());
        assert_ne!(one, ContenderFilter::custom("same", |child| child.len() > 3));
    }
}
