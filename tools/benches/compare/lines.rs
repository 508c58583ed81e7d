//! One line each, on standard output.

use crate::comparison::{Comparison, Results, figure};
use crate::machine::Machine;

pub(crate) fn print(results: &Results, machine: &Machine) {
    for fact in machine.facts().into_iter().chain([machine.verdict()]) {
        println!("bench-machine: {fact}");
    }
    for link in results.trips.keys() {
        if let Some(trip) = results.trip(*link) {
            let [median, least, most] = [trip.median, trip.least, trip.most].map(figure);
            println!("bench-trip: {link} {median}ms ({least}..{most})");
        }
    }
    for (peer, reason) in &results.missing {
        println!("bench-missing: {peer}: {reason}");
    }
    for comparison in results.comparisons() {
        println!("{}", line(&comparison));
    }
}

fn line(comparison: &Comparison) -> String {
    let Comparison { work, peer, ours, theirs, ratio, goal, .. } = comparison;
    let unit = work.kind.unit();
    let value =
        |median: Option<f64>| median.map_or("missing".to_owned(), |median| figure(median) + unit);
    let (ours, theirs) = (value(ours.map(|one| one.median)), value(theirs.map(|one| one.median)));
    let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let goal = goal.map_or("-".to_owned(), |goal| goal.to_string());
    let (name, link, verdict) = (work.name, work.link, comparison.verdict());
    format!(
        "bench: {name} {link} ours={ours} peer={peer} theirs={theirs} ratio={ratio} goal={goal} ({verdict})"
    )
}
