//! A metrics recorder, and the text of its scrape.

use std::fmt;

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::prelude::*;

/// Name, labels and value.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

/// The recorder of this thread, until it is dropped.
pub(crate) struct Scraped {
    handle: PrometheusHandle,
    _recorder: LocalRecorderGuard<'static>,
}

impl Scraped {
    pub(crate) fn new() -> Self {
        let builder = PrometheusBuilder::new().set_buckets(&[0.25, 0.5, 1.0]).unwrap();
        // The guard borrows it; there is one for each test.
        let recorder = Box::leak(Box::new(builder.build_recorder()));
        let handle = recorder.handle();
        Self { handle, _recorder: metrics::set_default_local_recorder(recorder) }
    }

    pub(crate) fn text(&self) -> String {
        self.handle.render()
    }

    /// The sum over all series of `name` (without `zookeeper_recipes_`) with these labels; `None` if there are none.
    pub(crate) fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let text = self.text();
        let values = text.lines().filter_map(|line| {
            let (series, value) = line.strip_prefix("zookeeper_recipes_")?.rsplit_once(' ')?;
            let (found, has) = series.split_once('{').unwrap_or((series, ""));
            let matches = found == name && labels.iter().all(|label| has.contains(label));
            matches.then(|| value.parse::<f64>().unwrap())
        });
        values.reduce(|sum, value| sum + value)
    }

    /// The same; nothing is zero.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels).unwrap_or(0.0)
    }

    /// Waits until it is `value`.
    pub(crate) async fn comes_to(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let what = format!("{name} {labels:?} comes to {value}");
        eventually(&what, async || same(self.value(name, labels), value)).await;
    }

    /// Fails with all there is if one of these is not as it should be.
    #[track_caller]
    pub(crate) fn is(&self, expected: &[Expected<'_>]) {
        for (name, labels, value) in expected {
            let is = self.value(name, labels);
            assert!(same(is, *value), "{name} {labels:?} is {is}, not {value}:\n{self}");
        }
    }
}

impl fmt::Display for Scraped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
        lines.filter(|line| !line.ends_with(" 0")).try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// They are counts, or sums of counts.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}
