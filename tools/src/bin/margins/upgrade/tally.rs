//! How many holds began and were lost in an upgrade, and whether that is as it has to be.

use std::collections::BTreeMap;
use std::time::Duration;

use super::recipe::Recipe;

/// The name of its row.
pub(super) const CURATOR: &str = "Curator's latch";

/// The holds of one recipe, until the upgrade is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holds {
    pub(super) begun: usize,
    lost: usize,
}

/// Counts of one round, or of several.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rounds: usize,
    holds: BTreeMap<&'static str, Holds>,
    disconnections: usize,
    pub(super) longest_disconnection: Duration,
    pub(super) hung: usize,
}

impl Tally {
    pub(super) fn of_one_round() -> Self {
        Self { rounds: 1, ..Self::default() }
    }

    pub(super) fn begins(&mut self, name: &'static str) {
        self.holds.entry(name).or_default().begun += 1;
    }

    pub(super) fn loses(&mut self, name: &'static str) {
        self.holds.entry(name).or_default().lost += 1;
    }

    pub(super) fn disconnected(&mut self, lasted: Duration) {
        self.disconnections += 1;
        self.longest_disconnection = self.longest_disconnection.max(lasted);
    }

    pub(super) fn of(&self, name: &str) -> Holds {
        self.holds.get(name).copied().unwrap_or_default()
    }

    fn lost(&self) -> usize {
        Recipe::ALL.iter().map(|recipe| self.of(recipe.name()).lost).sum()
    }

    /// Each contender that came to hold in place of a first holder, of the recipes that are held for the whole upgrade.
    fn changes(&self) -> usize {
        let lasting = Recipe::ALL.iter().filter(|recipe| **recipe != Recipe::Turns);
        lasting
            .map(|recipe| {
                self.of(recipe.name()).begun.saturating_sub(self.rounds * recipe.holders())
            })
            .sum()
    }

    /// An upgrade that disconnected nobody shows nothing.
    pub(super) fn is_clean(&self) -> bool {
        self.lost() == 0 && self.changes() == 0 && self.hung == 0 && self.disconnections > 0
    }

    pub(super) fn print(&self) {
        println!("\n{:<16} {:>6} {:>5}", "", "holds", "lost");
        for (name, Holds { begun, lost }) in &self.holds {
            println!("{name:<16} {begun:>6} {lost:>5}");
        }
    }

    pub(super) fn line(&self) -> String {
        let curator = self.of(CURATOR);
        format!(
            "disconnections={} longest_disconnection={:.1}s lost={} changes={} hung={}; {CURATOR}: lost={} changes={}",
            self.disconnections,
            self.longest_disconnection.as_secs_f64(),
            self.lost(),
            self.changes(),
            self.hung,
            curator.lost,
            curator.begun.saturating_sub(self.rounds),
        )
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        for (name, holds) in &other.holds {
            let sum = self.holds.entry(name).or_default();
            sum.begun += holds.begun;
            sum.lost += holds.lost;
        }
        self.disconnections += other.disconnections;
        self.longest_disconnection = self.longest_disconnection.max(other.longest_disconnection);
        self.hung += other.hung;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(change: impl FnOnce(&mut Tally)) -> Tally {
        let mut tally = Tally::of_one_round();
        for recipe in Recipe::ALL {
            (0..recipe.holders()).for_each(|_| tally.begins(recipe.name()));
        }
        tally.disconnected(Duration::from_secs(1));
        change(&mut tally);
        tally
    }

    #[test]
    fn a_lost_hold_a_change_and_a_contender_that_hangs_are_no_clean_upgrade() {
        let latch = Recipe::Latch.name();
        let clean = round(|tally| {
            tally.begins(Recipe::Turns.name());
            tally.begins(CURATOR);
            tally.loses(CURATOR);
        });
        assert!(clean.is_clean(), "{clean:?}");
        let mut both = Tally::default();
        both.add(&clean);
        both.add(&clean);
        assert!(both.is_clean(), "{both:?}");
        for (broken, lost, changes) in [
            (round(|tally| tally.loses(latch)), 1, 0),
            (round(|tally| tally.begins(latch)), 0, 1),
            (round(|tally| tally.hung = 1), 0, 0),
            (round(|tally| tally.disconnections = 0), 0, 0),
        ] {
            assert!(!broken.is_clean(), "{broken:?}");
            assert_eq!(broken.lost(), lost, "{broken:?}");
            assert_eq!(broken.changes(), changes, "{broken:?}");
        }
    }
}
