//! The page: one HTML file that needs nothing else, a plot for each quantity, both axes logarithmic.

use std::fmt::Write;
use std::path::Path;

use crate::Failure;
use crate::figures::{Figures, Pair, QUANTITIES, Quantity, text};

const TEMPLATE: &str = include_str!("page.html");

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;

/// Class of the line, servers, whose.
type Of = fn(&Pair) -> Option<f64>;
const LINES: [(&str, &str, Of); 4] = [
    ("ours", "single", |pair| pair.ours),
    ("curator", "single", |pair| pair.curator),
    ("ours ensemble", "ensemble", |pair| pair.ours),
    ("curator ensemble", "ensemble", |pair| pair.curator),
];

pub(crate) fn write(figures: &Figures) -> Result<(), Failure> {
    let mut plots = String::new();
    let mut kind = "";
    for quantity in QUANTITIES {
        let of = quantity.name.split('/').next().unwrap_or_default();
        if of != kind {
            kind = of;
            writeln!(plots, "</section><section><h2>{kind}</h2>")?;
        }
        plots.push_str(&plot(figures, quantity, kind)?);
    }
    // Beside the profile's folder.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target folder")?;
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("growth.html");
    std::fs::write(&file, TEMPLATE.replace("{{plots}}", &plots))?;
    eprintln!("growth: {}", file.display());
    Ok(())
}

/// From a value to a place, logarithmic.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Whole decades around the values.
    fn around(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let high = values.fold(0.0, f64::max).log10().ceil();
        Self { low, high: high.max(low + 1.0), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.log10() - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let (mut decade, high) = (self.low, self.high);
        std::iter::from_fn(move || {
            let now = decade;
            decade += 1.0;
            (now <= high).then(|| 10f64.powf(now))
        })
    }
}

fn plot(figures: &Figures, quantity: &Quantity, kind: &str) -> Result<String, Failure> {
    let lines = LINES.map(|(class, on, of)| {
        let points = figures.of(quantity, on).into_iter();
        let points =
            points.filter_map(|(n, pair)| Some((crate::servers::float(n as u64), of(&pair)?)));
        // What is not above nothing has no place here.
        (class, on, points.filter(|(_, value)| *value > 0.0).collect::<Vec<_>>())
    });
    let points = || lines.iter().flat_map(|(_, _, points)| points);
    if points().next().is_none() {
        return Ok(String::new());
    }
    let x = Axis::around(points().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Axis::around(points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<figure><figcaption>{}, <span>{}</span></figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {kind}\">\n",
        quantity.title, quantity.unit, quantity.title
    );
    for n in x.decades() {
        let at = x.place(n);
        let (top, bottom) = (TOP, HEIGHT - BOTTOM);
        writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {top}V{bottom}\"/>")?;
        writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 9.0,
            short(n)
        )?;
    }
    for value in y.decades() {
        let at = y.place(value);
        writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>", WIDTH - RIGHT)?;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(value)
        )?;
    }
    for (class, on, points) in &lines {
        let mut path = String::new();
        for (number, point) in points.iter().enumerate() {
            let step = if number == 0 { 'M' } else { 'L' };
            write!(path, "{step}{:.1} {:.1}", x.place(point.0), y.place(point.1))?;
        }
        writeln!(svg, "<path class=\"line {class}\" d=\"{path}\"/>")?;
        let whose = class.split(' ').next().unwrap_or_default();
        for (n, value) in points {
            writeln!(
                svg,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{whose}, {on}, {n}: {} {}</title></circle>",
                x.place(*n),
                y.place(*value),
                text(Some(*value)),
                quantity.unit
            )?;
        }
    }
    svg.push_str("</svg></figure>\n");
    Ok(svg)
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value if value >= 1.0 => format!("{value:.0}"),
        // Exact enough for a power of ten.
        value => format!(
            "{:.*}",
            usize::from(value < 0.5)
                + usize::from(value < 0.05)
                + usize::from(value < 0.005)
                + usize::from(value < 0.0005),
            value
        ),
    }
}
