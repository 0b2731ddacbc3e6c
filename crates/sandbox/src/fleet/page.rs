//! Metrics as a page.

use std::fmt;

use llmscaler_simulator::Counts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Labels and their values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Metrics that become a page. What is counted is of the moment at which they were put in.
#[derive(Debug, Default)]
pub(super) struct Page(Vec<Metric>);

#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    labels: Labels,
    figure: Figure,
}

#[derive(Debug)]
enum Figure {
    Counter(u64),
    Gauge(f64),
    Histogram(Counts),
}

impl Page {
    /// A counter, whose name is without its `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str, labels: &Labels, count: u64) {
        self.0.push(Metric { name, help, labels: labels.clone(), figure: Figure::Counter(count) });
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str, labels: &Labels, value: impl Into<f64>) {
        self.0.push(Metric { name, help, labels: labels.clone(), figure: Figure::Gauge(value.into()) });
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &'static str, labels: &Labels, counts: &Counts) {
        self.0.push(Metric { name, help, labels: labels.clone(), figure: Figure::Histogram(counts.clone()) });
    }

    /// The page, in the text format of OpenMetrics.
    pub(super) fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in &self.0 {
            let kind = match metric.figure {
                Figure::Counter(_) => MetricType::Counter,
                Figure::Gauge(_) => MetricType::Gauge,
                Figure::Histogram(_) => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            let mut labelled = family.encode_family(&metric.labels)?;
            match &metric.figure {
                Figure::Counter(count) => labelled.encode_counter::<NoLabelSet, _, u64>(count, None)?,
                Figure::Gauge(value) => labelled.encode_gauge(value)?,
                Figure::Histogram(counts) => {
                    let buckets: Vec<(f64, u64)> = counts.each().map(|bucket| (bucket.upper, bucket.count as u64)).collect();
                    labelled.encode_histogram::<NoLabelSet>(counts.sum(), counts.count(), &buckets, None)?;
                }
            }
        }
        Ok(())
    }
}
