//! A picture of one work: a row for each peer, with its rounds, their median and their spread.

use std::fmt::Write;

use crate::comparison::{Comparison, Measured, figure};
use crate::crew::Peer;
use crate::page::escape;
use crate::statistics::Summary;
use crate::works::{Goal, Kind};

/// In the units of the picture, which is scaled to the page.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 100.0;
/// For the median, in figures.
const RIGHT: f64 = 70.0;
const ROW: f64 = 30.0;
const AXIS: f64 = 24.0;

/// With its heading and the goals.
pub(crate) fn plot(measured: &Measured) -> String {
    let work = measured.work;
    let unit = work.kind.unit();
    let better = if matches!(work.kind, Kind::Rate) { "more is better" } else { "less is better" };
    let goals: Vec<_> = measured.comparisons().filter(|one| one.goal.is_some()).collect();
    let heading = format!("{}, {}", work.name, work.link);
    let what = format!("{}; {unit}, {better}", work.what);
    let said: String = goals.iter().map(said).collect();
    format!(
        "<section><h2>{}</h2><p class=\"quiet\">{}</p>{}{said}</section>",
        escape(&heading),
        escape(&what),
        picture(measured, &goals),
    )
}

fn said(comparison: &Comparison) -> String {
    let (Some(goal), verdict) = (comparison.goal, comparison.verdict()) else {
        return String::new();
    };
    let beside = match goal {
        Goal::Times(_) | Goal::AtLeastTimes(_) => format!(" {}", comparison.peer),
        Goal::AtMost(_) | Goal::WholeTrips(_) => String::new(),
    };
    let goal = escape(&format!("{goal}{beside}"));
    format!("<p>goal {goal}: <span class=\"{verdict}\">{verdict}</span></p>")
}

fn picture(measured: &Measured, goals: &[Comparison]) -> String {
    let rows: Vec<_> = measured
        .work
        .everybody()
        .filter_map(|peer| Some((peer, measured.summary(peer)?, measured.rounds.get(&peer)?)))
        .collect();
    let marks: Vec<_> = goals.iter().filter_map(threshold).collect();
    let values = rows.iter().map(|(_, summary, _)| summary.most).chain(marks.iter().copied());
    let most = values.fold(0.0, f64::max);
    let step = step(most);
    let scale = (WIDTH - LEFT - RIGHT) / (most / step).ceil().max(1.0) / step;
    let x = |value: f64| LEFT + value * scale;
    let bottom = rows.len() as f64 * ROW;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        bottom + AXIS,
        escape(measured.work.what)
    );
    let ticks = (0_u32..).map(|tick| f64::from(tick) * step);
    for tick in ticks.take_while(|tick| *tick <= most + step * 0.999) {
        let at = x(tick);
        let label = if tick == 0.0 { "0".to_owned() } else { figure(tick) };
        let (end, below) = (bottom + 4.0, bottom + 18.0);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{end}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>"
        );
    }
    for (index, (peer, summary, rounds)) in rows.iter().enumerate() {
        let middle = (index as f64 + 0.5) * ROW;
        svg += &row(*peer, *summary, rounds, middle, &x);
        for mark in marks.iter().filter(|_| *peer == Peer::Ours) {
            let (at, top, end) = (x(*mark), middle - 13.0, middle + 13.0);
            let _ = write!(
                svg,
                "<line class=\"goal\" x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{end}\">\
                 <title>goal: {}</title></line>",
                figure(*mark)
            );
        }
    }
    svg + "</svg>"
}

/// Where our figure must get to.
fn threshold(comparison: &Comparison) -> Option<f64> {
    let theirs = comparison.theirs.map(|theirs| theirs.median);
    match comparison.goal? {
        Goal::Times(times) | Goal::AtLeastTimes(times) => Some(times * theirs?),
        Goal::AtMost(most) => Some(most),
        Goal::WholeTrips(most) => Some(most * 1.05),
    }
}

fn row(
    peer: Peer,
    summary: Summary,
    rounds: &[f64],
    middle: f64,
    x: &impl Fn(f64) -> f64,
) -> String {
    let class = if peer == Peer::Ours { "ours" } else { "theirs" };
    let [least, median, most] = [summary.least, summary.median, summary.most].map(x);
    let (label, name) = (figure(summary.median), peer.to_string());
    let (base, top, bottom) = (middle + 4.5, middle - 9.0, middle + 9.0);
    let (end_top, end_bottom) = (middle - 4.0, middle + 4.0);
    let mut row = format!(
        "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>\
         <path class=\"{class} whisker\" fill=\"none\" d=\"M{least:.1} {middle}H{most:.1}\
         M{least:.1} {end_top}V{end_bottom}M{most:.1} {end_top}V{end_bottom}\"/>\
         <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{label}</text>",
        LEFT - 10.0,
        WIDTH - 10.0,
    );
    for round in rounds {
        let at = x(*round);
        let _ = write!(
            row,
            "<circle class=\"{class} round\" cx=\"{at:.1}\" cy=\"{middle}\" r=\"3.5\"/>"
        );
    }
    let _ = write!(
        row,
        "<line class=\"{class} median\" x1=\"{median:.1}\" y1=\"{top}\" x2=\"{median:.1}\" y2=\"{bottom}\">\
         <title>{name}: median {label}, {} to {}</title></line>",
        figure(summary.least),
        figure(summary.most),
    );
    row
}

/// A round number, of which about five fit.
fn step(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough);
    digit.unwrap_or(10.0) * power
}
