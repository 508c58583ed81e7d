//! The page: one HTML file that needs nothing else, with the run on a line of time.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::checker::{End, Evidence, Hold, Verdict};
use crate::log::{Event, Nanos, Node, Place, What};
use crate::report;
use crate::schedule::MEMBERS;
use crate::settings::Settings;

const TEMPLATE: &str = include_str!("page.html");

/// Times are in milliseconds since the first event.
#[derive(Serialize)]
struct Data {
    line: String,
    end: f64,
    healed: f64,
    rows: Vec<Vec<HoldBar>>,
    observed: Vec<HoldBar>,
    members: Vec<String>,
    faults: Vec<FaultBar>,
    excused: Vec<ExcusedBar>,
    findings: Vec<FindingLine>,
}

#[derive(Serialize)]
struct HoldBar {
    from: f64,
    to: f64,
    token: i64,
    generation: usize,
    mode: &'static str,
    shared: bool,
    nodes: String,
    end: &'static str,
    text: String,
}

#[derive(Serialize)]
struct FaultBar {
    number: usize,
    from: f64,
    to: f64,
    kind: String,
    detail: String,
    rows: Vec<usize>,
    members: Vec<usize>,
}

#[derive(Serialize)]
struct ExcusedBar {
    at: f64,
    long: f64,
}

#[derive(Serialize)]
struct FindingLine {
    at: f64,
    kind: String,
    text: String,
}

pub(crate) fn write(
    file: &Path,
    settings: &Settings,
    evidence: &Evidence,
    verdict: &Verdict,
) -> Result<()> {
    let data = serde_json::to_string(&data(settings, evidence, verdict))?;
    // Within a script, only this would end the text.
    let data = data.replace("</", "<\\/");
    Ok(std::fs::write(file, TEMPLATE.replace("{{data}}", &data))?)
}

fn data(settings: &Settings, evidence: &Evidence, verdict: &Verdict) -> Data {
    let logs = evidence.workers.iter().map(|log| &log.events).chain([&evidence.faults]);
    let moments = || logs.clone().flatten().map(|event| event.0);
    let (first, last) = (moments().min().unwrap_or(0), moments().max().unwrap_or(0));
    let time = Scale { first };
    let healed = evidence.faults.iter().find(|event| event.1 == What::Healed);
    let rows = evidence.workers.iter().map(|log| log.row + 1).max().unwrap_or(0);
    let mut rows: Vec<_> = (0..rows).map(|_| Vec::new()).collect();
    for hold in &verdict.holds {
        rows[hold.row].push(time.hold(hold));
    }
    let excused = |excused: &crate::checker::Excused| ExcusedBar {
        at: time.of(excused.at),
        long: milliseconds(excused.long),
    };
    let finding = |finding: &crate::checker::Finding| FindingLine {
        at: time.of(finding.at),
        kind: format!("{:?}", finding.kind),
        text: finding.text.clone(),
    };
    Data {
        line: report::line(settings, verdict),
        end: time.of(last),
        healed: healed.map_or_else(|| time.of(last), |event| time.of(event.0)),
        rows,
        observed: time.observed(evidence.observed.as_deref().unwrap_or_default(), last),
        members: (0..MEMBERS).map(|member| format!("member {member}")).collect(),
        faults: time.faults(&evidence.faults, last),
        excused: verdict.excused.iter().map(excused).collect(),
        findings: verdict.findings.iter().map(finding).collect(),
    }
}

#[allow(clippy::cast_precision_loss)]
fn milliseconds(time: Nanos) -> f64 {
    // Whole microseconds keep the page small.
    (time / 1000) as f64 / 1000.0
}

struct Scale {
    first: Nanos,
}

impl Scale {
    fn of(&self, at: Nanos) -> f64 {
        milliseconds(at.saturating_sub(self.first))
    }

    fn hold(&self, hold: &Hold) -> HoldBar {
        let (from, to) = hold.certain().unwrap_or((hold.from, hold.from));
        let (end, text) = match &hold.end {
            End::Released(_) => ("held", "released".to_owned()),
            End::Lost(_, how) => ("lost", format!("lost: {how}")),
            End::Open => ("open", "ended with its process".to_owned()),
        };
        let Hold { token, generation, mode, .. } = *hold;
        let name = |node: &Node| match &node.path {
            Some(path) => path.clone(),
            None => format!("{} token {}", node.lock, node.token),
        };
        let nodes: Vec<_> = hold.nodes.iter().map(name).collect();
        HoldBar {
            from: self.of(from),
            to: self.of(to),
            token,
            generation,
            mode: mode.name(),
            shared: !mode.is_exclusive(),
            nodes: nodes.join("\n"),
            end,
            text,
        }
    }

    /// Each leader until the observer was told of the next, or of nobody.
    fn observed(&self, events: &[Event], last: Nanos) -> Vec<HoldBar> {
        let ends = events.iter().skip(1).map(|event| event.0).chain([last]);
        let told = events.iter().zip(ends).filter_map(|(Event(at, what), end)| match what {
            What::Observes { leader: Some((id, token)) } => Some((*at, end, id, *token)),
            _ => None,
        });
        told.map(|(from, to, id, token)| HoldBar {
            from: self.of(from),
            to: self.of(to),
            token,
            generation: 0,
            mode: "observed",
            shared: true,
            nodes: String::new(),
            end: "held",
            text: format!("is told that {id} leads"),
        })
        .collect()
    }

    fn faults(&self, events: &[Event], last: Nanos) -> Vec<FaultBar> {
        let mut faults = BTreeMap::new();
        for Event(at, what) in events {
            match what {
                What::Begins { fault: number, kind, detail, on } => {
                    let rows = on.iter().filter_map(|place| match place {
                        Place::Row(row) => Some(*row),
                        Place::Member(_) => None,
                    });
                    let members = on.iter().filter_map(|place| match place {
                        Place::Member(member) => Some(*member),
                        Place::Row(_) => None,
                    });
                    let bar = FaultBar {
                        number: *number,
                        from: self.of(*at),
                        to: self.of(last),
                        kind: kind.clone(),
                        detail: detail.clone(),
                        rows: rows.collect(),
                        members: members.collect(),
                    };
                    faults.insert(*number, bar);
                }
                What::Ends { fault } => {
                    if let Some(bar) = faults.get_mut(fault) {
                        bar.to = self.of(*at);
                    }
                }
                _ => {}
            }
        }
        let mut faults: Vec<_> = faults.into_values().collect();
        faults.sort_by(|one, other| one.from.total_cmp(&other.from));
        faults
    }
}
