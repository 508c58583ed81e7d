//! All questions to all ways.
//!
//! What takes its time by waiting for leases is asked of all ways at once, each on servers of its own. What is measured
//! comes after that, one way after the other; the cost of a cycle at the end, of all in turns.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::Failure;
use crate::finding::{Finding, Question};
use crate::progress::Progress;
use crate::questions::{self, Circumstances};
use crate::server::{Durability, Kind};
use crate::settings::Settings;
use crate::stage::Stage;
use crate::ways::WayName;

const AT_ONCE: [Question; 6] = [
    Question::Death,
    Question::Pause,
    Question::Forgotten,
    Question::Again,
    Question::Restart,
    Question::Besides,
];
const ONE_AFTER_THE_OTHER: [Question; 2] = [Question::Waiting, Question::HandOver];

#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) findings: Vec<Finding>,
    /// Servers that cannot be had, and why.
    pub(crate) missing: BTreeMap<Kind, String>,
    /// Questions that were not answered.
    pub(crate) failures: Vec<String>,
}

struct Run<'a> {
    settings: &'a Settings,
    progress: Progress,
    results: RefCell<Results>,
}

pub(crate) async fn all(settings: &Settings) -> Results {
    let mut results = Results::default();
    let (mut ways, mut kinds) = (settings.ways(), Vec::new());
    kinds.extend(ways.iter().map(|way| way.kind()));
    kinds.dedup();
    for kind in kinds {
        if let Err(reason) = kind.version() {
            results.missing.insert(kind, reason);
        }
    }
    ways.retain(|way| !results.missing.contains_key(&way.kind()));
    let asked =
        AT_ONCE.iter().chain(&ONE_AFTER_THE_OTHER).filter(|one| settings.asks(**one)).count();
    let costs = if settings.asks(Question::Cost) { Circumstances::ALL.len() } else { 0 };
    let progress = Progress::new(ways.len() * asked + costs);
    for (kind, reason) in &results.missing {
        progress.say(&format!("{} is missing: {reason}", kind.name()));
    }
    let run = Run { settings, progress, results: RefCell::new(results) };
    join_all(ways.iter().map(|way| run.ask(*way, &AT_ONCE))).await;
    for way in &ways {
        run.ask(*way, &ONE_AFTER_THE_OTHER).await;
    }
    if settings.asks(Question::Cost) {
        run.cost(&ways).await;
    }
    run.progress.finish();
    let mut results = run.results.into_inner();
    // Within a question and a way as they were found.
    results.findings.sort_by_key(|finding| (finding.question, finding.way));
    results
}

impl Run<'_> {
    async fn ask(&self, way: WayName, questions: &[Question]) {
        let mut wanted = questions.iter().filter(|one| self.settings.asks(**one)).peekable();
        let Some(first) = wanted.peek() else { return };
        let root = self.settings.disk();
        let stage = Stage::set(way, self.settings, Durability::Packaged, &root).await;
        let mut stage = match stage {
            Ok(stage) => stage,
            Err(error) => return self.failed(way, **first, &error),
        };
        for question in wanted {
            match questions::ask(*question, &mut stage).await {
                Ok(found) => self.results.borrow_mut().findings.extend(found),
                Err(error) => self.failed(way, *question, &error),
            }
            self.progress.done(&format!("{}, {}", way.title(), question.title()));
        }
    }

    async fn cost(&self, ways: &[WayName]) {
        for circumstances in Circumstances::ALL {
            for (way, found) in questions::cost(ways, self.settings, circumstances).await {
                match found {
                    Ok(found) => self.results.borrow_mut().findings.push(found),
                    Err(error) => self.failed(way, Question::Cost, &error),
                }
            }
            let (title, name) = (Question::Cost.title(), circumstances.name());
            self.progress.done(&format!("{title}, {name}"));
        }
    }

    fn failed(&self, way: WayName, question: Question, error: &Failure) {
        let failure = format!("{}, {}: {error}", way.title(), question.title());
        self.progress.say(&format!("not answered: {failure}"));
        self.results.borrow_mut().failures.push(failure);
    }
}
