//! The form of a preset file.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::signal::Signal;

/// One file of `presets/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The name after `preset.name:`.
    #[serde(rename = "preset")]
    pub(super) name: String,
    /// Whose versions `since` and `until` are.
    pub(super) software: String,
    /// Labels of the series themselves of which each, alone, tells two pools of one namespace apart.
    pub(super) isolating: Vec<String>,
    /// Labels that scraping usually adds and that tell pools apart; the first is the one that an error recommends.
    pub(super) scraped: Vec<String>,
    #[serde(rename = "signals")]
    pub(super) rows: Vec<Row>,
}

/// What one signal is called, and what its series are like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The signal.
    pub signal: Signal,
    /// The type of its metric.
    pub kind: Kind,
    /// What one series is about.
    pub per: Per,
    /// How what belongs to one replica becomes one number.
    pub combine: Combine,
    /// The unit, for people.
    pub unit: String,
    /// Labels that the software itself puts on the series, in one version or another, `le` left out.
    pub labels: Vec<String>,
    /// Those of `labels` over which series repeat the same number, so that only one of them may count.
    #[serde(default)]
    pub repeats: Vec<String>,
    /// Labels of other rows that have another name here.
    #[serde(default)]
    pub renamed: BTreeMap<String, String>,
    /// The names, the preferred one first. A histogram's are without `_bucket`.
    pub metrics: Vec<Metric>,
    /// A signal of the same process that is there whenever this one is zero and therefore, perhaps, has no series.
    pub zero: Option<Signal>,
    /// What has to be switched on.
    pub needs: Option<String>,
    /// What else there is to know, for people.
    pub note: Option<String>,
}

/// One name of a metric.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The name.
    pub name: String,
    /// The first version that emits it; absent: as long as anybody remembers, or no release.
    pub since: Option<String>,
    /// The first version that does not, by default.
    pub until: Option<String>,
    /// The series of it that count, by label: one value, or several with `|` between them, of which an empty one stands for
    /// series without the label.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, String>,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A number that goes up and down.
    Gauge,
    /// A number that only goes up; its rate per second counts.
    Counter,
    /// Buckets by upper bound.
    Histogram,
    /// Facts in labels.
    Info,
}

impl Kind {
    pub(super) fn instead(self) -> &'static str {
        match self {
            Self::Histogram => "for a latency use spec.slo, which takes its quantile",
            _ => "write a query of one number",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gauge => "a gauge",
            Self::Counter => "a counter",
            Self::Histogram => "a histogram",
            Self::Info => "a set of labels",
        })
    }
}

/// What one series is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// An engine; a pod may run several.
    Engine,
    /// An endpoint as a router sees it, named by the label `endpoint_name`; a pod may have several.
    Endpoint,
    /// The requests that went through one router; pools may have several.
    Router,
    /// The whole pool; every router says the same.
    Pool,
}

/// How the series of one replica become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// They count something: added.
    Sum,
    /// They are shares: averaged.
    Mean,
}

impl Preset {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose metrics these are, and whose versions the rows speak of.
    #[must_use]
    pub fn software(&self) -> &str {
        &self.software
    }
}
