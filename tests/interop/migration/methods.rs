//! Whether the page has a row for every public method of Curator's, as `javap` tells them, and none for what is not there.

use std::collections::BTreeSet;

use super::PAGE;
use crate::peers;

const LOCKS: &str = "org.apache.curator.framework.recipes.locks.";
const SHARED: &str = "org.apache.curator.framework.recipes.shared.";
const LEADER: &str = "org.apache.curator.framework.recipes.leader.";
const FRAMEWORK: &str = "org.apache.curator.framework.";
const STATE: &str = "org.apache.curator.framework.state.";
const RETRY: &str = "org.apache.curator.retry.";

/// A heading of the page, and the classes that its rows are about.
const SECTIONS: &[(&str, &str, &[&str])] = &[
    ("InterProcessLock", LOCKS, &["InterProcessLock"]),
    ("InterProcessMutex", LOCKS, &["InterProcessMutex"]),
    ("InterProcessSemaphoreMutex", LOCKS, &["InterProcessSemaphoreMutex"]),
    (
        "InterProcessReadWriteLock",
        LOCKS,
        &[
            "InterProcessReadWriteLock",
            "InterProcessReadWriteLock$ReadLock",
            "InterProcessReadWriteLock$WriteLock",
        ],
    ),
    ("InterProcessSemaphoreV2", LOCKS, &["InterProcessSemaphoreV2"]),
    ("Lease", LOCKS, &["Lease"]),
    ("InterProcessMultiLock", LOCKS, &["InterProcessMultiLock"]),
    (
        "Revoker, Revocable, RevocationListener",
        LOCKS,
        &["Revoker", "Revocable", "RevocationListener"],
    ),
    ("SharedCount", SHARED, &["SharedCount", "VersionedValue"]),
    (
        "SharedCountReader, SharedCountListener",
        SHARED,
        &["SharedCountReader", "SharedCountListener"],
    ),
    ("LeaderLatch", LEADER, &["LeaderLatch", "LeaderLatch$State", "LeaderLatch$CloseMode"]),
    ("LeaderLatchListener", LEADER, &["LeaderLatchListener"]),
    ("LeaderSelector", LEADER, &["LeaderSelector"]),
    (
        "LeaderSelectorListener, its adapter",
        LEADER,
        &["LeaderSelectorListener", "LeaderSelectorListenerAdapter", "CancelLeadershipException"],
    ),
    ("Participant", LEADER, &["Participant"]),
    ("CuratorFramework", FRAMEWORK, &["CuratorFramework"]),
    ("CuratorFrameworkFactory", FRAMEWORK, &["CuratorFrameworkFactory"]),
    ("CuratorFrameworkFactory.Builder", FRAMEWORK, &["CuratorFrameworkFactory$Builder"]),
    ("ConnectionState", STATE, &["ConnectionState"]),
    ("ConnectionStateListener", STATE, &["ConnectionStateListener"]),
    (
        "ConnectionStateErrorPolicy",
        STATE,
        &[
            "ConnectionStateErrorPolicy",
            "StandardConnectionStateErrorPolicy",
            "SessionConnectionStateErrorPolicy",
        ],
    ),
    ("RetryPolicy", "org.apache.curator.", &["RetryPolicy", "SessionFailedRetryPolicy"]),
    (
        "Retry policies",
        RETRY,
        &[
            "RetryNTimes",
            "RetryOneTime",
            "ExponentialBackoffRetry",
            "BoundedExponentialBackoffRetry",
            "RetryUntilElapsed",
            "RetryForever",
        ],
    ),
];

/// `java.util.Collection<org.apache.Lease>` as `Collection`, a nested class by its own name.
fn simple(name: &str) -> String {
    let mut depth = 0;
    let bare: String = name
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<');
            let kept = depth == 0;
            depth -= i32::from(*c == '>');
            kept
        })
        .collect();
    bare.trim().rsplit(['.', '$']).next().unwrap_or_default().to_owned()
}

