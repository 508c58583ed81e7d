//! Runs the checker, and says on one line what it found.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::model::{Action, Contention};
use crate::properties::{ADOPTED, ALL_DONE, LOST};
use crate::world::World;

/// Visits every state. Fails, with a shortest trace, if a property is broken, or if what the faults are
/// meant to bring about never comes about.
pub(crate) fn holds(model: Contention) {
    let contention = model.to_string();
    let faults = model.faults;
    let disturbed = faults.cuts + faults.partitions + faults.stops > 0;
    let mut expected = vec![ALL_DONE];
    expected.extend((faults.cuts > 0).then_some(ADOPTED));
    // Of one client, a lost hold ends with its session.
    let others = model.lags.len() > 1;
    expected.extend((faults.expiries > 0 && disturbed && others).then_some(LOST));

    let (checker, took) = timed(|| model.clone().checker().threads(2).spawn_bfs().join());
    let found = checker.discoveries();
    for (property, path) in &found {
        let seen = [ADOPTED, LOST, ALL_DONE].contains(property);
        assert!(seen, "{contention}: broken: {property}\n{}", trace(path));
    }
    for property in expected {
        assert!(found.contains_key(property), "{contention}: never {property}");
    }
    for (rule, used) in expected_rules(&model) {
        assert!(used.load(Ordering::Relaxed), "{contention}: the rule \"{rule}\" was not used");
    }
    println!(
        "model: {contention}: states={} depth={} all properties hold ({:.1} s)",
        checker.unique_state_count(),
        checker.max_depth(),
        took.as_secs_f64(),
    );
}

/// Which of the rules that save round trips have to show in these runs.
fn expected_rules(model: &Contention) -> Vec<(&'static str, &AtomicBool)> {
    let (rules, used) = (model.rules, &model.used);
    let shared = model.tasks.iter().any(|tasks| *tasks > 1);
    let clients = model.lags.len();
    let again = model.tries > 1 || shared;
    let expected = [
        ("head", rules.head.on && clients > 1, &used.head),
        ("stand-by", rules.stand_by && clients > 2, &used.stand_by),
        ("local", rules.local.on && shared, &used.local),
        ("gap", rules.gap.on && again, &used.gap),
    ];
    let expected = expected.into_iter().filter(|(_, expected, _)| *expected);
    expected.map(|(rule, _, used)| (rule, used)).collect()
}

/// Looks for a shortest way to break `property`, and fails if there is none.
pub(crate) fn breaks(rule: &str, property: &'static str, model: Contention) {
    let wanted = HasDiscoveries::AllOf([property].into());
    let (checker, took) = timed(|| model.checker().finish_when(wanted).spawn_bfs().join());
    let states = checker.unique_state_count();
    let Some(path) = checker.discovery(property) else {
        panic!("sabotage {rule}: not broken in {states} states: {property}");
    };
    println!(
        "sabotage {rule}: broken as it must be: \"{property}\" after {} steps (states={states}, {:.1} s)",
        path.clone().into_actions().len(),
        took.as_secs_f64(),
    );
    if std::env::var_os("TRACE").is_some() {
        print!("{}", trace(&path));
    }
}

/// Fails if there is a run without end, that is, a circle of states.
pub(crate) fn ends(model: &Contention) {
    struct Visit {
        key: u64,
        world: World,
        actions: Vec<Action>,
    }
    let visit = |world: World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        let mut actions = Vec::new();
        model.actions(&world, &mut actions);
        Visit { key: hasher.finish(), world, actions }
    };
    // Whether all that follows was looked at.
    let mut known: HashMap<u64, bool> = HashMap::new();
    let mut path: Vec<Visit> = model.init_states().into_iter().map(visit).collect();
    known.extend(path.iter().map(|first| (first.key, false)));
    while let Some(last) = path.last_mut() {
        let Some(action) = last.actions.pop() else {
            known.insert(last.key, true);
            path.pop();
            continue;
        };
        let next = visit(model.next_state(&last.world, action).unwrap());
        match known.get(&next.key) {
            Some(true) => {}
            Some(false) => panic!("{model}: a run without end, by {action:?} in {:#?}", last.world),
            None => {
                known.insert(next.key, false);
                path.push(next);
            }
        }
    }
    println!("model: {model}: states={} every run ends", known.len());
}

#[expect(clippy::disallowed_methods)] // no session, no suspended time
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = std::time::Instant::now();
    (work(), began.elapsed())
}

fn trace(path: &Path<World, Action>) -> String {
    let actions = path.clone().into_actions();
    actions.iter().map(|action| format!("    {action:?}\n")).collect()
}
