//! docs/metrics.md against the series that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use llmscaler_engine::{ConditionType, Reading};

use super::{
    Metrics, Watched, WriteOutcome,
    tests::{decision, spec},
};
use crate::actuation::HPA_IN_STEP;
use crate::report::Trouble;
use crate::report::condition::{QUERIES_SCOPED, READY};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// A type, and the names of labels.
type Shape = (String, BTreeSet<String>);

/// One sample at least of every metric.
fn everything() -> String {
    let metrics = Metrics::new();
    metrics.leader(true);
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    metrics.write("serving", "pool-a", WriteOutcome::Ok);
    metrics.source("serving", "pool-a", 0.2, false);
    metrics.sync(Duration::ZERO, Duration::ZERO);
    metrics.sync_error("serving", "pool-a", Trouble::InvalidSpec.label());
    metrics.watch(&Watched::new("pods", "serving"), false);
    metrics.encode()
}

/// The metrics of a scrape. Samples without a metric of theirs fail the test.
fn scraped(text: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("# TYPE ") {
            let (name, kind) = told.split_once(' ').unwrap();
            shapes.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let parts = ["", "_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
            let family = parts.into_iter().find(|family| shapes.contains_key(*family)).unwrap_or_else(|| panic!("no type of {line}"));
            shapes.get_mut(family).unwrap().1.extend(labels(line));
        }
    }
    shapes
}

/// The names of a sample's labels, but for `le`, which every histogram has.
fn labels(line: &str) -> Vec<String> {
    let mut names = vec![];
    let mut rest = line.split_once('{').map_or("", |(_, labels)| labels);
    while let Some((name, value)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(',').to_owned());
        // The value may have quotes, with a backslash each.
        let quotes = value.match_indices('"').map(|(at, _)| at);
        let end = quotes.into_iter().find(|at| !value[..*at].ends_with('\\')).unwrap();
        rest = &value[end + 1..];
    }
    names.retain(|name| name != "le");
    names
}

/// The metrics of the page's tables.
fn told() -> BTreeMap<String, Shape> {
    let mut shapes = BTreeMap::new();
    let mut of_scaler = false;
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            of_scaler = heading == "Of each scaler";
        }
        if !line.starts_with("| `") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, unit, labels, meaning, absent] = cells[..] else { panic!("{line}") };
        assert!(![kind, unit, meaning, absent].contains(&""), "{line}");
        let mut names = BTreeSet::new();
        if of_scaler {
            names.extend(["namespace", "name"].map(str::to_owned));
        }
        names.extend(labels.split(", ").filter(|label| !label.is_empty()).map(|label| label.trim_matches('`').to_owned()));
        shapes.insert(name.trim_matches('`').to_owned(), (kind.to_owned(), names));
    }
    shapes
}

#[test]
fn the_page_tells_every_metric_its_type_and_its_labels_and_no_other() {
    let (told, mut scraped) = (told(), scraped(&everything()));
    if !cfg!(target_os = "linux") {
        scraped.extend(told.iter().filter(|(name, _)| name.starts_with("process_")).map(|(name, shape)| (name.clone(), shape.clone())));
    }
    assert!(scraped.len() > 20, "{scraped:?}");
    assert_eq!(told, scraped);
}

#[test]
fn the_page_tells_every_value_of_a_label() {
    use ConditionType::{AbleToScale, CapacityAvailable, ScalingActive, ScalingLimited, TargetOwned};
    let kinds = [ScalingActive, AbleToScale, ScalingLimited, CapacityAvailable, TargetOwned].into_iter().chain(ConditionType::OF_HEADROOM);
    let troubles = [Trouble::InvalidSpec, Trouble::TargetMissing, Trouble::FailedGetScale, Trouble::FailedUpdateScale];
    let kinds = kinds.map(ConditionType::as_str).chain([HPA_IN_STEP, QUERIES_SCOPED, READY]);
    let values = kinds.chain(WriteOutcome::ALL.map(WriteOutcome::as_str)).chain(troubles.map(Trouble::label));
    for value in values {
        assert!(PAGE.contains(&format!("`{value}`")), "{value}");
    }
}
