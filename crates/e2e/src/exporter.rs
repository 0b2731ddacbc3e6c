//! Metrics with values that a test sets, in the Prometheus text format.

use crate::loopback::Server;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::watch;

type Labels = BTreeMap<String, String>;

/// One source's series, by metric name and then by labels.
type Series = BTreeMap<String, BTreeMap<Labels, f64>>;

/// Gauges (or counters, whatever the test makes of them) that the plane's Prometheus scrapes each second.
///
/// Dropped, or [`fail`](Self::fail)ing, its series end at the next scrape, as those of a target that is gone.
#[derive(Debug)]
pub struct Exporter {
    source: Arc<Source>,
    scrapes: watch::Receiver<u64>,
    servers: Mutex<Vec<Server>>,
}

#[derive(Debug)]
struct Source {
    common: Labels,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    series: Series,
    failing: bool,
}

impl Exporter {
    /// Sets the value of one series. The exporter's own labels (`namespace`) are added unless `labels` has them.
    pub fn set(&self, metric: &str, labels: &[(&str, &str)], value: f64) {
        let labels = self.labels(labels);
        self.source.state.lock().unwrap().series.entry(metric.to_owned()).or_default().insert(labels, value);
    }

    /// Ends one series.
    pub fn remove(&self, metric: &str, labels: &[(&str, &str)]) {
        let labels = self.labels(labels);
        if let Some(series) = self.source.state.lock().unwrap().series.get_mut(metric) {
            series.remove(&labels);
        }
    }

    /// Ends every series.
    pub fn clear(&self) {
        self.source.state.lock().unwrap().series.clear();
    }

    /// Ends or resumes everything, as a target does that cannot be scraped.
    pub fn fail(&self, failing: bool) {
        self.source.state.lock().unwrap().failing = failing;
    }

    /// Waits until Prometheus has stored what was set before this call: one to two seconds.
    ///
    /// # Panics
    /// When Prometheus does not scrape for 30 seconds.
    pub async fn scraped(&self) {
        let mut scrapes = self.scrapes.clone();
        // The next one to begin sees the values; it is stored for certain once another has begun.
        let wanted = *scrapes.borrow() + 2;
        let seen = tokio::time::timeout(Duration::from_secs(30), scrapes.wait_for(|seen| *seen >= wanted)).await;
        seen.expect("Prometheus does not scrape: see prometheus.log").unwrap();
    }

    /// Serves the series at `/metrics` on an address of their own too, as a model server's pod does.
    ///
    /// # Panics
    /// When the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> SocketAddr {
        let source = Arc::clone(&self.source);
        let respond = move || {
            let text = render(std::slice::from_ref(&source));
            async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text) }
        };
        let server = Server::start(address, Router::new().route("/metrics", get(respond))).await.unwrap();
        let address = server.address();
        self.servers.lock().unwrap().push(server);
        address
    }

    fn labels(&self, labels: &[(&str, &str)]) -> Labels {
        let mut all = self.source.common.clone();
        all.extend(labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        all
    }
}

/// The one target that stands for all exporters, so that a new one is scraped without a change of configuration.
#[derive(Debug)]
pub(crate) struct Hub {
    sources: Arc<Mutex<Vec<Weak<Source>>>>,
    scrapes: watch::Receiver<u64>,
    server: Server,
}

impl Hub {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let sources = Arc::<Mutex<Vec<Weak<Source>>>>::default();
        let (count, scrapes) = watch::channel(0);
        let count = Arc::new(count);
        let shared = Arc::clone(&sources);
        let respond = move || {
            let living: Vec<_> = shared.lock().unwrap().iter().filter_map(Weak::upgrade).collect();
            let text = render(&living);
            count.send_modify(|count| *count += 1);
            async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text) }
        };
        let app = Router::new().route("/metrics", get(respond));
        let server = Server::start(([127, 0, 0, 1], 0).into(), app).await?;
        Ok(Self { sources, scrapes, server })
    }

    /// Where Prometheus finds it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A new exporter, with `common` on each of its series.
    pub(crate) fn exporter(&self, common: Labels) -> Exporter {
        let source = Arc::new(Source { common, state: Mutex::default() });
        let mut sources = self.sources.lock().unwrap();
        sources.retain(|source| source.strong_count() > 0);
        sources.push(Arc::downgrade(&source));
        Exporter { source, scrapes: self.scrapes.clone(), servers: Mutex::default() }
    }
}

/// The text format wants all series of one metric together, whoever they come from.
fn render(sources: &[Arc<Source>]) -> String {
    let mut all = Series::new();
    for source in sources {
        let state = source.state.lock().unwrap();
        if !state.failing {
            for (metric, series) in &state.series {
                all.entry(metric.clone()).or_default().extend(series.iter().map(|(labels, value)| (labels.clone(), *value)));
            }
        }
    }
    let mut text = String::new();
    for (metric, series) in all.iter().filter(|(_, series)| !series.is_empty()) {
        // Untyped: the same samples may serve as a gauge, a counter or a histogram's buckets.
        let _ = writeln!(text, "# TYPE {metric} untyped");
        for (labels, value) in series {
            let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
            let _ = writeln!(text, "{metric}{{{}}} {}", labels.join(","), number(*value));
        }
    }
    text
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    if value.is_infinite() { format!("{}Inf", if value > 0.0 { '+' } else { '-' }) } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn series_of_one_metric_stand_together_and_a_failing_source_has_none() {
        crate::background::runtime();
        let hub = Hub::start().await.unwrap();
        let one = hub.exporter(Labels::from([("namespace".to_owned(), "a".to_owned())]));
        let two = hub.exporter(Labels::from([("namespace".to_owned(), "b".to_owned())]));
        one.set("vllm:waiting", &[("pod", "x\"y")], 1.5);
        two.set("vllm:waiting", &[], f64::INFINITY);
        two.set("other", &[("namespace", "mine")], f64::NAN);
        let url = format!("http://{}/metrics", hub.address());
        let get = || async { reqwest::get(&url).await.unwrap().text().await.unwrap() };
        assert_eq!(
            get().await,
            "# TYPE other untyped\nother{namespace=\"mine\"} NaN\n# TYPE vllm:waiting untyped\n\
             vllm:waiting{namespace=\"a\",pod=\"x\\\"y\"} 1.5\nvllm:waiting{namespace=\"b\"} +Inf\n"
        );
        two.fail(true);
        one.clear();
        assert_eq!(get().await, "");
    }
}
