//! Draws a recording as SVG: lanes, whose rows have bars. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use svg::Document;
use svg::node::element::{Element, Style};
use svg::node::{Blob, Node, Text};

use super::op::Operation;
use super::recording::{Message, Overlap, Place, Recording, Span, Turn};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 32.0;
const MARGIN: f64 = 16.0;
const ROW: f64 = 24.0;
const BAR: f64 = 18.0;
/// The mean width of a letter.
const LETTER: f64 = 7.0;
const COLOURS: usize = 6;

/// Something that lasts or happens.
struct Bar {
    class: String,
    height: f64,
    span: Span,
    title: String,
    /// The texts for the bar, the longest first. The first one that fits is written.
    labels: Vec<String>,
}

impl Bar {
    fn is_hold(&self) -> bool {
        self.class.starts_with("hold")
    }

    fn is_moment(&self) -> bool {
        self.span.from == self.span.to
    }
}

#[derive(Default)]
struct Row {
    task: String,
    bars: Vec<Bar>,
}

#[derive(Default)]
struct Lane {
    top: f64,
    rows: Vec<Row>,
}

impl Lane {
    /// Puts bars in the row of their task, or in the first that is free. Returns the row.
    fn add(&mut self, task: &str, bars: Vec<Bar>) -> usize {
        let from = bars.first().map_or(0, |bar| bar.span.from);
        let is_free = |row: &Row| row.bars.last().is_none_or(|last| last.span.to <= from);
        let own = self.rows.iter().position(|row| row.task == task && is_free(row));
        let row = own.or_else(|| self.rows.iter().position(is_free)).unwrap_or_else(|| {
            self.rows.push(Row::default());
            self.rows.len() - 1
        });
        task.clone_into(&mut self.rows[row].task);
        self.rows[row].bars.extend(bars);
        row
    }

    fn height(&self) -> f64 {
        self.rows.len() as f64 * ROW + 2.0
    }

    fn middle(&self, row: usize) -> f64 {
        self.top + row as f64 * ROW + ROW / 2.0 + 1.0
    }
}

/// The elements that are drawn, from the top to `y`.
struct Canvas {
    window: Span,
    y: f64,
    elements: Vec<Element>,
}

impl Canvas {
    fn x(&self, at: u64) -> f64 {
        let part = at.clamp(self.window.from, self.window.to) - self.window.from;
        let whole = (self.window.to - self.window.from).max(1);
        LEFT + (WIDTH - LEFT - RIGHT) * part as f64 / whole as f64
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let mut element = element("text", class, &[("x", x), ("y", y)]);
        element.append(Text::new(text));
        self.elements.push(element);
    }

    /// A rectangle that says what it is.
    fn rectangle(&mut self, class: &str, span: Span, y: f64, height: f64, title: &str) {
        let x = self.x(span.from);
        let width = (self.x(span.to) - x).max(2.0);
        let size = [("x", x), ("y", y), ("width", width), ("height", height)];
        self.elements.push(titled(element("rect", class, &size), title));
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64), title: &str) {
        let ends = [("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)];
        self.elements.push(titled(element("line", class, &ends), title));
    }

    /// Writes the first label of a bar for which there is room: in a hold, and from the begin of anything else up to the next bar.
    fn label(&mut self, bar: &Bar, next: u64, y: f64) {
        let Span { from, to } = bar.span;
        if to < self.window.from {
            return;
        }
        let end = if bar.is_hold() { to } else { next };
        let room = self.x(end) - self.x(from) - 6.0;
        let class = match &*bar.class {
            "lost" => "small mark",
            _ if bar.is_hold() => "on",
            _ => "small",
        };
        let label = bar.labels.iter().find(|label| width_of(label) <= room);
        match (label, bar.labels.first()) {
            (Some(label), _) => self.text(class, self.x(from) + 4.0, y, label),
            // On the other side.
            (None, Some(label)) if bar.is_moment() => {
                self.text(&format!("{class} end"), self.x(from) - 4.0, y, label);
            }
            _ => {}
        }
    }
}

pub(super) struct Drawing<'a> {
    run: &'a Recording,
    lanes: BTreeMap<Place, Lane>,
    /// The row of each turn in its lane.
    rows: Vec<usize>,
    messages: Vec<Message>,
    /// A colour stands for a path, or for the parent of paths that are too many.
    colours: BTreeSet<&'a str>,
    has_many_paths: bool,
    canvas: Canvas,
}

