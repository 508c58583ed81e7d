//! Draws the table of `docs/internals/benchmarks.md` as a bar chart: `make bench BENCH=charts`.
//!
//! [`ratios`] parses the rows and draws one horizontal bar for each row with a ratio. It reads and writes no file.

use std::ops::Range;

use svg::Document;
use svg::node::element::{Element, Style};
use svg::node::{Node, Text};

use crate::Result;

/// The first line of the table that `rows` parses.
pub const HEADER: &str = "| work | link | ours | peer | theirs | ratio | goal | |";

const WIDTH: f64 = 1060.0;
/// The height of a bar with its distance to the next one.
const LANE: f64 = 21.0;
/// The height of the title and the legend.
const HEAD: f64 = 84.0;
/// The height of the axis with its numbers.
const FOOT: f64 = 34.0;
/// The width of the labels before the bars.
const LEFT: f64 = 255.0;
/// The width of the figures behind the longest bar.
const RIGHT: f64 = 290.0;
const MARGIN: f64 = 16.0;

#[derive(Debug, PartialEq)]
struct Row<'a> {
    label: String,
    peer: &'a str,
    /// The medians with their unit.
    ours: &'a str,
    theirs: &'a str,
    /// How many times better ours is; infinite if ours needs nothing.
    factor: f64,
}

/// Returns the chart of the table in `text` as SVG.
///
/// # Errors
///
/// No row has a ratio.
pub fn ratios(text: &str) -> Result<String> {
    let rows = rows(text);
    if rows.is_empty() {
        return Err(format!("no row with a ratio is under `{HEADER}`").into());
    }
    Ok(draw(&rows).to_string() + "\n")
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let table = text.lines().skip_while(|line| *line != HEADER);
    table.take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

/// `None` for a row without a ratio.
fn row(line: &str) -> Option<Row<'_>> {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [work, link, ours, peer, theirs, ratio, ..] = cells[..] else { return None };
    let (ours, theirs) = (ours.split(" (").next()?, theirs.split(" (").next()?);
    // The rounds' range follows the ratio.
    let ratio = ratio.split(" (").next()?;
    let (our_value, unit) = ours.split_once(' ')?;
    let (their_value, _) = theirs.split_once(' ')?;
    let number = |cell: &str| cell.parse::<f64>().ok();
    let (our_value, their_value) = number(our_value).zip(number(their_value))?;
    // A ratio that the table rounds to one digit, or to none, says less than the values.
    let ratio = match ratio.trim_start_matches(['0', '.']).len() {
        0 | 1 => number(ratio).map(|_| our_value / their_value)?,
        _ => number(ratio)?,
    };
    let factor = if unit == "/s" { ratio } else { ratio.recip() };
    let label = format!("{}, {link}, {peer}", work.trim_matches('`'));
    Some(Row { label, peer, ours, theirs, factor })
}

