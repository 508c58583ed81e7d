//! The holder's process is stopped for longer than the lease, and goes on. Do two believe that they hold? Does the woken
//! one know at its first look? Is there a token by which a resource could tell them apart?

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::sleep;

use super::{SETTLED, some_time};
use crate::Failure;
use crate::clock::now;
use crate::event::{Look, Order, Released, What};
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::Summary;

/// For a woken holder to find out by itself.
const WATCHED: Duration = Duration::from_secs(2);

/// One round, from the moment in which the holder was woken.
struct Round {
    /// After the stop.
    next_held: Option<Duration>,
    first_look: Option<Look>,
    /// How long the woken one believed, and the next one did as well.
    both: Duration,
    /// Whether it learnt by itself while it was watched.
    was_told: bool,
    asked: Result<bool, String>,
    released: Result<Released, String>,
    tokens: [Option<i64>; 2],
}

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    let mut rounds = Vec::new();
    for _ in 0..stage.settings.rounds {
        rounds.push(round(stage).await?);
    }
    let last = rounds.last().ok_or("no rounds")?;
    let Some(held) = Summary::of_times(rounds.iter().filter_map(|round| round.next_held)) else {
        let stopped = stage.settings.lease() * 2;
        let seen = format!(
            "nobody got it while the holder was stopped, {stopped:?}; woken, its release: {}",
            outcome(&last.released)
        );
        return Ok(Finding::new(Question::Pause, stage.way, "no: the next waits", seen)
            .with("stopped_ms", stopped.as_secs_f64() * 1e3));
    };
    let both = Summary::of_times(rounds.iter().map(|round| round.both)).ok_or("no rounds")?;
    let knew = rounds.iter().filter(|round| round.first_look == Some(Look::Lost)).count();
    let until_told = format!("yes, {} until told", both.short());
    let (brief, belief) = if stage.way.is_optimistic() {
        ("no lock: the late write is refused", "had nothing to look at".to_owned())
    } else if knew == rounds.len() {
        ("no: knew at its first look", "knew at its first look that it was lost".to_owned())
    } else if rounds.iter().all(|round| round.was_told) {
        (&*until_told, format!("believed on for {}, until it was told", both.text()))
    } else {
        ("yes, until it asks", format!("believed on for {}, until it asked", both.text()))
    };
    let token = match last.tokens {
        [Some(first), Some(second)] if second > first => format!("tokens {first}, then {second}"),
        [Some(first), Some(second)] if stage.way.is_optimistic() => {
            format!("both read version {}", first.min(second))
        }
        [Some(first), Some(second)] => format!("tokens {first} and {second}, which do not grow"),
        _ => "no token".to_owned(),
    };
    let seen = format!(
        "the next held {} after the stop; the woken one {belief} ({knew} of {} knew at the first look); asked, the server said: {}; its release: {}; {token}",
        held.text(),
        rounds.len(),
        answer(&last.asked),
        outcome(&last.released),
    );
    Ok(Finding::new(Question::Pause, stage.way, brief, seen)
        .with("next_held_after_stop_median_ms", held.median)
        .with("both_believed_most_ms", both.most)
        .with("knew_at_first_look", knew as f64)
        .with("rounds", rounds.len() as f64))
}

async fn round(stage: &Stage<'_>) -> Result<Round, Failure> {
    let lease = stage.settings.lease();
    let place = stage.place(lease);
    let [mut holder, mut next] = stage.hire(&place).await?;
    let (_, first) = holder.acquire().await?;
    if !stage.way.is_optimistic() {
        next.ask_for(Order::Acquire).await?;
    }
    sleep(SETTLED).await;
    some_time(lease / 3).await;
    let stopped = holder.signal(Signal::SIGSTOP)?;
    if stage.way.is_optimistic() {
        next.ask_for(Order::Acquire).await?;
    }
    let got = next.held(lease * 2).await?;
    if stage.way.is_optimistic() {
        next.release().await?.1?;
    }
    // Time to do something under the lock.
    sleep(SETTLED).await;
    let woken = now();
    holder.signal(Signal::SIGCONT)?;
    let is_look = |what: &What| matches!(what, What::Works(_) | What::Lost);
    let mut look = holder.within(WATCHED, is_look).await;
    // What it logged before the stop may still be on its way.
    while look.as_ref().is_some_and(|event| event.at < woken) {
        look = holder.within(WATCHED, is_look).await;
    }
    let first_look = look.map(|event| match event.what {
        What::Works(look) => look,
        _ => Look::Lost,
    });
    if first_look != Some(Look::Lost) {
        holder.within(WATCHED, |what| *what == What::Lost).await;
    }
    let was_told = holder.belief().is_some_and(|belief| belief.was_told);
    let (_, asked) = holder.ask().await?;
    // A stopped process believes, but does nothing: only from the moment in which it is woken.
    let both = holder.belief().zip(next.belief()).map(|(mut woken_one, next)| {
        woken_one.from = woken_one.from.max(woken);
        woken_one.overlap(&next).unwrap_or_default()
    });
    let (_, released) = holder.release().await?;
    Ok(Round {
        next_held: got.map(|(at, _)| at.saturating_sub(stopped)),
        first_look,
        both: both.unwrap_or_default(),
        was_told,
        asked,
        released,
        tokens: [first, got.and_then(|(_, token)| token)],
    })
}

fn answer(asked: &Result<bool, String>) -> String {
    match asked {
        Ok(true) => "held".to_owned(),
        Ok(false) => "not held".to_owned(),
        Err(error) => format!("an error ({error})"),
    }
}

pub(super) fn outcome(released: &Result<Released, String>) -> String {
    match released {
        Ok(Released::Ours) => "done".to_owned(),
        Ok(Released::NotOurs) => "refused, not its own any more".to_owned(),
        Ok(Released::NotTold) => "done, whatever was there".to_owned(),
        Err(error) => format!("an error ({error})"),
    }
}