impl<'a> Drawing<'a> {
    /// Lays out a recording that is cut to the window.
    pub(super) fn new(run: &'a Recording, window: Span) -> Self {
        let paths: BTreeSet<&str> = run.turns.iter().map(|turn| &*turn.path).collect();
        let mut drawing = Self {
            run,
            lanes: BTreeMap::new(),
            rows: Vec::new(),
            messages: Vec::new(),
            has_many_paths: paths.len() > COLOURS,
            colours: BTreeSet::new(),
            canvas: Canvas { window, y: MARGIN, elements: Vec::new() },
        };
        drawing.colours = paths.into_iter().map(|path| drawing.colour_key(path)).collect();
        for state in &run.states {
            for place in run.lanes(state.place) {
                let bar = Bar {
                    class: state.class.to_owned(),
                    height: BAR,
                    span: state.span,
                    title: format!("{}: {}, {}", run.name(place), state.text, length(state.span)),
                    labels: vec![state.text.clone()],
                };
                drawing.lanes.entry(place).or_default().add("", vec![bar]);
            }
        }
        for turn in &run.turns {
            let bars = drawing.bars_of(turn);
            let lane = drawing.lanes.entry(run.lane(turn.place)).or_default();
            drawing.rows.push(lane.add(&turn.task, bars));
        }
        drawing.messages = run.messages_between(|place| drawing.lanes.contains_key(&place));
        drawing
    }

