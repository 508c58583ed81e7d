//! [`Picture`]: a run as an SVG file.

use std::fmt::{self, Display};
use std::ops::Range;
use std::time::Duration;

use super::drawing::Drawing;
use super::recording::{Recording, Span};
use super::state::millis;

/// Without a window, a picture shows so much before the first mark, and so much behind it.
const BEFORE_MARK: u64 = 5_000;
const AFTER_MARK: u64 = 500;
/// A run without a mark is cut to its last minute.
const WITHOUT_MARK: u64 = 60_000;

/// A picture of a run: an SVG file, which its `Display` writes. See [`Ensemble::picture`](super::Ensemble::picture).
///
/// Virtual time runs to the right. Each process has a lane with the waits (pale) and the holds (solid) of its tasks. Each server has
/// a lane with its role, and each lane has a row for the faults that concern it. Red stands for a loss.
///
/// The label of a hold is its fencing token, as epoch and number in that epoch: `1.7` is 4294967303. The colour stands for the path.
/// If there are more paths than colours, it stands for their parent, and the label begins with the last part of the path. In a
/// browser, each bar says what it is when the mouse rests on it.
#[derive(Clone, Debug)]
#[must_use = "a picture is a text to write to a file"]
pub struct Picture {
    run: Recording,
    now: u64,
    window: Option<Span>,
    title: Option<String>,
}

impl Picture {
    pub(super) fn new(run: Recording, now: u64) -> Self {
        Self { run, now, window: None, title: None }
    }

    /// Shows the whole run, instead of the five seconds before its first [mark](super::Ensemble::mark), or of its last minute
    /// if it has no mark.
    pub fn whole(mut self) -> Self {
        self.window = Some(Span { from: 0, to: self.now });
        self
    }

    /// Shows this range of virtual time since the start of the ensemble.
    pub fn between(mut self, range: Range<Duration>) -> Self {
        self.window = Some(Span { from: millis(range.start), to: millis(range.end) });
        self
    }

    /// Sets the headline.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    fn window(&self) -> Span {
        self.window.unwrap_or_else(|| match self.run.marks.first() {
            Some((at, _)) => {
                Span { from: at.saturating_sub(BEFORE_MARK), to: self.now.min(at + AFTER_MARK) }
            }
            None => Span { from: self.now.saturating_sub(WITHOUT_MARK), to: self.now },
        })
    }
}

impl Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.window();
        let run = self.run.clone().cut(window, self.now);
        writeln!(f, "{}", Drawing::new(&run, window).draw(self.title.as_deref()))
    }
}
