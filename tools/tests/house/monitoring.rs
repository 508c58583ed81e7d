//! The alerts, the dashboard and the page about them name what the library and `zklock` record.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::root;

const PREFIXES: [&str; 2] = ["zookeeper_recipes_", "zklock_"];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The words in `text`, without those of other characters than a metric's name has.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The names of metrics in `text`.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_metric = |word: &&str| {
        PREFIXES.iter().any(|prefix| word.len() > prefix.len() && word.starts_with(prefix))
    };
    words(text).filter(is_metric).collect()
}

/// The metric of a series of a histogram is that without the last part of the name.
fn metric_of<'a>(series: &'a str, known: &BTreeSet<&str>) -> Option<&'a str> {
    let of_histogram = ["_bucket", "_count", "_sum"]
        .iter()
        .filter_map(|part| series.strip_suffix(part))
        .find(|name| name.ends_with("_seconds") || name.ends_with("_ratio"));
    [Some(series), of_histogram].into_iter().flatten().find(|name| known.contains(name))
}

/// The values in `label="value"` and `label!="value"`, without regular expressions and numbers.
fn label_values(text: &str) -> BTreeSet<&str> {
    let is_word = |value: &&str| {
        !value.is_empty() && value.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    text.split("=\"").skip(1).filter_map(|rest| rest.split('"').next()).filter(is_word).collect()
}

/// The queries of a dashboard.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let expressions = targets.map(|target| &target["expr"]);
    expressions
        .chain(variables.map(|variable| &variable["definition"]))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[test]
fn alerts_and_dashboard_name_only_metrics_that_are_recorded() {
    let library = read("src/metrics/recorded.rs");
    let zklock = read("zklock/src/metrics.rs");
    let known: BTreeSet<_> = metrics(&library).into_iter().chain(metrics(&zklock)).collect();
    assert!(known.len() > 20, "only {known:?} were found");

    let alerts = read("deploy/prometheus/alerts.yml");
    let dashboard = serde_json::from_str(&read("deploy/grafana/dashboard.json")).unwrap();
    let dashboard = queries(&dashboard).join("\n");
    let unknown = |text| -> Vec<_> {
        metrics(text).into_iter().filter(|name| metric_of(name, &known).is_none()).collect()
    };
    assert_eq!(unknown(&alerts), [""; 0], "in the alerts");
    assert_eq!(unknown(&dashboard), [""; 0], "in the dashboard");
    // The check itself can fail.
    assert_eq!(
        unknown("zklock_hold zookeeper_recipes_waiting_sum zklock_held"),
        ["zklock_hold", "zookeeper_recipes_waiting_sum"]
    );

    let shown = metrics(&dashboard);
    let shown: BTreeSet<_> = shown.iter().filter_map(|name| metric_of(name, &known)).collect();
    let missing: Vec<_> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");

    let page = read("docs/guide/observability.md");
    let unknown = |text| -> Vec<_> {
        let values = label_values(text).into_iter();
        values.filter(|value| !page.contains(&format!("`{value}`"))).collect()
    };
    assert_eq!(unknown(&alerts), [""; 0], "label values in the alerts");
    assert_eq!(unknown(&dashboard), [""; 0], "label values in the dashboard");
    assert_eq!(unknown(r#"a{b="mutexes",c!="closed",le="0.5"}"#), ["mutexes"]);
}

#[test]
fn the_pages_explain_each_alert_that_there_is() {
    let alerts = read("deploy/prometheus/alerts.yml");
    let alerts: BTreeSet<_> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 5, "only {alerts:?} were found");
    let tests = read("deploy/prometheus/alerts_test.yml");
    let untested: Vec<_> =
        alerts.iter().filter(|name| !words(&tests).any(|word| word == **name)).collect();
    assert!(untested.is_empty(), "{untested:?} have no test");

    // An alert is a word in ticks and bold letters.
    let pages = read("docs/guide/observability.md");
    let bold = pages.split("**`").skip(1).filter_map(|rest| rest.split_once("`**"));
    let explained: BTreeSet<_> = bold.map(|(name, _)| name).collect();
    assert_eq!(explained, alerts);
}
