//! Visits all states breadth first, and then goes backwards from the states in which nothing is left to happen.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use super::world::{Step, World};

/// The size of a space that was exhausted without a finding.
#[derive(Debug)]
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) steps: usize,
    /// The states in which nothing happens without a fault or a new call.
    pub(super) at_rest: usize,
    /// The steps to the state that is farthest from the first one.
    pub(super) depth: usize,
    /// The situations that were met.
    pub(super) met: BTreeSet<&'static str>,
}

/// A claim that does not hold, and the steps to it.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) claim: String,
    pub(super) trace: String,
}

struct Search<'a> {
    first: &'a World,
    /// The step by which each state was reached first, and the state before.
    reached: Vec<(u32, Option<Step>)>,
}

/// Explores all states that can be reached from `first`.
///
/// Each state satisfies the claims of [`World::check`]. If no fault and no new call follows, each run from each state ends, in a
/// state in which no caller waits and no node is left.
pub(super) fn explore(first: &World) -> Result<Explored, Finding> {
    let mut search = Search { first, reached: vec![(0, None)] };
    let mut numbers = HashMap::from([(first.fingerprint(), 0)]);
    let mut layer = vec![(0, first.clone())];
    // The steps of progress, as pairs of the state after and the state before, and how many lead from each state.
    let mut progress = Vec::new();
    let mut remaining = vec![0_u32];
    let mut at_rest = Vec::new();
    let mut steps = 0;
    let mut depth = 0;
    let mut met = BTreeSet::new();
    while !layer.is_empty() {
        let mut next = Vec::new();
        for (number, world) in layer {
            for step in world.steps() {
                steps += 1;
                let mut after = world.clone();
                after.take(step);
                // A claim about the step, rather than the state, may fail on the way to a known state.
                if let Some(claim) = after.broken {
                    return Err(search.finding(number, Some(step), claim));
                }
                let new = u32::try_from(numbers.len()).expect("fewer states");
                let reached = *numbers.entry(after.fingerprint()).or_insert(new);
                if reached == new {
                    search.reached.push((number, Some(step)));
                    remaining.push(0);
                    met.extend(after.situations());
                    next.push((reached, after));
                }
                if step.is_progress(&world) {
                    progress.push((reached, number));
                    remaining[number as usize] += 1;
                }
            }
            if remaining[number as usize] == 0 {
                if let Some(claim) = world.at_rest() {
                    return Err(search.finding(number, None, claim.to_owned()));
                }
                at_rest.push(number);
            }
        }
        depth += usize::from(!next.is_empty());
        layer = next;
    }
    let resting = at_rest.len();
    // A state is done once each of its steps leads to a state that is done.
    progress.sort_unstable();
    while let Some(done) = at_rest.pop() {
        let begin = progress.partition_point(|(after, _)| *after < done);
        for (_, number) in progress[begin..].iter().take_while(|(after, _)| *after == done) {
            let left = &mut remaining[*number as usize];
            *left -= 1;
            if *left == 0 {
                at_rest.push(*number);
            }
        }
    }
    if let Some(endless) = remaining.iter().position(|left| *left > 0) {
        let endless = u32::try_from(endless).expect("a number of a state");
        return Err(search.finding(endless, None, "a run without an end begins".to_owned()));
    }
    let states = numbers.len();
    Ok(Explored { states, steps, at_rest: resting, depth, met })
}

impl Search<'_> {
    /// A finding in a state, or in a step from there.
    fn finding(&self, mut number: u32, last: Option<Step>, claim: String) -> Finding {
        let mut steps = Vec::from_iter(last);
        while let (before, Some(step)) = self.reached[number as usize] {
            steps.push(step);
            number = before;
        }
        steps.reverse();
        let mut trace = String::new();
        let mut world = self.first.clone();
        for (place, step) in steps.iter().enumerate() {
            let _ = writeln!(trace, "{:3}  {}", place + 1, world.words(*step));
            world.take(*step);
        }
        Finding { claim, trace }
    }
}
