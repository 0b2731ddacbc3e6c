//! Step *observe*: what the sources say.

use std::sync::Arc;

use futures::future::join_all;
use llmscaler_api::{Provider, Scaler};
use llmscaler_engine::{Reading, Warmth};
use llmscaler_signals::transport::EndpointError;
use llmscaler_signals::{DecisionClient, Endpoint, PrometheusClient, Transport};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Where a scaler's readings come from, ready to be asked.
#[derive(Clone)]
pub(crate) enum Source {
    Prometheus { client: PrometheusClient, queries: Arc<[String]>, deletion_cost: Option<String> },
    DecisionServer { client: DecisionClient, service_id: String, namespace: Option<String>, path: String },
}

impl Source {
    /// The source that the scaler names. A sync must not outlast its period, so neither may a query.
    pub(crate) fn new(transport: &Transport, scaler: &Scaler) -> Result<Self, EndpointError> {
        let endpoint = |address: &str, headers| {
            Endpoint::new(transport.clone(), address, headers).map(|endpoint| endpoint.within(scaler.spec.sync_period))
        };
        Ok(match &scaler.provider {
            Provider::Prometheus { address, headers, queries } => Self::Prometheus {
                client: PrometheusClient::new(endpoint(address.as_str(), headers)?),
                queries: queries.as_slice().into(),
                deletion_cost: scaler.deletion_cost_query.clone(),
            },
            Provider::DecisionServer { address, headers, service_id, namespace, path } => Self::DecisionServer {
                client: DecisionClient::new(endpoint(address.as_str(), headers)?),
                service_id: service_id.clone(),
                namespace: namespace.clone(),
                path: path.clone(),
            },
        })
    }

    /// One reading for each source of the spec, in their order, all asked for at once.
    pub(crate) async fn readings(&self, metrics: &Metrics, namespace: &str, name: &str) -> Vec<Reading> {
        match self {
            Self::Prometheus { client, queries, .. } => {
                join_all(queries.iter().map(|query| timed(metrics, namespace, name, client.query_value(query)))).await
            }
            Self::DecisionServer { client, service_id, namespace: wanted, path } => {
                vec![timed(metrics, namespace, name, client.decision(service_id, wanted.as_deref(), path)).await]
            }
        }
    }

    /// How warm each pod of the namespace is, where there is a query for it.
    pub(crate) async fn warmth(&self, namespace: &str) -> Warmth {
        let Self::Prometheus { client, deletion_cost: Some(query), .. } = self else { return Warmth::NotAsked };
        match client.query_pods(query, namespace).await {
            Ok(samples) => Warmth::Samples(samples),
            Err(error) => Warmth::Unknown(error.to_string()),
        }
    }
}

async fn timed(metrics: &Metrics, namespace: &str, name: &str, ask: impl Future<Output = Reading>) -> Reading {
    let started = Instant::now();
    let reading = ask.await;
    metrics.source(namespace, name, started.elapsed().as_secs_f64(), !reading.is_unknown());
    reading
}
