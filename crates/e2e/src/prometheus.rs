//! The run's Prometheus: what it scrapes, and questions to it.

use crate::background;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A Prometheus that scrapes every [`Exporter`](crate::Exporter), and whatever else it is told to, each second.
#[derive(Clone, Debug)]
pub struct Prometheus {
    url: String,
    targets: PathBuf,
}

impl Prometheus {
    pub(crate) fn new(url: &str, data: &Path) -> Self {
        Self { url: url.to_owned(), targets: targets(data) }
    }

    /// Its address, as `spec.serverAddress` takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The whole answer to an instant query.
    ///
    /// # Panics
    /// When Prometheus cannot be reached.
    pub async fn query(&self, query: &str) -> Value {
        let request = background::client().get(format!("{}/api/v1/query", self.url)).query(&[("query", query)]);
        background::run(async move { request.send().await.unwrap().json().await.unwrap() }).await
    }

    /// The value of an instant query, or `None` unless its answer is a vector of exactly one sample.
    ///
    /// # Panics
    /// When Prometheus cannot be reached.
    pub async fn value(&self, query: &str) -> Option<f64> {
        let answer = self.query(query).await;
        match answer["data"]["result"].as_array()?.as_slice() {
            [sample] => sample["value"][1].as_str()?.parse().ok(),
            _ => None,
        }
    }

    /// Scrapes `address` too, from at most some 10 seconds on, with `labels` on every series.
    ///
    /// An [`Exporter`](crate::Exporter) needs no call of this: it is scraped from its next second on.
    ///
    /// # Panics
    /// When the file of targets cannot be written.
    pub fn scrape(&self, name: &str, address: SocketAddr, labels: &BTreeMap<String, String>) {
        let target = json!([{"targets": [address.to_string()], "labels": labels}]);
        // Renamed into place: Prometheus reads a file as soon as it sees a change.
        let unfinished = self.targets.join(format!(".{name}"));
        std::fs::write(&unfinished, target.to_string()).unwrap();
        std::fs::rename(&unfinished, self.targets.join(format!("{name}.json"))).unwrap();
    }
}

fn targets(data: &Path) -> PathBuf {
    data.join("scrape")
}

/// Writes the configuration: the hub that all exporters share, and a folder for targets to come.
pub(crate) fn write_config(data: &Path, hub: SocketAddr) -> Result<PathBuf> {
    let targets = targets(data);
    std::fs::create_dir_all(&targets)?;
    let config = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [
            // The exporters' labels are the test's own to choose, `instance` and `job` among them.
            {"job_name": "exporters", "honor_labels": true, "static_configs": [{"targets": [hub.to_string()]}]},
            {"job_name": "targets", "file_sd_configs": [{"files": [targets.join("*.json")], "refresh_interval": "1s"}]},
        ],
    });
    let path = data.join("prometheus.yml");
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}
