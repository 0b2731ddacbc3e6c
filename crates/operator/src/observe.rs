//! Step *observe*: what the sources say.

use std::sync::Arc;

use futures::future::join_all;
use llmscaler_api::{Ask, Provider, Scaler, Server};
use llmscaler_engine::{Reading, Warmth};
use llmscaler_signals::transport::EndpointError;
use llmscaler_signals::{DecisionClient, Endpoint, PrometheusClient, Transport};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Where a scaler's readings come from, ready to be asked.
#[derive(Clone)]
pub(crate) enum Source {
    Prometheus {
        client: PrometheusClient,
        asks: Arc<[Ask]>,
        deletion_cost: Option<String>,
    },
    DecisionServer {
        client: DecisionClient,
        service_id: String,
        namespace: Option<String>,
        path: String,
    },
    /// What is not read yet: so many sources, all unknown.
    Unread(usize),
}

impl Source {
    /// The source that the scaler names. A sync must not outlast its period, so neither may a query.
    pub(crate) fn new(transport: &Transport, scaler: &Scaler) -> Result<Self, EndpointError> {
        let endpoint = |server: &Server| {
            Endpoint::new(transport.clone(), server.address.as_str(), server.access.headers.expose())
                .map(|endpoint| endpoint.within(scaler.spec.sync_period))
        };
        Ok(match (&scaler.provider, scaler.asks.as_slice()) {
            (Provider::Prometheus(server), asks) => Self::Prometheus {
                client: PrometheusClient::new(endpoint(server)?),
                asks: asks.into(),
                deletion_cost: scaler.deletion_cost_query.clone(),
            },
            (Provider::DecisionServer(server), [Ask::Decision { service_id, namespace, path }, ..]) => Self::DecisionServer {
                client: DecisionClient::new(endpoint(server)?),
                service_id: service_id.clone(),
                namespace: namespace.clone(),
                path: path.clone(),
            },
            (_, asks) => Self::Unread(asks.len()),
        })
    }

    /// One reading for each source of the spec, in their order, all asked for at once.
    pub(crate) async fn readings(&self, metrics: &Metrics, namespace: &str, name: &str) -> Vec<Reading> {
        match self {
            Self::Prometheus { client, asks, .. } => {
                join_all(asks.iter().map(|ask| async move {
                    match ask {
                        Ask::Query(query) => timed(metrics, namespace, name, client.query_value(query)).await,
                        _ => unread(),
                    }
                }))
                .await
            }
            Self::Unread(count) => vec![unread(); *count],
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

fn unread() -> Reading {
    Reading::unknown("the operator does not read it yet")
}

async fn timed(metrics: &Metrics, namespace: &str, name: &str, ask: impl Future<Output = Reading>) -> Reading {
    let started = Instant::now();
    let reading = ask.await;
    metrics.source(namespace, name, started.elapsed().as_secs_f64(), !reading.is_unknown());
    reading
}