/// Of a line of `javap`'s: `name(Type, Type)`, or the name of a constant.
fn signature(line: &str) -> Option<String> {
    let line = line.trim().strip_prefix("public ")?;
    let Some((before, after)) = line.split_once('(') else {
        // A field, or the class.
        return line
            .ends_with(';')
            .then(|| simple(line.trim_end_matches(';').rsplit(' ').next()?).into())?;
    };
    let name = simple(before.rsplit(' ').next()?);
    let mut depth = 0;
    let mut types = vec![String::new()];
    for c in after.split_once(')')?.0.chars() {
        depth += i32::from(c == '<') - i32::from(c == '>');
        if c == ',' && depth == 0 {
            types.push(String::new());
        } else {
            types.last_mut()?.push(c);
        }
    }
    let types: Vec<_> = types.iter().map(|one| simple(one)).collect();
    Some(format!("{name}({})", types.join(", ")))
}

/// What the compiler makes: of every enum, and where a type parameter was filled in.
fn is_made(signature: &str, all: &[String]) -> bool {
    if matches!(signature, "values()" | "valueOf(String)") {
        return true;
    }
    let (Some((name, types)), true) = (signature.split_once('('), signature.contains("Object"))
    else {
        return false;
    };
    let shape = |one: &str| one.matches(',').count();
    all.iter().any(|other| {
        other.split_once('(').is_some_and(|(other_name, other_types)| {
            other_name == name && other_types != types && shape(other_types) == shape(types)
        })
    })
}

/// Of each section, in one call: a Java that starts takes its time.
fn of_curator() -> Option<Vec<BTreeSet<String>>> {
    let names = SECTIONS.iter().flat_map(|(_, package, classes)| {
        classes.iter().map(move |class| format!("{package}{class}"))
    });
    let names: Vec<_> = names.collect();
    let mut arguments = vec!["-public"];
    arguments.extend(names.iter().map(String::as_str));
    let printed = peers::java_tool("javap", &arguments)?;
    let mut classes = printed.split("Compiled from ").skip(1);
    let sections = SECTIONS.iter().map(|(_, _, names)| {
        let mut signatures = BTreeSet::new();
        for printed in classes.by_ref().take(names.len()) {
            let all: Vec<_> = printed.lines().skip(2).filter_map(signature).collect();
            assert!(!all.is_empty(), "nothing in {printed}");
            signatures.extend(all.iter().filter(|one| !is_made(one, &all)).cloned());
        }
        signatures
    });
    Some(sections.collect())
}

/// The signatures in the first cells of the tables under a heading.
fn of_the_page(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, rest) =
        page.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = rest.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let first = rows.filter_map(|row| row.split('|').nth(1));
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_public_method_of_curators_has_a_row() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let Some(all) = of_curator() else { return };
    for ((heading, ..), theirs) in SECTIONS.iter().zip(all) {
        let ours = of_the_page(PAGE, heading);
        count += theirs.len();
        wrong.extend(theirs.difference(&ours).map(|one| format!("{heading}: no row for {one}")));
        wrong.extend(ours.difference(&theirs).map(|one| format!("{heading}: there is no {one}")));
    }
    assert!(wrong.is_empty(), "of {count}: {wrong:#?}");
    assert!(count > 200, "only {count} were found");
    println!("{count} methods of Curator's have a row");
}

#[test]
fn signatures_are_read_as_the_page_writes_them() {
    let read = |line: &str| signature(line).unwrap_or_default();
    assert_eq!(read("  public void acquire() throws java.lang.Exception;"), "acquire()");
    assert_eq!(
        read("  public abstract boolean acquire(long, java.util.concurrent.TimeUnit);"),
        "acquire(long, TimeUnit)"
    );
    assert_eq!(
        read("  public org.a.Multi(org.a.Client, java.util.Map<java.lang.String, org.a.Lock>);"),
        "Multi(Client, Map)"
    );
    assert_eq!(read("  public void close(org.a.Latch$CloseMode);"), "close(CloseMode)");
    assert_eq!(read("  public static final org.a.State LOST;"), "LOST");
    assert_eq!(signature("public class org.a.Latch implements java.io.Closeable {"), None);
    // Of one that is missing and one that is too many, each is seen.
    let page = "\n### One\n\n| a | b |\n| --- | --- |\n| `x()`, `y(int)` | `z()` |\n\n### Two\n";
    assert_eq!(of_the_page(page, "One"), BTreeSet::from(["x()".to_owned(), "y(int)".to_owned()]));
}