    fn colour_key<'b>(&self, path: &'b str) -> &'b str {
        match path.rsplit_once('/') {
            Some((parent, _)) if self.has_many_paths => parent,
            _ => path,
        }
    }

    /// The bars of a wait, of a hold, and of its loss.
    fn bars_of(&self, turn: &Turn) -> Vec<Bar> {
        let (name, path) = (self.run.name(turn.place), &turn.path);
        let key = self.colour_key(path);
        let colour = self.colours.iter().position(|known| *known == key).unwrap_or(0) % COLOURS;
        let mut bars = Vec::new();
        if let Some(span) = turn.wait {
            let outcome = turn.outcome.unwrap_or("still waits");
            bars.push(Bar {
                class: format!("wait p{colour}"),
                height: BAR - 10.0,
                span,
                title: format!("{name} waits for {path}, {}: {outcome}", length(span)),
                labels: Vec::new(),
            });
        }
        if let Some(hold) = &turn.hold {
            let (span, token) = (hold.span, hold.facts.token);
            let end = hold.end.as_deref().unwrap_or("still held");
            let title = format!("{name} holds {path}, token {token}, {}: {end}", length(span));
            // A token is a zxid: an epoch, and the number of a transaction.
            let token = format!("{}.{}", token >> 32, token & 0xffff_ffff);
            let labels = match path.rsplit('/').next() {
                Some(last) if self.has_many_paths => {
                    vec![format!("{last}, token {token}"), last.to_owned()]
                }
                _ => vec![format!("token {token}"), token],
            };
            bars.push(Bar { class: format!("hold p{colour}"), height: BAR, span, title, labels });
            if hold.is_lost {
                bars.push(Bar {
                    class: "lost".to_owned(),
                    height: BAR + 4.0,
                    span: Span { from: span.to, to: span.to },
                    title: format!("{name}: {path} {end}"),
                    labels: vec![end.to_owned(), "lost".to_owned()],
                });
            }
        }
        bars
    }

    pub(super) fn draw(mut self, title: Option<&str>) -> Document {
        if let Some(title) = title {
            self.canvas.text("head", MARGIN, self.canvas.y + 12.0, title);
            self.canvas.y += 24.0;
        }
        self.verdict();
        self.place_lanes();
        self.empty_lanes();
        self.axis();
        self.arrows();
        self.bars();
        self.message_names();
        self.overlaps();
        self.legend();
        let Canvas { y, elements, .. } = self.canvas;
        let page = [("x", 0.5), ("y", 0.5), ("width", WIDTH - 1.0), ("height", y - 1.0)];
        let document = Document::new()
            .set("viewBox", (0.0, 0.0, WIDTH, y))
            .add(titled(Element::new("title"), title.unwrap_or("a run in virtual time")))
            .add(Style::new(STYLE))
            .add(Blob::new(POINT))
            .add(element("rect", "page", &page));
        elements.into_iter().fold(document, Document::add)
    }

    /// The first mark. The later ones follow from it most often.
    fn verdict(&mut self) {
        let Some((at, text)) = self.run.marks.first() else { return };
        let more = match self.run.marks.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let text = format!("✕ {}: {text}{more}", seconds(*at));
        let most = ((WIDTH - 2.0 * MARGIN) / LETTER) as usize;
        let cut: String = text.chars().take(most).collect();
        self.canvas.text("mark bold", MARGIN, self.canvas.y + 14.0, &cut);
        self.canvas.y += 26.0;
    }

    fn place_lanes(&mut self) {
        let y = &mut self.canvas.y;
        for (place, lane) in &mut self.lanes {
            if *place == Place::Server(0) {
                // Arrows need room.
                *y += if self.messages.is_empty() { 14.0 } else { 44.0 };
            }
            lane.top = *y;
            *y += lane.height() + 6.0;
        }
    }

    fn empty_lanes(&mut self) {
        for (place, lane) in &self.lanes {
            let name = self.run.name(*place);
            let canvas = &mut self.canvas;
            canvas.rectangle("lane", canvas.window, lane.top, lane.height(), &name);
            canvas.text("bold end", LEFT - 10.0, lane.top + lane.height() / 2.0 + 4.5, &name);
        }
    }

    fn axis(&mut self) {
        let canvas = &mut self.canvas;
        let window = canvas.window;
        let bottom = canvas.y;
        let top = self.lanes.values().next().map_or(bottom, |lane| lane.top);
        let step = step_of(window.to - window.from);
        let first = window.from.next_multiple_of(step);
        for at in (first..=window.to).step_by(usize::try_from(step).unwrap_or(1)) {
            let x = canvas.x(at);
            canvas.line("tick", (x, top), (x, bottom + 4.0), "");
            canvas.text("small mid", x, bottom + 18.0, &seconds(at));
        }
        if let Some((at, text)) = self.run.marks.first()
            && (window.from..=window.to).contains(at)
        {
            let x = canvas.x(*at);
            canvas.line("verdict", (x, top - 6.0), (x, bottom + 4.0), text);
        }
        canvas.y += 38.0;
    }

    fn bars(&mut self) {
        let canvas = &mut self.canvas;
        for lane in self.lanes.values() {
            for (nth, row) in lane.rows.iter().enumerate() {
                for (place, bar) in row.bars.iter().enumerate() {
                    let top = lane.middle(nth) - bar.height / 2.0;
                    // No arrow shows through a bar.
                    canvas.rectangle("lane", bar.span, top, bar.height, "");
                    canvas.rectangle(&bar.class, bar.span, top, bar.height, &bar.title);
                    let next = row.bars.get(place + 1).map(|next| next.span.from);
                    let next = next.unwrap_or(canvas.window.to);
                    canvas.label(bar, next, lane.middle(nth) + 4.5);
                }
            }
        }
    }

    /// The ends of an arrow, which joins the nearer edges of its lanes.
    fn ends_of(&self, message: &Message) -> ((f64, f64), (f64, f64)) {
        let (from, to) = (&self.lanes[&message.from], &self.lanes[&message.to]);
        let is_down = from.top < to.top;
        let leaves = if is_down { from.top + from.height() } else { from.top };
        let arrives = if is_down { to.top } else { to.top + to.height() };
        let Span { from, to } = message.span;
        ((self.canvas.x(from), leaves), (self.canvas.x(to), arrives))
    }

    fn arrows(&mut self) {
        for message in &self.messages {
            let (from, to) = self.ends_of(message);
            let class = if message.is_lost { "arrow gone" } else { "arrow" };
            let title = format!("{}, {}", message.name(), length(message.span));
            self.canvas.line(class, from, to, &title);
        }
    }

    /// Names requests and events at the server's end of their arrows, if an arrow slopes and so has room. Two events of one change,
    /// and requests in one packet, are named once.
    fn message_names(&mut self) {
        const ABOVE: f64 = 22.0;
        let mut named = BTreeSet::new();
        for message in &self.messages {
            let (from, to) = self.ends_of(message);
            let name = message.name();
            let slope = (to.0 - from.0) / (to.1 - from.1).abs();
            let key = (message.from, message.span.from, name.clone());
            if slope < 0.2 || message.is_sign_of_life() || !named.insert(key) {
                continue;
            }
            if matches!(message.to, Place::Server(_)) {
                let x = to.0 - slope * ABOVE - 8.0;
                self.canvas.text("small said end", x, to.1 - ABOVE + 4.0, &name);
            } else if message.operation == Some(Operation::Event) {
                let x = from.0 + slope * ABOVE + 22.0;
                self.canvas.text("small said", x, from.1 - ABOVE + 4.0, &name);
            }
        }
    }

    /// Joins two holds that must not last at the same time.
    fn overlaps(&mut self) {
        for Overlap { turns: (one, other), span } in self.run.overlaps(self.canvas.window) {
            let path = &self.run.turns[one].path;
            let text = format!("two hold {path} at once, for {} ms", span.to - span.from);
            let middles = [one, other].map(|nth| {
                let place = self.run.lane(self.run.turns[nth].place);
                self.lanes[&place].middle(self.rows[nth])
            });
            let [one, other] = middles;
            let height = (one - other).abs() + BAR + 6.0;
            let canvas = &mut self.canvas;
            let top = one.min(other) - BAR / 2.0 - 3.0;
            canvas.rectangle("overlap", span, top, height, &text);
            let y = (one + other) / 2.0 + 4.0;
            if canvas.x(span.from) > WIDTH * 0.6 {
                canvas.text("mark bold end", canvas.x(span.from) - 4.0, y, &text);
            } else {
                canvas.text("mark bold", canvas.x(span.to) + 4.0, y, &text);
            }
        }
    }

    fn legend(&mut self) {
        let holds = self.colours.iter().enumerate();
        let holds = holds.map(|(nth, key)| (format!("p{}", nth % COLOURS), format!("holds {key}")));
        let waits = ("wait p0".to_owned(), "waits".to_owned());
        let has_waits = self.run.turns.iter().any(|turn| turn.wait.is_some());
        let canvas = &mut self.canvas;
        let mut x = LEFT;
        for (class, text) in holds.chain(has_waits.then_some(waits)) {
            let width = width_of(&text) + 36.0;
            if x + width > WIDTH - RIGHT && x > LEFT {
                x = LEFT;
                canvas.y += BAR;
            }
            let size = [("x", x), ("y", canvas.y - 10.0), ("width", 12.0), ("height", 12.0)];
            canvas.elements.push(element("rect", &class, &size));
            canvas.text("small", x + 17.0, canvas.y, &text);
            x += width;
        }
        canvas.y += MARGIN;
    }
}

