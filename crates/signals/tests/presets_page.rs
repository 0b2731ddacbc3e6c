//! The tables of `docs/presets.md` say what the preset files say.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::fmt::Write as _;
use std::path::Path;

use llmscaler_signals::preset::{Combine, Kind, Metric, Per, Preset, Row};

fn table(preset: &Preset) -> String {
    let mut table = format!(
        "| signal | metric, by version of {} | kind, unit | one for each | labels of its own | needs, notes |\n|---|---|---|---|---|---|\n",
        preset.software()
    );
    for row in preset.rows() {
        let metrics = row.metrics.iter().map(metric).collect::<Vec<_>>().join("<br>");
        let labels = row.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" ");
        let Row { signal, unit, .. } = row;
        writeln!(table, "| `{signal}` | {metrics} | {}, {unit} | {} | {labels} | {} |", kind(row), per(row.per), notes(row)).unwrap();
    }
    table
}

fn metric(metric: &Metric) -> String {
    let mut text = format!("`{}`", metric.name);
    match (&metric.since, &metric.until) {
        (Some(since), None) => write!(text, " from {since}").unwrap(),
        (None, Some(until)) => write!(text, " before {until}").unwrap(),
        (Some(since), Some(until)) => write!(text, " from {since}, before {until}").unwrap(),
        (None, None) => {}
    }
    for (label, value) in &metric.only {
        match value.split('|').collect::<Vec<_>>().as_slice() {
            [""] => write!(text, ", where `{label}` is empty").unwrap(),
            [value, ""] => write!(text, ", where `{label}` is `{value}` or absent").unwrap(),
            _ => write!(text, ", where `{label}` is `{value}`").unwrap(),
        }
    }
    text
}

fn kind(row: &Row) -> &'static str {
    match (row.kind, row.combine) {
        (Kind::Gauge, Combine::Sum) => "gauge",
        (Kind::Gauge, Combine::Mean) => "share",
        (Kind::Counter, _) => "counter",
        (Kind::Histogram, _) => "histogram",
        (Kind::Info, _) => "info",
    }
}

fn per(per: Per) -> &'static str {
    match per {
        Per::Engine => "engine",
        Per::Endpoint => "endpoint",
        Per::Router => "router",
        Per::Pool => "pool",
    }
}

fn notes(row: &Row) -> String {
    let zero = row.zero.map(|proof| format!("zero proved by `{proof}`"));
    let repeats = (!row.repeats.is_empty()).then(|| format!("repeats over {}", row.repeats.join(", ")));
    let renamed = row.renamed.iter().map(|(common, here)| format!("`{common}` is `{here}` here"));
    let notes = row.needs.iter().map(|needs| format!("needs {needs}")).chain(row.note.clone()).chain(zero).chain(repeats).chain(renamed);
    notes.collect::<Vec<_>>().join("; ")
}

/// With `UPDATE_DOCS` set, the page is written instead of judged.
#[test]
fn the_tables_of_the_page_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/presets.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut current = page.clone();
    for name in Preset::names() {
        let begin = format!("<!-- {name}: ");
        let from = current.find(&begin).unwrap_or_else(|| panic!("docs/presets.md has no table of {name}"));
        let from = from + current[from..].find('\n').unwrap() + 1;
        let to = from + current[from..].find("<!-- end -->").unwrap();
        current.replace_range(from..to, &table(Preset::named(name).unwrap()));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, current).unwrap();
    } else if page != current {
        panic!("docs/presets.md is not current: UPDATE_DOCS=1 cargo test -p llmscaler-signals --test presets_page");
    }
}