fn draw(rows: &[Row<'_>]) -> Document {
    let axis = axis(rows);
    let scale = (WIDTH - LEFT - RIGHT) / (axis.end / axis.start).ln();
    let x = |factor: f64| LEFT + scale * (factor.clamp(axis.start, axis.end) / axis.start).ln();
    let bottom = HEAD + rows.len() as f64 * LANE;
    let mut elements = head(rows);
    for tick in (0..).map(|power| 10_f64.powi(power)).take_while(|tick| *tick <= axis.end) {
        let class = if tick == 1.0 { "even" } else { "tick" };
        elements.push(rectangle(class, x(tick) - 0.5, HEAD, 1.0, bottom - HEAD));
        elements.push(text("mid", x(tick), bottom + 20.0, &format!("{tick} ×")));
    }
    for (row, lane) in rows.iter().zip(0..) {
        let top = HEAD + f64::from(lane) * LANE;
        let (from, to) = (x(row.factor.min(1.0)), x(row.factor.max(1.0)));
        // Pale, because this bar would have no end.
        let endless = if row.factor.is_finite() { "" } else { " endless" };
        let class = format!("{}{endless}", row.peer);
        elements.push(rectangle(&class, from, top + 3.0, to - from, LANE - 6.0));
        elements.push(text("end", LEFT - 8.0, top + 15.0, &row.label));
        let figures = format!("{} ({} against {})", times(row.factor), row.ours, row.theirs);
        elements.push(text("said", to + 7.0, top + 15.0, &figures));
    }
    let document = Document::new().set("viewBox", (0.0, 0.0, WIDTH, bottom + FOOT));
    elements.into_iter().fold(document.add(Style::new(STYLE)), Document::add)
}

/// Draws the page, the title and the peers' colours.
fn head(rows: &[Row<'_>]) -> Vec<Element> {
    let height = HEAD + rows.len() as f64 * LANE + FOOT;
    let how = "Faster, or with fewer trips or requests; ∞ where ours needs none. Left of 1 the peer is better. \
               At each bar: ours against theirs.";
    let mut elements = vec![
        rectangle("page", 0.0, 0.0, WIDTH, height),
        text("head", MARGIN, 24.0, "How many times better ours is than the peer"),
        text("", MARGIN, 46.0, how),
    ];
    for (place, peer) in (0..).zip(peers(rows)) {
        let left = MARGIN + f64::from(place) * 120.0;
        elements.push(rectangle(peer, left, 58.0, 12.0, 12.0));
        elements.push(text("", left + 18.0, 68.0, peer));
    }
    elements
}

fn rectangle(class: &str, x: f64, y: f64, width: f64, height: f64) -> Element {
    let mut rectangle = Element::new("rect");
    rectangle.assign("class", class);
    for (name, number) in [("x", x), ("y", y), ("width", width), ("height", height)] {
        rectangle.assign(name, (number * 10.0).round() / 10.0);
    }
    rectangle
}

fn text(class: &str, x: f64, y: f64, text: &str) -> Element {
    let mut element = Element::new("text");
    element.assign("class", class);
    element.assign("x", (x * 10.0).round() / 10.0);
    element.assign("y", y);
    element.append(Text::new(text));
    element
}

/// Each peer has one colour in all charts, by its name.
const STYLE: &str = r#"
text { font: 12px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328; }
.head { font-size: 15px; font-weight: 600; }
.mid { text-anchor: middle; }
.end { text-anchor: end; }
.said { stroke: #ffffff; stroke-width: 3; stroke-linejoin: round; paint-order: stroke; }
.page { fill: #ffffff; }
.tick { fill: #d1d9e0; }
.even { fill: #1f2328; }
.raw { fill: #818b98; }
.curator { fill: #1f6feb; }
.curator-each { fill: #8250df; }
.kazoo { fill: #d4a72c; }
.tokio { fill: #1a7f37; }
.endless { fill-opacity: 0.5; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.said { stroke: #0d1117; }
.page { fill: #0d1117; }
.tick { fill: #3d444d; }
.even { fill: #f0f6fc; }
}"#;

/// From a half, or less if a peer is better by more, to the power of ten that no finite bar passes.
fn axis(rows: &[Row<'_>]) -> Range<f64> {
    let factors = rows.iter().map(|row| row.factor);
    let factors = factors.filter(|factor| factor.is_finite() && *factor > 0.0);
    let (least, most) = factors.fold((0.5, 10.0), |(least, most): (f64, f64), factor| {
        (least.min(factor), most.max(factor))
    });
    least..10_f64.powf(most.log10().ceil())
}

fn peers<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut peers = Vec::new();
    for row in rows {
        if !peers.contains(&row.peer) {
            peers.push(row.peer);
        }
    }
    peers
}

fn times(factor: f64) -> String {
    let digits = if factor < 10.0 { 2 } else { 0 };
    if factor.is_finite() { format!("{factor:.digits$} ×") } else { "∞".to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp)] // the numbers are read from text

    use super::*;

    fn only(line: &str) -> Option<(String, f64)> {
        row(line).map(|row| (row.label, row.factor))
    }

    #[test]
    fn a_row_gives_how_many_times_better_ours_is() {
        let cycle = "| `read` | 8ms | 2.00 ms | curator | 8.00 ms | 0.250 (0.240..0.300) | - |  |";
        let expected = Row {
            label: "read, 8ms, curator".into(),
            peer: "curator",
            ours: "2.00 ms",
            theirs: "8.00 ms",
            factor: 4.0,
        };
        assert_eq!(row(cycle), Some(expected));
        let rate =
            "| `locks64` | direct | 300 /s | curator | 200 /s | 1.50 (1..2) | >=2x | **missed** |";
        assert_eq!(only(rate), Some(("locks64, direct, curator".into(), 1.5)));
        // Ours sends nothing. Ours sends little, and the ratio is that of the rounds, not of the rounded values.
        let none =
            "| `w` | counted | 0.00 writes | kazoo | 2.00 writes | 0.00 (0..0) | <=0 | met |";
        assert_eq!(only(none).map(|row| row.1), Some(f64::INFINITY));
        let little =
            "| `w` | counted | 0.02 writes (0..0) | kazoo | 8.00 writes (8..8) | 0.00 | - |  |";
        assert_eq!(only(little).map(|row| row.1.round()), Some(400.0));
        // The ratio is rounded to 0.01, which is 100 times.
        let small = "| `w` | direct | 0.01 ms (0..0) | kazoo | 2.68 ms (2..3) | 0.01 | - |  |";
        assert_eq!(only(small).map(|row| row.1.round()), Some(268.0));
        let little =
            "| `w` | counted | 0.02 writes | kazoo | 8.00 writes | 0.00373 (0..1) | - |  |";
        assert_eq!(only(little).map(|row| row.1.round()), Some(268.0));
        let missing = "| `w` | 8ms | 2.00 ms | kazoo | - | - | - |  |";
        assert_eq!(only(missing), None);
        assert_eq!(only(HEADER), None);
    }

    #[test]
    fn the_axis_ends_at_a_power_of_ten_and_begins_at_a_half_or_less() {
        let of = |factors: &[f64]| {
            let row = |factor: &f64| Row {
                label: String::new(),
                peer: "raw",
                ours: "",
                theirs: "",
                factor: *factor,
            };
            axis(&factors.iter().map(row).collect::<Vec<_>>())
        };
        assert_eq!(of(&[1.0, 0.9]), 0.5..10.0);
        assert_eq!(of(&[f64::INFINITY, 0.2, 1000.0, 0.0]), 0.2..1000.0);
    }

    #[test]
    fn the_page_has_a_table_and_the_chart_all_rows_of_it() {
        let page = include_str!("../../docs/internals/benchmarks.md");
        let (rows, svg) = (rows(page), ratios(page).unwrap());
        assert!(rows.len() > 30, "{} rows", rows.len());
        assert!(rows.iter().all(|row| svg.contains(&row.label) && svg.contains(row.theirs)));
        assert!(
            rows.iter().all(|row| STYLE.contains(&format!(".{} {{", row.peer))),
            "a peer has no colour"
        );
        assert!(svg.len() < 60_000, "{} bytes", svg.len());
        assert!(ratios("no table").is_err());
    }
}
