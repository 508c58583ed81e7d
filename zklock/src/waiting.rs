//! What a terminal shows while a lock is waited for.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use tokio::time::MissedTickBehavior;
use zookeeper_recipes::Curator;

use crate::connection::is_connected;
use crate::contenders::held_by;
use crate::exit::say;
use crate::queue::Queue;
use crate::screen::Screen;
use crate::stderr;
use crate::supervision::bury_all;
use crate::text::{ordinal, visible};

/// A lock that is had at once shows nothing.
const BEFORE_FIRST: Duration = Duration::from_millis(300);
/// How often ages are shown anew.
const DRAW: Duration = Duration::from_secs(1);
/// How long a terminal that shows nothing now, as after Ctrl-S, is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits, and shows meanwhile who holds what is waited for: on a terminal by one line, which is gone then; if `verbose`,
/// by a line for each change; else not.
pub(crate) async fn shown<T>(
    curator: &Curator,
    paths: &[String],
    verbose: bool,
    wait: impl Future<Output = T>,
) -> T {
    let line = match (verbose, io::stderr().is_terminal()) {
        // Among the lines of the log.
        (true, _) => Some(Line::Plain(None)),
        (false, true) => Some(Line::Bar(bar())),
        (false, false) => None,
    };
    let in_place = matches!(line, Some(Line::Bar(_)));
    let shown = async {
        match line {
            Some(line) => follow(curator, paths, line).await,
            None => std::future::pending().await,
        }
    };
    let done = tokio::select! {
        biased;
        done = wait => done,
        never = shown => match never {},
        never = bury_all() => match never {},
    };
    if in_place {
        // It is gone before anybody else writes.
        stderr::shown(PATIENCE).await;
    }
    done
}

enum Line {
    Bar(ProgressBar),
    /// With what was said last.
    Plain(Option<News>),
}

/// What is told, without the ages, which change all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    NoServer,
    /// Where we wait, at which place, and the nodes of those who hold.
    Queue(String, Option<usize>, Vec<String>),
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    // Drawn only when it is told to: nothing shows before.
    ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like(Box::<Screen>::default()))
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

async fn follow(curator: &Curator, paths: &[String], mut line: Line) -> Infallible {
    tokio::time::sleep(BEFORE_FIRST).await;
    let mut queue: Option<Queue> = None;
    let mut draw = tokio::time::interval(DRAW);
    draw.set_missed_tick_behavior(MissedTickBehavior::Delay); // Ctrl-Z may suspend it for hours
    loop {
        let known = queue.clone();
        let next = async move {
            match known {
                Some(queue) => queue.later(curator, paths).await,
                None => Queue::read(curator, paths).await,
            }
        };
        tokio::pin!(next);
        // While no server answers, it takes its time.
        let found = loop {
            tokio::select! {
                found = &mut next => break found,
                _ = draw.tick() => line.draw(curator, paths, queue.as_ref()),
            }
        };
        if found.is_none() {
            tokio::time::sleep(DRAW).await;
        }
        queue = found;
        line.draw(curator, paths, queue.as_ref());
    }
}

impl Line {
    fn draw(&mut self, curator: &Curator, paths: &[String], queue: Option<&Queue>) {
        let Some((news, text)) = told(curator, paths, queue) else { return };
        match self {
            Self::Bar(bar) => bar.set_message(text),
            Self::Plain(said) => {
                if said.as_ref() != Some(&news) {
                    say(&text);
                    *said = Some(news);
                }
            }
        }
    }
}

/// Nothing while nothing is known.
fn told(curator: &Curator, paths: &[String], queue: Option<&Queue>) -> Option<(News, String)> {
    let waiting = |path: &str| format!("waiting for {}", visible(path.as_bytes()));
    if !is_connected(curator) {
        let text = format!("{}: no server answers", waiting(&paths.join(", ")));
        return Some((News::NoServer, text));
    }
    let queue = queue?;
    let (Queue { path, before, .. }, place) = (queue, queue.place());
    let holders = before.iter().filter(|one| one.participant.holds);
    let holders = holders.map(|one| one.participant.path.clone()).collect();
    let news = News::Queue(path.clone(), place, holders);
    let place = place.map(|place| format!("{} in the queue, ", ordinal(place)));
    let text = format!("{}: {}{}", waiting(path), place.unwrap_or_default(), held_by(before));
    Some((news, text))
}
