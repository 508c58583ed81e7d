//! Draws the table of `docs/internals/benchmarks.md` as a bar chart: `make bench BENCH=charts`.
//!
//! [`ratios`] parses the rows and draws one horizontal bar for each row with a ratio. It reads and writes no file.
//! Plotters has no fonts here, so every text has its anchor in the SVG and the viewer measures it.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Result;

/// The first line of the table that `rows` parses.
pub const HEADER: &str = "| work | link | ours | peer | theirs | ratio | goal | |";

const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const GRID: RGBColor = RGBColor(0xd1, 0xd9, 0xe0);
/// The peers take these in the order in which the table names them.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x81, 0x8b, 0x98),
    RGBColor(0x1f, 0x6f, 0xeb),
    RGBColor(0xd4, 0xa7, 0x2c),
    RGBColor(0x82, 0x50, 0xdf),
    RGBColor(0x1a, 0x7f, 0x37),
];
const WIDTH: u32 = 1060;
/// The height of a bar with its distance to the next one.
const LANE: u32 = 21;
/// The height of the title and the legend.
const HEAD: u32 = 78;
/// The height of the axis with its numbers.
const FOOT: u32 = 34;
/// The width of the labels before the bars.
const LEFT: u32 = 255;
/// The width of the figures behind the longest bar.
const RIGHT: u32 = 290;

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
    let mut svg = String::new();
    draw(&rows, &mut svg)?;
    Ok(svg)
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
    let (our_value, unit) = ours.split_once(' ')?;
    let (their_value, _) = theirs.split_once(' ')?;
    let ratio = match ratio.parse::<f64>().ok()? {
        // The table rounds it to two digits.
        0.0 => our_value.parse::<f64>().ok()? / their_value.parse::<f64>().ok()?,
        ratio => ratio,
    };
    let factor = if unit == "/s" { ratio } else { ratio.recip() };
    let label = format!("{}, {link}, {peer}", work.trim_matches('`'));
    Some(Row { label, peer, ours, theirs, factor })
}

fn draw(rows: &[Row<'_>], svg: &mut String) -> Result<()> {
    let lanes = u32::try_from(rows.len())?;
    let size = (WIDTH, HEAD + lanes * LANE + FOOT);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    head(rows, &root)?;
    let axis = axis(rows);
    let chart = ChartBuilder::on(&root)
        .margin_top(HEAD)
        .margin_bottom(FOOT)
        .margin_left(LEFT)
        .margin_right(RIGHT)
        .build_cartesian_2d(axis.clone().log_scale(), 0.0..f64::from(lanes))?;
    let area = chart.plotting_area();
    // A text at a distance in pixels from a point of the axes.
    let text = |at: (f64, f64), distance: (i32, i32), text: String, side| {
        area.draw(&(EmptyElement::at(at) + Text::new(text, distance, style(15, side))))
    };
    for tick in (0..).map(|power| 10_f64.powi(power)).take_while(|tick| *tick <= axis.end) {
        area.draw(&PathElement::new([(tick, 0.0), (tick, f64::from(lanes))], GRID))?;
        text((tick, 0.0), (0, 16), format!("{tick} ×"), HPos::Center)?;
    }
    for (row, lane) in rows.iter().zip((0..lanes).rev().map(f64::from)) {
        let end = row.factor.clamp(axis.start, axis.end);
        // Pale, because this bar would have no end.
        let opacity = if row.factor.is_finite() { 1.0 } else { 0.5 };
        let fill = colour(rows, row.peer).mix(opacity).filled();
        let bar = Rectangle::new([(1.0, lane + 0.15), (end, lane + 0.85)], fill);
        area.draw(&bar)?;
        let middle = lane + 0.5;
        text((axis.start, middle), (-8, 0), row.label.clone(), HPos::Right)?;
        let figures = format!("{} ({} against {})", times(row.factor), row.ours, row.theirs);
        text((end.max(1.0), middle), (7, 0), figures, HPos::Left)?;
    }
    area.draw(&PathElement::new([(1.0, 0.0), (1.0, f64::from(lanes))], INK.stroke_width(2)))?;
    root.present()?;
    Ok(())
}

/// Draws the title and the peers' colours.
fn head(rows: &[Row<'_>], root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
    let title = style(19, HPos::Left);
    root.draw(&Text::new("How many times better ours is than the peer", (16, 20), title))?;
    let how = "Faster, or with fewer trips or requests; ∞ where ours needs none. Left of 1 the peer is better. \
               At each bar: ours against theirs.";
    root.draw(&Text::new(how, (16, 42), style(15, HPos::Left)))?;
    for (place, peer) in (0..).zip(peers(rows)) {
        let left = 16 + place * 120;
        let key = Rectangle::new([(left, 58), (left + 12, 70)], colour(rows, peer).filled());
        root.draw(&key)?;
        root.draw(&Text::new(peer, (left + 18, 64), style(15, HPos::Left)))?;
    }
    Ok(())
}

/// Plotters divides the size by 1.24.
fn style(size: u32, side: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK).pos(Pos::new(side, VPos::Center))
}

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

fn colour(rows: &[Row<'_>], peer: &str) -> RGBColor {
    let place = peers(rows).iter().position(|other| *other == peer);
    COLOURS[place.unwrap_or_default() % COLOURS.len()]
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
        let cycle =
            "| `read` | 8ms | 2.00 ms (1.90..2.10) | curator | 8.00 ms (8..8) | 0.25 | - |  |";
        let expected = Row {
            label: "read, 8ms, curator".into(),
            peer: "curator",
            ours: "2.00 ms",
            theirs: "8.00 ms",
            factor: 4.0,
        };
        assert_eq!(row(cycle), Some(expected));
        let rate = "| `locks64` | direct | 300 /s (1..2) | curator | 200 /s (1..2) | 1.50 | >=2x | **missed** |";
        assert_eq!(only(rate), Some(("locks64, direct, curator".into(), 1.5)));
        // Ours sends nothing; ours sends so little that the ratio is rounded to nothing.
        let none = "| `w` | counted | 0.00 writes (0..0) | kazoo | 2.00 writes (2..2) | 0.00 | <=0 | met |";
        assert_eq!(only(none).map(|row| row.1), Some(f64::INFINITY));
        let little =
            "| `w` | counted | 0.02 writes (0..0) | kazoo | 8.00 writes (8..8) | 0.00 | - |  |";
        assert_eq!(only(little).map(|row| row.1.round()), Some(400.0));
        let missing = "| `w` | 8ms | 2.00 ms (2..2) | kazoo | - | - | - |  |";
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
        assert!(svg.len() < 60_000, "{} bytes", svg.len());
        assert!(ratios("no table").is_err());
    }
}
