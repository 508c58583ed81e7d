//! Writes a chart as SVG. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::chart::{Chart, Fault, LaneState, Message, Span, StateKind, Turn};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 24.0;
const BAR: f64 = 18.0;
const LINE: f64 = 18.0;
/// The mean width of a letter.
const LETTER: f64 = 7.0;
const COLOURS: usize = 6;
/// The most lines for the names of faults.
const FAULT_LINES: usize = 8;

/// The drawing of a chart, from the top to the bottom.
pub(super) struct Drawing<'a> {
    chart: &'a Chart,
    paths: Vec<&'a str>,
    /// The upper edge of each lane; `None` if the lane is not drawn.
    tops: Vec<Option<f64>>,
    /// The edges of the lanes together.
    top: f64,
    bottom: f64,
    out: String,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(chart: &'a Chart) -> Self {
        let mut paths: Vec<&str> = chart.turns.iter().map(|turn| turn.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        let tops = vec![None; chart.lanes.len()];
        Self { chart, paths, tops, top: 0.0, bottom: 0.0, out: String::new() }
    }

    fn x(&self, at: u64) -> f64 {
        let window = self.chart.window;
        let part = |at: u64| at.saturating_sub(window.from) as f64;
        let whole = part(window.to).max(1.0);
        LEFT + (WIDTH - LEFT - RIGHT) * part(at.min(window.to)) / whole
    }

    pub(super) fn draw(mut self, title: Option<&str>) -> Result<String, fmt::Error> {
        let mut y = 14.0;
        if let Some(title) = title {
            y += 14.0;
            self.text("head", 16.0, y, title)?;
            y += 12.0;
        }
        y = self.verdict(y)?;
        y = self.fault_names(y)?;
        self.top = y;
        y = self.lanes(y)?;
        self.bottom = y;
        self.axis()?;
        self.fault_shades()?;
        self.states()?;
        self.messages()?;
        for place in 0..self.chart.turns.len() {
            self.turn(place)?;
        }
        self.state_labels()?;
        self.overlaps()?;
        let height = self.legend(self.bottom + 34.0)? + 12.0;
        let name = escaped(title.unwrap_or("a run in virtual time"));
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\">\n<title>{name}</title>\n{STYLE}\
             <rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{:.0}\" rx=\"8\"/>\n{}</svg>\n",
            WIDTH - 1.0,
            height - 1.0,
            self.out
        ))
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) -> fmt::Result {
        let text = escaped(text);
        writeln!(self.out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>")
    }

    /// A rectangle that says what it is.
    fn bar(&mut self, class: &str, span: Span, y: f64, height: f64, title: &str) -> fmt::Result {
        let x = self.x(span.from);
        let width = (self.x(span.to) - x).max(1.5);
        let title = escaped(title);
        writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\">\
             <title>{title}</title></rect>"
        )
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64), title: &str) -> fmt::Result {
        let title = match title {
            "" => String::new(),
            title => format!("<title>{}</title>", escaped(title)),
        };
        writeln!(
            self.out,
            "<path class=\"{class}\" d=\"M{:.1} {:.1} L{:.1} {:.1}\">{title}</path>",
            from.0, from.1, to.0, to.1
        )
    }

    /// The room for a text between two instants, in letters.
    fn letters(&self, span: Span) -> usize {
        ((self.x(span.to) - self.x(span.from) - 6.0) / LETTER).max(0.0) as usize
    }

    /// Writes a text in a bar, if there is room for it.
    fn label(&mut self, class: &str, span: Span, y: f64, text: &str) -> fmt::Result {
        if text.chars().count() > self.letters(span) {
            return Ok(());
        }
        let x = self.x(span.from.max(self.chart.window.from)) + 4.0;
        self.text(class, x, y + 13.5, text)
    }

    /// The verdict: the first mark. The later ones follow from it most often.
    fn verdict(&mut self, y: f64) -> Result<f64, fmt::Error> {
        let Some((at, text)) = self.chart.marks.first() else { return Ok(y) };
        let more = match self.chart.marks.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let text = format!("✕ {}: {text}{more}", seconds(*at));
        let most = ((WIDTH - 32.0) / LETTER) as usize;
        let cut: String = text.chars().take(most).collect();
        self.text("mark bold", 16.0, y + LINE, &cut)?;
        Ok(y + LINE + 8.0)
    }

    /// The names of the faults and of the pauses, in as many lines as they need.
    fn fault_names(&mut self, y: f64) -> Result<f64, fmt::Error> {
        let chart = self.chart;
        let mut ends: Vec<f64> = Vec::new();
        let mut faults: Vec<&Fault> = chart.faults.iter().collect();
        // The longer ones get the lines, if there are too many.
        faults.sort_by_key(|fault| Reverse(fault.span.to - fault.span.from));
        let mut left_out = 0;
        for Fault { span, name, lanes, is_pause } in faults {
            let class = if *is_pause { "paused" } else { "fault" };
            let whose: Vec<_> = lanes.iter().map(|lane| &*self.chart.lanes[*lane].name).collect();
            let name = match whose.is_empty() {
                true => name.clone(),
                false => format!("{}: {name}", whose.join(", ")),
            };
            let left = self.x(span.from);
            let span = Span { from: span.from.max(chart.window.from), ..*span };
            let width = name.chars().count() as f64 * LETTER + 10.0;
            let start = left.min(WIDTH - RIGHT - width).max(16.0);
            let free = ends.iter().position(|end| *end <= start);
            let line = free.unwrap_or(ends.len());
            if line == FAULT_LINES {
                left_out += 1;
                continue;
            }
            let end = self.x(span.to).max(start + width);
            match ends.get_mut(line) {
                Some(old) => *old = end,
                None => ends.push(end),
            }
            let top = y + line as f64 * (LINE + 2.0);
            let title = format!("{name}, {}", of(span));
            self.bar(class, span, top, LINE, &title)?;
            self.text("small", start + 4.0, top + 13.0, &name)?;
        }
        let mut y = y + ends.len() as f64 * (LINE + 2.0);
        if left_out > 0 {
            y += LINE;
            let text = format!("and {left_out} shorter faults, each named where it is shaded");
            self.text("small", 20.0, y - 4.0, &text)?;
        }
        Ok(y + 8.0)
    }

    /// The empty lanes: processes first.
    fn lanes(&mut self, mut y: f64) -> Result<f64, fmt::Error> {
        let chart = self.chart;
        for servers in [false, true] {
            for (place, lane) in chart.lanes.iter().enumerate() {
                if lane.is_server != servers || lane.rows == 0 {
                    continue;
                }
                let height = lane.rows as f64 * ROW + 2.0;
                self.tops[place] = Some(y);
                self.bar("lane", chart.window, y, height, &lane.name)?;
                self.text("name", LEFT - 10.0, y + height / 2.0 + 4.5, &lane.name)?;
                y += height + 6.0;
            }
            // Arrows need room.
            y += match (servers, chart.messages.is_empty()) {
                (true, _) => 0.0,
                (false, true) => 14.0,
                (false, false) => 44.0,
            };
        }
        Ok(y)
    }

    fn axis(&mut self) -> fmt::Result {
        let window = self.chart.window;
        let step = step_of(window.to - window.from);
        let first = window.from.next_multiple_of(step);
        for at in (first..=window.to).step_by(usize::try_from(step).unwrap_or(1)) {
            let x = self.x(at);
            self.line("tick", (x, self.top), (x, self.bottom + 4.0), "")?;
            let class = if x > WIDTH - 40.0 { "small end" } else { "small mid" };
            let x = if x > WIDTH - 40.0 { x + RIGHT - 6.0 } else { x };
            self.text(class, x, self.bottom + 18.0, &seconds(at))?;
        }
        let mark = self.chart.marks.first();
        if let Some((at, text)) = mark.filter(|(at, _)| (window.from..=window.to).contains(at)) {
            let x = self.x(*at);
            self.line("verdict", (x, self.top - 6.0), (x, self.bottom + 4.0), text)?;
        }
        Ok(())
    }

    fn height(&self, lane: usize) -> f64 {
        self.chart.lanes[lane].rows as f64 * ROW + 2.0
    }

    fn fault_shades(&mut self) -> fmt::Result {
        let chart = self.chart;
        for fault in chart.faults.iter().filter(|fault| !fault.is_pause) {
            for lane in &fault.lanes {
                if let Some(top) = self.tops[*lane] {
                    let title = format!("{}, {}", fault.name, of(fault.span));
                    self.bar("shade", fault.span, top, self.height(*lane), &title)?;
                }
            }
        }
        Ok(())
    }

    fn states(&mut self) -> fmt::Result {
        let chart = self.chart;
        for state in &chart.states {
            let Some(top) = self.tops[state.lane] else { continue };
            let height = self.height(state.lane);
            let title =
                format!("{}: {}, {}", chart.lanes[state.lane].name, state.text, of(state.span));
            let class = match state.kind {
                StateKind::Paused => "paused",
                StateKind::Leads => "leads",
                StateKind::Follows => "follows",
                StateKind::Elects => "elects",
                StateKind::Down => "down",
                StateKind::Killed | StateKind::Expired => "lost",
            };
            let visible = Span { from: state.span.from.max(chart.window.from), ..state.span };
            self.bar(class, visible, top, height, &title)?;
        }
        Ok(())
    }

    /// The names of states, each up to the next moment of its lane. Pauses of processes are named above, with the faults.
    fn state_labels(&mut self) -> fmt::Result {
        let chart = self.chart;
        let is_moment =
            |state: &LaneState| matches!(state.kind, StateKind::Killed | StateKind::Expired);
        for (place, state) in chart.states.iter().enumerate() {
            let Some(top) = self.tops[state.lane] else { continue };
            if state.kind == StateKind::Paused && !chart.lanes[state.lane].is_server {
                continue;
            }
            let from = state.span.from.max(chart.window.from);
            let class = if is_moment(state) { "small mark" } else { "small" };
            let end = if is_moment(state) { chart.window.to } else { state.span.to };
            let mut later = chart.states[place + 1..].iter();
            let next = later.find(|other| other.lane == state.lane && is_moment(other));
            let to = next.map_or(end, |next| next.span.from.clamp(from, end));
            let room = Span { from, to };
            if is_moment(state) && state.text.chars().count() > self.letters(room) {
                // On the other side of it.
                self.text("small mark end", self.x(from) - 4.0, top + 16.5, &state.text)?;
            } else {
                self.label(class, room, top + 3.0, &state.text)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, place: usize) -> fmt::Result {
        let turn: &Turn = &self.chart.turns[place];
        let Some(top) = self.tops[turn.lane] else { return Ok(()) };
        let y = top + 4.0 + turn.row as f64 * ROW;
        let colour = self.paths.iter().position(|path| *path == turn.path).unwrap_or(0) % COLOURS;
        let name = &self.chart.lanes[turn.lane].name;
        let path = &turn.path;
        if let Some(waits) = turn.waits {
            let title = format!("{name} waits for {path}, {}: {}", of(waits), turn.outcome);
            let class = format!("wait p{colour}");
            self.bar(&class, waits, y + 5.0, BAR - 10.0, &title)?;
        }
        let Some(holds) = turn.holds else { return Ok(()) };
        let end = turn.end.as_deref().unwrap_or("still held");
        let title = format!("{name} holds {path}, token {}, {}: {end}", turn.token, of(holds));
        self.bar(&format!("p{colour}"), holds, y, BAR, &title)?;
        let token = format!("token {}", turn.token);
        let label = if token.len() > self.letters(holds) { turn.token.to_string() } else { token };
        self.label("on", holds, y, &label)?;
        if turn.is_lost && holds.to >= self.chart.window.from {
            let x = self.x(holds.to);
            self.line("loss", (x, y - 2.0), (x, y + BAR + 2.0), &format!("{name}: {path} {end}"))?;
            let next = self.next_in_row(turn, holds.to);
            let room = Span { from: holds.to, to: next };
            let text = if end.len() + 1 > self.letters(room) { "lost" } else { end };
            self.label("small mark", room, y, text)?;
        }
        Ok(())
    }

    /// The begin of the next turn in the row.
    fn next_in_row(&self, turn: &Turn, after: u64) -> u64 {
        let begins = |other: &Turn| other.waits.or(other.holds).map(|span| span.from);
        let others = self.chart.turns.iter();
        let others = others.filter(|other| (other.lane, other.row) == (turn.lane, turn.row));
        let next = others.filter_map(begins).filter(|from| *from >= after).min();
        next.unwrap_or(self.chart.window.to)
    }

    fn messages(&mut self) -> fmt::Result {
        let chart = self.chart;
        let mut named = BTreeSet::new();
        for message in &chart.messages {
            let Message { from, to, span, name, is_lost, .. } = message;
            let Some((from_top, to_top)) = self.tops[*from].zip(self.tops[*to]) else { continue };
            // An arrow joins the nearer edges of its lanes.
            let downwards = from_top < to_top;
            let leaves = if downwards { from_top + self.height(*from) } else { from_top };
            let arrives = if downwards { to_top } else { to_top + self.height(*to) };
            let ends = ((self.x(span.from), leaves), (self.x(span.to), arrives));
            let title = format!("{name}, {}", of(*span));
            let class = if *is_lost { "arrow gone" } else { "arrow" };
            self.line(class, ends.0, ends.1, &title)?;
            // Two events of one change, and requests in one packet, are named once.
            if named.insert((from, span.from, name)) {
                self.message_name(message, ends)?;
            }
        }
        Ok(())
    }

    /// Names a request or an event at the server's end of its arrow, if the arrow slopes and so has room.
    fn message_name(
        &mut self,
        message: &Message,
        (leaves, arrives): ((f64, f64), (f64, f64)),
    ) -> fmt::Result {
        const ABOVE: f64 = 22.0;
        let is_request = self.chart.lanes[message.to].is_server;
        let slope = (arrives.0 - leaves.0) / (arrives.1 - leaves.1).abs().max(1.0);
        if slope < 0.2 || message.is_sign_of_life || !is_request && message.name != "Event" {
            return Ok(());
        }
        if is_request {
            let x = arrives.0 - slope * ABOVE - 8.0;
            self.text("small end", x, arrives.1 - ABOVE + 4.0, &message.name)
        } else {
            let x = leaves.0 + slope * ABOVE + 22.0;
            self.text("small", x, leaves.1 - ABOVE + 4.0, &message.name)
        }
    }

    /// Joins two holds that must not last at the same time.
    fn overlaps(&mut self) -> fmt::Result {
        let chart = self.chart;
        for overlap in &chart.overlaps {
            let ends = [overlap.turns.0, overlap.turns.1].map(|place| {
                let turn = &chart.turns[place];
                self.tops[turn.lane].map(|top| top + 4.0 + turn.row as f64 * ROW)
            });
            let [Some(one), Some(other)] = ends else { continue };
            let path = &chart.turns[overlap.turns.0].path;
            let length = overlap.span.to - overlap.span.from;
            let text = format!("two hold {path} at once, for {length} ms");
            let top = one.min(other) - 3.0;
            let height = (one - other).abs() + BAR + 6.0;
            self.bar("overlap", overlap.span, top, height, &text)?;
            let x = self.x(overlap.span.from);
            let is_right = x > WIDTH * 0.6;
            let class = if is_right { "mark bold end" } else { "mark bold" };
            let x = if is_right { x - 4.0 } else { self.x(overlap.span.to) + 4.0 };
            self.text(class, x, top + height / 2.0 + 4.0, &text)?;
        }
        Ok(())
    }

    /// The colours of the paths, and what else there is in the picture.
    fn legend(&mut self, mut y: f64) -> Result<f64, fmt::Error> {
        let chart = self.chart;
        let mut keys: Vec<(String, String)> = Vec::new();
        for (place, path) in self.paths.iter().enumerate() {
            keys.push((format!("p{}", place % COLOURS), format!("holds {path}")));
        }
        if chart.turns.iter().any(|turn| turn.waits.is_some()) {
            keys.push(("p0 wait".to_owned(), "waits".to_owned()));
        }
        if chart.faults.iter().any(|fault| !fault.is_pause) {
            keys.push(("fault".to_owned(), "fault".to_owned()));
        }
        if chart.turns.iter().any(|turn| turn.is_lost) {
            keys.push(("lost".to_owned(), "lost".to_owned()));
        }
        if !chart.overlaps.is_empty() {
            keys.push(("overlap".to_owned(), "two hold it at once".to_owned()));
        }
        let mut x = LEFT;
        for (class, text) in keys {
            let width = text.chars().count() as f64 * LETTER + 36.0;
            if x + width > WIDTH - RIGHT && x > LEFT {
                x = LEFT;
                y += LINE;
            }
            let top = y - 10.0;
            writeln!(
                self.out,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"12\" height=\"12\" rx=\"2\"/>"
            )?;
            self.text("small", x + 17.0, y, &text)?;
            x += width;
        }
        Ok(y)
    }
}

/// A step of the axis that makes at most ten.
fn step_of(length: u64) -> u64 {
    let mut step = 1;
    loop {
        for factor in [1, 2, 5] {
            if length / (step * factor) <= 10 {
                return step * factor;
            }
        }
        step *= 10;
    }
}

fn seconds(at: u64) -> String {
    let text = format!("{}.{:03}", at / 1000, at % 1000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

fn of(span: Span) -> String {
    match span.to - span.from {
        0 => format!("at {}", seconds(span.from)),
        length => format!("{} to {}, {}", seconds(span.from), seconds(span.to), seconds(length)),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Colours are written out instead of named by variables, which not every viewer knows.
const STYLE: &str = r#"<style>
text { font: 12px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328; }
.head { font-size: 15px; font-weight: 600; }
.bold { font-weight: 600; }
.name { font-weight: 600; text-anchor: end; }
.small { font-size: 11.5px; }
.mid { text-anchor: middle; }
.end { text-anchor: end; }
.on { fill: #ffffff; }
.mark { fill: #cf222e; stroke: #ffffff; stroke-width: 3; stroke-linejoin: round; paint-order: stroke; }
.page { fill: #ffffff; stroke: #d1d9e0; }
.lane { fill: #f6f8fa; }
.tick { stroke: #d1d9e0; }
.p0 { fill: #1f6feb; } .p1 { fill: #1a7f37; } .p2 { fill: #8250df; } .p3 { fill: #9a6700; } .p4 { fill: #0e7490; } .p5 { fill: #bf3989; }
.wait { fill-opacity: 0.35; }
.fault { fill: #d4a72c; fill-opacity: 0.45; }
.shade { fill: #d4a72c; fill-opacity: 0.22; }
.paused { fill: #6e7781; fill-opacity: 0.35; }
.leads { fill: #54aeff; fill-opacity: 0.45; }
.follows { fill: #54aeff; fill-opacity: 0.15; }
.elects { fill: #d4a72c; fill-opacity: 0.6; }
.down { fill: #6e7781; fill-opacity: 0.6; }
.lost { fill: #cf222e; }
.loss { stroke: #cf222e; stroke-width: 3; }
.verdict { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 4; }
.arrow { stroke: #818b98; stroke-width: 0.8; marker-end: url(#point); }
.gone { stroke: #cf222e; stroke-dasharray: 3 3; marker-end: none; }
.point { fill: #818b98; }
.overlap { fill: #cf222e; fill-opacity: 0.3; stroke: #cf222e; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.mark { fill: #ff7b72; stroke: #0d1117; }
.page { fill: #0d1117; stroke: #3d444d; }
.lane { fill: #161b22; }
.tick { stroke: #3d444d; }
.arrow { stroke: #9198a1; } .point { fill: #9198a1; }
.lost { fill: #ff7b72; } .loss, .verdict, .gone, .overlap { stroke: #ff7b72; }
}
</style>
<defs><marker id="point" markerUnits="userSpaceOnUse" markerWidth="6" markerHeight="5" refX="5.5" refY="2.5" orient="auto"><path class="point" d="M0 0 L6 2.5 L0 5 Z"/></marker></defs>
"#;
