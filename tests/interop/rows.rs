//! What each test shows, as a row of a table. docs/mixed-fleets.md sums the rows up.

use std::path::Path;

/// Each kept the other out until it had left, in both roles; and at random no two held.
pub(crate) const EXCLUDES: &str = "each waits for the other";
/// Readers were together, writers alone.
pub(crate) const READS: &str = "readers together, writers alone";
pub(crate) const DOWNGRADES: &str = "down-graded, it keeps writers out and lets readers in";
/// Ours with an error that names the child, while there is one.
pub(crate) const REFUSED: &str = "ours is refused while the other is there";
pub(crate) const NAMES_US: &str = "lists their data, in the order of the queue";
pub(crate) const OBSERVES: &str = "is told each that leads, and when nobody does";

/// Prints the row, and `how` beside it.
pub(crate) fn shown(recipe: &str, who: &str, result: &str, how: &str) {
    println!("shown: | {recipe} | {who} | {result} | {how}");
}

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/mixed-fleets.md");
    std::fs::read_to_string(page).unwrap()
}

/// What readers are to copy is what was tried.
#[test]
fn the_page_has_kazoos_subclasses() {
    assert!(page().contains(include_str!("kazoo_locks.py")));
}

/// And Curator's driver, as whoever reads the page has it.
#[test]
fn the_page_has_curators_driver() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ours = words(include_str!("CuratorLock.java"));
    let (_, driver) = ours.split_once("extends StandardLockInternalsDriver { ").unwrap();
    let (driver, _) = driver.split_once(" } }").unwrap();
    assert!(words(&page()).contains(driver), "{driver}");
}
