//! What was seen.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;

use crate::ways::WayName;

/// In the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// The holder's process is killed
    Death,
    /// The holder's process is stopped, and goes on
    Pause,
    /// The server is restarted
    Restart,
    /// The holder lives and does not release
    Forgotten,
    /// The owner acquires once more
    Again,
    /// What waiters ask, and in which order they are served
    Waiting,
    /// A cycle that nobody disturbs
    Cost,
    /// From the release of one process to the hold of the next
    HandOver,
    /// What is asked of one way only
    Besides,
}

impl Question {
    pub(crate) const ALL: [Self; 9] = [
        Self::Death,
        Self::Pause,
        Self::Restart,
        Self::Forgotten,
        Self::Again,
        Self::Waiting,
        Self::Cost,
        Self::HandOver,
        Self::Besides,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Death => "the holder's process is killed",
            Self::Pause => "the holder's process is stopped",
            Self::Restart => "the server is restarted",
            Self::Forgotten => "the lock is not released",
            Self::Again => "its owner acquires it again",
            Self::Waiting => "eight wait",
            Self::Cost => "a cycle that nobody disturbs",
            Self::HandOver => "from one process to the next",
            Self::Besides => "besides",
        }
    }

    /// Of its column in the table of all.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Death => "holder killed: next after",
            Self::Pause => "holder stopped: two believe",
            Self::Restart => "server killed, restarted",
            Self::Forgotten => "not released",
            Self::Again => "acquired again",
            Self::Waiting => "eight wait",
            Self::Cost => "cycle",
            Self::HandOver => "hand-over",
            Self::Besides => "",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) question: Question,
    pub(crate) way: WayName,
    /// Under which circumstances, if a question is asked under several.
    pub(crate) circumstances: Option<&'static str>,
    /// In a few words; none for what does not stand in the table of all.
    pub(crate) brief: Option<String>,
    pub(crate) seen: String,
    pub(crate) numbers: BTreeMap<&'static str, f64>,
}

impl Finding {
    pub(crate) fn new(question: Question, way: WayName, brief: &str, seen: String) -> Self {
        let brief = Some(brief.to_owned());
        Self { question, way, circumstances: None, brief, seen, numbers: BTreeMap::new() }
    }

    pub(crate) fn under(mut self, circumstances: &'static str) -> Self {
        self.circumstances = Some(circumstances);
        self
    }

    /// Only in the list of its question.
    pub(crate) fn without_brief(mut self) -> Self {
        self.brief = None;
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Self {
        self.numbers.insert(name, value);
        self
    }
}