/// A step of the axis that makes at most ten.
fn step_of(length: u64) -> u64 {
    let powers = (0..).map(|power| 10_u64.pow(power));
    let mut steps = powers.flat_map(|power| [power, 2 * power, 5 * power]);
    steps.find(|step| length / step <= 10).unwrap_or(length)
}

fn seconds(at: u64) -> String {
    format!("{} s", at as f64 / 1000.0)
}

fn length(span: Span) -> String {
    match span.to - span.from {
        0 => format!("at {}", seconds(span.from)),
        length => format!("{} to {}, {}", seconds(span.from), seconds(span.to), seconds(length)),
    }
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// An element whose attributes are numbers of pixels.
fn element(name: &str, class: &str, numbers: &[(&str, f64)]) -> Element {
    let mut element = Element::new(name);
    element.assign("class", class);
    for (name, number) in numbers {
        element.assign(*name, (number * 10.0).round() / 10.0);
    }
    element
}

/// Adds the text that a browser shows when the mouse rests on the element.
fn titled(mut element: Element, title: &str) -> Element {
    if !title.is_empty() {
        let mut text = Element::new("title");
        text.append(Text::new(title));
        element.append(text);
    }
    element
}

/// Colours are written out instead of named by variables, which not every viewer knows.
const STYLE: &str = r#"
text { font: 12px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328; }
.head { font-size: 15px; font-weight: 600; }
.bold { font-weight: 600; }
.small { font-size: 11.5px; }
.mid { text-anchor: middle; }
.end { text-anchor: end; }
.on { fill: #ffffff; }
.mark, .said { stroke: #ffffff; stroke-width: 3; stroke-linejoin: round; paint-order: stroke; }
.mark { fill: #cf222e; }
.page { fill: #ffffff; stroke: #d1d9e0; }
.lane { fill: #f6f8fa; }
.tick { stroke: #d1d9e0; }
.p0 { fill: #1f6feb; } .p1 { fill: #1a7f37; } .p2 { fill: #8250df; } .p3 { fill: #9a6700; } .p4 { fill: #0e7490; } .p5 { fill: #bf3989; }
.wait { fill-opacity: 0.35; }
.fault, .elects { fill: #d4a72c; fill-opacity: 0.45; }
.paused, .down { fill: #6e7781; fill-opacity: 0.45; }
.leads { fill: #54aeff; fill-opacity: 0.45; }
.follows { fill: #54aeff; fill-opacity: 0.15; }
.lost { fill: #cf222e; }
.verdict { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 4; }
.arrow { stroke: #818b98; stroke-width: 0.8; marker-end: url(#point); }
.gone { stroke: #cf222e; stroke-dasharray: 3 3; marker-end: none; }
.point { fill: #818b98; }
.overlap { fill: #cf222e; fill-opacity: 0.3; stroke: #cf222e; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.mark, .said { stroke: #0d1117; }
.mark, .lost { fill: #ff7b72; }
.page { fill: #0d1117; stroke: #3d444d; }
.lane { fill: #161b22; }
.tick { stroke: #3d444d; }
.verdict, .gone, .overlap { stroke: #ff7b72; }
}"#;
/// The head of an arrow.
const POINT: &str = r#"<defs><marker id="point" markerUnits="userSpaceOnUse" markerWidth="6" markerHeight="5" refX="5.5" refY="2.5" orient="auto"><path class="point" d="M0 0 L6 2.5 L0 5 Z"/></marker></defs>"#;
