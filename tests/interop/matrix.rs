//! The table of what was shown: the same here, in the output and in docs/mixed-fleets.md.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;

/// Recipe, who with whom, result.
pub(crate) type Row = (&'static str, &'static str, &'static str);

/// Each kept the other out until it had left, in both roles; and at random no two held.
pub(crate) const EXCLUDES: &str = "each waits for the other";
/// Two held at one moment.
pub(crate) const BREAKS: &str = "**both hold**";
pub(crate) const ONE_WAY: &str = "kazoo waits, **the other does not**";
/// Ours with an error that names the child, while there is one.
pub(crate) const REFUSED: &str = "ours is refused while the other is there";
pub(crate) const REFUSED_AND_NOT: &str = "ours is refused, **kazoo is let in**";
pub(crate) const WAITS_AND_REFUSED: &str = "kazoo waits, ours is refused";
/// Readers were together, writers alone.
pub(crate) const READS: &str = "readers together, writers alone";
pub(crate) const DOWNGRADES: &str = "down-graded, it keeps writers out and lets readers in";
/// Never more than the limit.
pub(crate) const LEASES: &str = "as many as the limit, each waits for the other";
pub(crate) const COUNTS: &str = "each sees what the other sets, no addition is lost";
pub(crate) const LIVE: &str = "each sees the limit that the other sets";
pub(crate) const REVOKES: &str = "is told, and keeps the lock until it lets go";
pub(crate) const LISTS: &str = "both list the same nodes, the holder first";
pub(crate) const BLOCKS_IT: &str = "waits until it is gone; ours does not";
pub(crate) const NAMES_US: &str = "lists their data, in the order of the queue";
/// Of who waits.
pub(crate) const AFTER_ITS_NODE: &str = "takes over once the node is gone, not before";
pub(crate) const AFTER_IT_KNOWS: &str = "takes over after the holder knew of its loss";
/// At random.
pub(crate) const STOPS_BEFORE: &str = "no two hold";
/// Of the holder.
pub(crate) const NOT_TOLD: &str = "still believes that it holds";
pub(crate) const AT_FIRST_LOOK: &str = "knows at its first look";
/// Of a leader.
pub(crate) const THEN_TOLD: &str = "says that it leads, **beside ours**; a moment later not";
pub(crate) const LEADS_AGAIN: &str = "leads again by its node; Curator's never did";
/// Of participants.
pub(crate) const LISTS_IDS: &str = "both list the same ids, the leader first";
pub(crate) const OBSERVES: &str = "is told each that leads, and when nobody does";
pub(crate) const SHOWS_ITS_ADDRESS: &str = "both show the address of its machine";

const ROWS: &[Row] = &[
    ("mutex", "ours, Curator", EXCLUDES),
    ("mutex", "ours, Curator's `LeaderSelector`", EXCLUDES),
    ("mutex", "ours in a namespace, Curator in it", EXCLUDES),
    ("mutex", "ours, kazoo's subclass", EXCLUDES),
    ("mutex", "Curator, kazoo's subclass", EXCLUDES),
    ("mutex", "ours, Curator and kazoo's subclass", EXCLUDES),
    ("mutex", "Curator, kazoo as it is", BREAKS),
    ("mutex", "ours, kazoo as it is", REFUSED_AND_NOT),
    ("mutex", "Curator, beside a foreign child `0`", BLOCKS_IT),
    ("mutex", "kazoo's `contenders()`, of ours and Curator's", NAMES_US),
    ("mutex", "Curator, kazoo with a pattern", ONE_WAY),
    ("mutex", "ours, kazoo with a pattern", WAITS_AND_REFUSED),
    ("mutex", "ours `Kazoo`, kazoo as it is", EXCLUDES),
    ("mutex", "ours `Kazoo`, kazoo's `ReadLock` and `WriteLock`", READS),
    ("mutex", "ours `Inclusive`, kazoo with a pattern", EXCLUDES),
    ("mutex", "ours `Inclusive`, Curator with a driver, kazoo with a pattern", EXCLUDES),
    ("mutex, read-write lock", "ours of the one, Curator's of the other", REFUSED),
    ("mutex", "Curator's holder is stopped, ours waits", AFTER_ITS_NODE),
    ("mutex", "Curator's holder, resumed after that", NOT_TOLD),
    ("mutex", "Curator's holder is killed, ours waits", AFTER_ITS_NODE),
    ("mutex", "Curator's holder is cut off, ours waits", AFTER_ITS_NODE),
    ("mutex", "Curator's holder, cut off all the time", NOT_TOLD),
    ("mutex", "Curator's waiter that came back in a new session, ours", BREAKS),
    ("mutex", "kazoo's holder is cut off, ours waits", AFTER_ITS_NODE),
    ("mutex", "kazoo's holder, cut off all the time", NOT_TOLD),
    ("mutex", "our holder is stopped, Curator's waits", AFTER_ITS_NODE),
    ("mutex", "our holder, resumed after that", AT_FIRST_LOOK),
    ("mutex", "our holder is killed, Curator's waits", AFTER_ITS_NODE),
    ("mutex", "our holder is cut off, Curator's waits", AFTER_IT_KNOWS),
    ("mutex", "ours is cut off again and again, Curator's is not", STOPS_BEFORE),
    ("mutex", "the same with `LossPolicy::SessionExpired`", BREAKS),
    ("read-write lock", "ours, Curator", READS),
    ("read-write lock", "ours, kazoo's subclasses", READS),
    ("read-write lock", "Curator, kazoo's subclasses", READS),
    ("read-write lock", "ours, Curator and kazoo's subclasses", READS),
    ("read-write lock", "ours down-grades, Curator", DOWNGRADES),
    ("read-write lock", "ours down-grades, kazoo's subclasses", DOWNGRADES),
    ("read-write lock", "Curator down-grades, ours comes later", DOWNGRADES),
    ("read-write lock", "Curator down-grades, our writer waits", BREAKS),
    ("read-write lock", "Curator down-grades, Curator's writer waits", BREAKS),
    ("read-write lock", "Curator's writer is cut off, ours waits", AFTER_ITS_NODE),
    ("read-write lock", "our writer is cut off, Curator's waits", AFTER_IT_KNOWS),
    ("read-write lock", "our writer is cut off again and again, Curator's is not", STOPS_BEFORE),
    ("semaphore mutex", "ours, Curator", EXCLUDES),
    ("semaphore of two", "ours, Curator", LEASES),
    ("semaphore of one", "Curator's holder is cut off, ours waits", AFTER_ITS_NODE),
    ("semaphore of one", "our holder is cut off, Curator's waits", AFTER_IT_KNOWS),
    ("shared count", "ours, Curator", COUNTS),
    ("semaphore by a shared count", "ours, Curator", LIVE),
    ("multi-lock", "ours, Curator", EXCLUDES),
    ("revocation", "Curator's holder or waiter, asked by ours", REVOKES),
    ("revocation", "our holder or waiter, asked by Curator", REVOKES),
    ("participants", "ours, Curator, of a mutex and of writers", LISTS),
    ("leader latch", "ours, Curator", EXCLUDES),
    ("leader latch", "two of ours, one of Curator's", EXCLUDES),
    ("leader latch, any other", "ours of the one, Curator's of the other", REFUSED),
    ("leader latch", "Curator's leader is stopped, ours waits", AFTER_ITS_NODE),
    ("leader latch", "Curator's leader, resumed after that", THEN_TOLD),
    ("leader latch", "Curator's leader is killed, ours waits", AFTER_ITS_NODE),
    ("leader latch", "Curator's leader is cut off, ours waits", AFTER_IT_KNOWS),
    ("leader latch", "Curator's is cut off again and again, ours is not", STOPS_BEFORE),
    ("leader latch", "Curator's with its session policy is cut off, ours waits", BREAKS),
    ("leader latch", "Curator's leader that came back in a new session, ours", BREAKS),
    ("leader latch", "Curator's leader whose node somebody deletes, ours", BREAKS),
    ("leader latch", "our leader is stopped, Curator's waits", AFTER_ITS_NODE),
    ("leader latch", "our leader, resumed after that", AT_FIRST_LOOK),
    ("leader latch", "our leader is killed, Curator's waits", AFTER_ITS_NODE),
    ("leader latch", "our leader is cut off, Curator's waits", AFTER_IT_KNOWS),
    (
        "leader latch",
        "our leader is cut off for less than its session, Curator's waits",
        LEADS_AGAIN,
    ),
    ("leader latch", "ours is cut off again and again, Curator's is not", STOPS_BEFORE),
    ("leader latch", "the same with `LossPolicy::SessionExpired`", BREAKS),
    ("leader selector", "ours, Curator", EXCLUDES),
    ("leader selector, mutex", "our selector, Curator's mutex", EXCLUDES),
    ("leader selector", "ours, Curator, kazoo's `Election` with the subclass", EXCLUDES),
    ("leader selector", "ours, kazoo's `Election`", REFUSED_AND_NOT),
    ("leader selector", "ours `Kazoo`, kazoo's `Election`", EXCLUDES),
    ("leader selector", "ours `Inclusive`, kazoo's `Election` with a pattern", EXCLUDES),
    ("leader selector", "kazoo's `Election.contenders()`, of ours", NAMES_US),
    ("leader selector", "Curator's leader is stopped, ours waits", AFTER_ITS_NODE),
    ("leader selector", "Curator's leader, resumed after that", THEN_TOLD),
    ("leader selector", "Curator's leader is killed, ours waits", AFTER_ITS_NODE),
    ("leader selector", "Curator's leader is cut off, ours waits", AFTER_IT_KNOWS),
    ("leader selector", "Curator's is cut off again and again, ours is not", STOPS_BEFORE),
    ("leader selector", "Curator's with its session policy is cut off, ours waits", BREAKS),
    (
        "leader selector",
        "Curator's whose body goes on when it is interrupted is cut off, ours waits",
        BREAKS,
    ),
    ("leader selector", "our leader is stopped, Curator's waits", AFTER_ITS_NODE),
    ("leader selector", "our leader, resumed after that", AT_FIRST_LOOK),
    ("leader selector", "our leader is killed, Curator's waits", AFTER_ITS_NODE),
    ("leader selector", "our leader is cut off, Curator's waits", AFTER_IT_KNOWS),
    ("leader selector", "ours is cut off again and again, Curator's is not", STOPS_BEFORE),
    ("participants", "ours, Curator, of leaders, with spaces and beyond ASCII", LISTS_IDS),
    ("participants", "a selector of Curator's without an id", SHOWS_ITS_ADDRESS),
    ("observer", "ours, of Curator's latches and selectors", OBSERVES),
    ("observer", "ours by a selector's filter, of kazoo's `Election`", OBSERVES),
];

static SHOWN: Mutex<BTreeMap<Row, String>> = Mutex::new(BTreeMap::new());

/// With the last row the whole table is printed.
pub(crate) fn shown(row: Row, how: impl Into<String>) {
    assert!(ROWS.contains(&row), "{row:?} is not in the table");
    let how = how.into();
    println!("shown: {row:?}: {how}");
    let mut shown = SHOWN.lock().unwrap();
    shown.insert(row, how);
    if ROWS.iter().all(|row| shown.contains_key(row)) {
        let mut table =
            String::from("\n| recipe | who | result | at random |\n| --- | --- | --- | --- |\n");
        for row in ROWS {
            writeln!(table, "{} {} |", line(*row), shown[row]).unwrap();
        }
        println!("{table}");
    }
}

fn line((recipe, who, result): Row) -> String {
    format!("| {recipe} | {who} | {result} |")
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

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/mixed-fleets.md");
    std::fs::read_to_string(page).unwrap()
}

#[test]
fn the_page_has_the_table() {
    let page = page();
    let missing: Vec<_> = ROWS.iter().map(|row| line(*row)).filter(|l| !page.contains(l)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
