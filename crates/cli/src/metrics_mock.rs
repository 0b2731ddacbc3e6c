//! `llmscaler metrics-mock`: a metric that is set by hand, for trying a scaler out without a load.
//!
//! It answers every instant query of Prometheus' API with one series without labels, whatever is asked. Of the chart vllm-mock; not in
//! the help, as nothing in production needs it.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::failure::Failure;
use crate::operator::shutdown;

/// Arguments of `llmscaler metrics-mock`.
#[derive(Debug, Args)]
pub struct MetricsMockArguments {
    /// What every query is answered with; NaN is unknown to a scaler. PUT /value sets another
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    value: f64,
    /// Where it is served; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    bind_address: SocketAddr,
}

/// Serves until it is told to end.
pub fn run(arguments: &MetricsMockArguments, out: &mut impl Write) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::MetricsMock(format!("cannot serve at {}: {error}", arguments.bind_address));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let shutdown = shutdown()?;
        let listener = TcpListener::bind(arguments.bind_address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        writeln!(out, "{} at http://{address}; PUT /value sets another", number(arguments.value))
            .and_then(|()| out.flush())
            .map_err(Failure::Output)?;
        let served = axum::serve(listener, app(arguments.value)).with_graceful_shutdown(async move { shutdown.cancelled().await });
        served.await.map_err(failed)
    })
}

/// The one number, as its bits.
type Shared = Arc<AtomicU64>;

fn app(value: f64) -> Router {
    Router::new()
        .route("/api/v1/query", get(answer).post(answer))
        .route("/value", get(shown).put(set))
        .with_state(Arc::new(AtomicU64::new(value.to_bits())))
}

fn current(shared: &Shared) -> String {
    number(f64::from_bits(shared.load(Ordering::Relaxed)))
}

async fn answer(State(shared): State<Shared>) -> Json<Value> {
    #[allow(clippy::cast_precision_loss, reason = "milliseconds of this age are exact")]
    let now = Timestamp::now().as_millisecond() as f64 / 1000.0;
    let series = json!({"metric": {}, "value": [now, current(&shared)]});
    Json(json!({"status": "success", "data": {"resultType": "vector", "result": [series]}}))
}

async fn shown(State(shared): State<Shared>) -> String {
    format!("{}\n", current(&shared))
}

async fn set(State(shared): State<Shared>, text: String) -> Result<String, (StatusCode, String)> {
    let text = text.trim();
    let value: f64 =
        text.parse().map_err(|_| (StatusCode::BAD_REQUEST, format!("{text:?} is no number; send one as the body, such as 2.5\n")))?;
    shared.store(value.to_bits(), Ordering::Relaxed);
    Ok(format!("{}\n", number(value)))
}

/// A number as Prometheus writes it.
fn number(value: f64) -> String {
    if value.is_infinite() { format!("{}Inf", if value > 0.0 { '+' } else { '-' }) } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::body::Body;
    use axum::http::Request;
    use llmscaler_engine::Reading;
    use llmscaler_signals::{Endpoint, PrometheusClient, TlsSettings, Transport};
    use tower::ServiceExt;

    use super::*;

    /// The operator's own client of a mock on loopback.
    async fn client(app: Router) -> PrometheusClient {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let transport = Transport::new(&TlsSettings::default()).unwrap();
        PrometheusClient::new(Endpoint::new(transport, &address, &BTreeMap::new()).unwrap())
    }

    async fn put(app: &Router, body: &'static str) -> StatusCode {
        app.clone().oneshot(Request::put("/value").body(Body::from(body)).unwrap()).await.unwrap().status()
    }

    #[tokio::test]
    async fn the_operators_client_reads_the_value_and_the_next_one() {
        let app = app(10.0);
        let client = client(app.clone()).await;
        assert_eq!(client.query_value("anything").await, Reading::from_number(10.0));
        for (body, value) in [("2.5", 2.5), (" 0\n", 0.0), ("1e6", 1e6)] {
            assert_eq!(put(&app, body).await, StatusCode::OK);
            assert_eq!(client.query_value("anything").await, Reading::from_number(value), "{body}");
        }
        // A long query travels as a form.
        assert_eq!(client.query_value(&"x".repeat(3000)).await, Reading::from_number(1e6));
    }

    #[tokio::test]
    async fn what_is_no_number_is_unknown_to_the_client_and_refused_when_it_is_set() {
        let app = app(f64::NAN);
        let client = client(app.clone()).await;
        assert!(client.query_value("anything").await.is_unknown());
        for value in ["inf", "-1"] {
            assert_eq!(put(&app, value).await, StatusCode::OK);
            assert!(client.query_value("anything").await.is_unknown(), "{value}");
        }
        assert_eq!(put(&app, "7").await, StatusCode::OK);
        assert_eq!(put(&app, "many").await, StatusCode::BAD_REQUEST);
        assert_eq!(client.query_value("anything").await, Reading::from_number(7.0));
    }

    #[tokio::test]
    async fn it_has_no_pods_to_rank() {
        let error = client(app(10.0)).await.query_pods("anything", "serving").await.unwrap_err();
        assert!(error.to_string().contains("pod"), "{error}");
    }
}
