//! Which series belong to one pool.

use std::collections::BTreeMap;

use super::table::{Metric, Preset, Row};

/// Labels that scraping adds and that say nothing of the pool: where it stands, and which port was read.
const WEAK: [&str; 9] =
    ["cluster", "container", "endpoint", "exported_namespace", "metrics_path", "node", "prometheus", "prometheus_replica", "region"];

/// The pool that a query is about: a namespace, and the labels of `preset.matchLabels`.
///
/// A label of `match_labels` is written into the query of a signal when its series have it:
///
/// * the row lists it, or lists it under another name (`inference_pool` is `name` on the EPP's pool gauges);
/// * or no row of the preset lists it: then it is no label of the software but one that scraping adds (`service`, `pod`, a label of
///   a relabelling rule), and that is on every series of a target.
///
/// What is left out makes the query wider. If then nothing but the namespace isolates the pool there is no query: labels such as
/// `priority`, `endpoint` or the model behind a router, of which several pools may serve the same, do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    namespace: String,
    match_labels: BTreeMap<String, String>,
}

impl Scope {
    /// A pool in this namespace with these labels. A label `namespace` among them is ignored.
    pub fn new<L: Into<String>, V: Into<String>>(namespace: impl Into<String>, match_labels: impl IntoIterator<Item = (L, V)>) -> Self {
        let match_labels = match_labels.into_iter().map(|(label, value)| (label.into(), value.into())).collect();
        Self { namespace: namespace.into(), match_labels }
    }

    /// What selects the series of the whole namespace.
    pub(super) fn namespaced(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("namespace".to_owned(), self.namespace.clone())])
    }
}

/// Nothing but the namespace would tell a pool's series from those of its neighbours. The text says why, and which label to add.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Unscoped {
    text: String,
    would_do: Vec<String>,
}

impl Unscoped {
    /// Labels of which each, in `preset.matchLabels`, would isolate the pool; the recommended one first.
    #[must_use]
    pub fn would_do(&self) -> &[String] {
        &self.would_do
    }

    /// `lacking` are labels asked for that the series do not have, `weak` those that they have and that do not suffice.
    fn new(preset: &Preset, row: &Row, scope: &Scope, lacking: &[String], weak: &[String]) -> Self {
        let why = match (lacking, weak) {
            ([], []) => "preset.matchLabels is empty".to_owned(),
            ([], weak) => format!("several pools may share the {}", joined(weak, "and")),
            (lacking, []) => format!("it has no label {}", joined(lacking, "and")),
            (lacking, weak) => {
                format!("it has no label {}, and several pools may share the {}", joined(lacking, "and"), joined(weak, "and"))
            }
        };
        let own = preset.isolating.iter().filter(|label| row.labels.contains(label));
        // Under the name that serves every row, where there are two.
        let own = own.map(|label| row.renamed.iter().find(|(_, here)| *here == label).map_or(label, |(common, _)| common));
        let would_do: Vec<String> = own.chain(&preset.scraped).cloned().collect();
        let metric = row.metrics.first().map_or(row.signal.name(), |metric| &metric.name);
        let text = format!(
            "{metric} of preset {} cannot be told from that of other pools in namespace {}: {why}; add {} to preset.matchLabels, with \
             the value that Prometheus shows for this pool",
            preset.name,
            scope.namespace,
            joined(&would_do, "or")
        );
        Self { text, would_do }
    }
}

fn joined(names: &[String], last: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

impl Preset {
    /// The labels that select the series of `scope` among those of a row.
    pub(super) fn scoped(&self, row: &Row, scope: &Scope) -> Result<BTreeMap<String, String>, Unscoped> {
        let mut written = BTreeMap::new();
        let (mut lacking, mut weak, mut isolated) = (Vec::new(), Vec::new(), false);
        for (label, value) in scope.match_labels.iter().filter(|(label, _)| *label != "namespace") {
            let here = row.renamed.get(label).unwrap_or(label);
            let isolates = if row.labels.contains(here) {
                self.isolating.contains(here)
            } else if self.rows.iter().any(|other| other.labels.contains(label)) {
                lacking.push(label.clone());
                continue;
            } else {
                !WEAK.contains(&label.as_str())
            };
            if isolates && !value.is_empty() {
                isolated = true;
            } else {
                weak.push(label.clone());
            }
            written.insert(here.clone(), value.clone());
        }
        if isolated {
            written.insert("namespace".to_owned(), scope.namespace.clone());
            return Ok(written);
        }
        Err(Unscoped::new(self, row, scope, &lacking, &weak))
    }
}

/// `name{label="value", …}`, or `{__name__=~"name|other", label="value", …}`.
pub(super) fn selector(names: &[&str], metric: &Metric, scoped: &BTreeMap<String, String>) -> String {
    let mut matchers = Vec::new();
    let head = match names {
        [one] => *one,
        several => {
            matchers.push(format!("__name__=~{}", quoted(&several.join("|"))));
            ""
        }
    };
    for (label, value) in &metric.only {
        let operator = if value.contains('|') { "=~" } else { "=" };
        matchers.push(format!("{label}{operator}{}", quoted(value)));
    }
    for (label, value) in scoped {
        matchers.push(format!("{}={}", label_name(label), quoted(value)));
    }
    format!("{head}{{{}}}", matchers.join(", "))
}

/// A label name, in quotes unless it is one of the classic form; Prometheus 3 reads both.
fn label_name(name: &str) -> String {
    let mut chars = name.bytes();
    let classic =
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_') && chars.all(|c| c.is_ascii_alphanumeric() || c == b'_');
    if classic { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
