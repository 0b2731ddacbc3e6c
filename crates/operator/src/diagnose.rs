//! What `llmscaler doctor` has to know of the operator: what it would ask for a scaler, as whom, and to whom it would leave the target.

use kube::Client;
use llmscaler_api::{Access, Scaler};
use llmscaler_signals::preset::{Preset, Signal};
use llmscaler_signals::{Endpoint, TrafficQueries};

use crate::credentials::Credentials;
pub use crate::deadline::{CallError, within};
pub use crate::external_metrics::{API_SERVICE, ApiServiceState, state_of_api_service};
pub use crate::owners::{Around, Rival, Suspect, rivals, suspects};
use crate::questions::{LatencyQuestion, Question, SloQuestion, questions};

/// One thing that is asked for at each sync.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The source that it is for, as statuses name it.
    pub source: String,
    /// What it is asked for.
    pub what: What,
}

/// What a source is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// PromQL of one number, which the source's law decides on.
    Value(String),
    /// PromQL of the saturation itself, or of the quantile of a latency in seconds.
    Quantile {
        /// Which one, for people.
        name: &'static str,
        /// The query.
        query: String,
        /// What was promised, in seconds; `None` for a saturation, which is a share of it already.
        promised: Option<f64>,
    },
    /// PromQL of the requests in flight, which alone prove that a pool is idle.
    InFlight(String),
    /// PromQL of the inputs of the headroom law.
    Inputs(Box<TrafficQueries>),
    /// Signals of the pods' own pages, or of the router's.
    Signals(Vec<Signal>),
    /// The count of a service.
    Decision {
        /// The service whose decision counts.
        service_id: String,
        /// The namespace that the decision must carry, if it matters.
        namespace: Option<String>,
        /// Path below the server's base URL.
        path: String,
    },
    /// Nothing, for this reason.
    Nothing(String),
}

/// Everything that the operator asks for at a sync of this scaler, source by source.
#[must_use]
pub fn asked(scaler: &Scaler, namespace: &str) -> Vec<Asked> {
    let questions = questions(scaler, namespace);
    let each = scaler.spec.sources.iter().zip(questions);
    each.flat_map(|(source, question)| of(question).into_iter().map(|what| Asked { source: source.name.clone(), what })).collect()
}

fn of(question: Question) -> Vec<What> {
    match question {
        Question::Query(query) => vec![What::Value(query)],
        Question::Signal(signal, _) => vec![What::Signals(vec![signal])],
        Question::Decision { service_id, namespace, path } => vec![What::Decision { service_id, namespace, path }],
        Question::Unanswerable(why) => vec![What::Nothing(why)],
        Question::Slo(slo) => of_slo(slo),
    }
}

fn of_slo(slo: SloQuestion) -> Vec<What> {
    let mut all = vec![];
    if let Some(query) = slo.saturation {
        all.push(What::Quantile { name: "the saturation", query, promised: None });
    } else {
        let latencies = [("TTFT", slo.ttft, Signal::Ttft), ("TPOT", slo.tpot, Signal::Tpot)];
        all.extend(latencies.into_iter().filter_map(|(name, latency, signal)| Some(of_latency(name, latency?, signal))));
    }
    all.extend(slo.in_flight.map(What::InFlight));
    if let Some(traffic) = slo.traffic {
        all.push(match traffic.queries {
            Some(Ok(queries)) => What::Inputs(Box::new(queries)),
            Some(Err(why)) => What::Nothing(why),
            None => What::Signals(llmscaler_signals::TRAFFIC_SIGNALS.to_vec()),
        });
    }
    all
}

fn of_latency(name: &'static str, latency: LatencyQuestion, signal: Signal) -> What {
    match latency.query {
        Some(Ok(query)) => What::Quantile { name, query, promised: Some(latency.promised.get()) },
        Some(Err(why)) => What::Nothing(why),
        None => What::Signals(vec![signal]),
    }
}

/// The preset of a scaler, from the tables.
#[must_use]
pub fn preset_of(scaler: &Scaler) -> Option<&'static Preset> {
    crate::questions::preset_of(scaler)
}

/// A connection to `address` with a scaler's headers and certificates, as its Secrets and ConfigMaps have them now.
///
/// # Errors
/// The credentials cannot be read or used; the text says which, and what to do. It has no value of theirs.
pub async fn endpoint(client: Client, namespace: &str, access: &Access, address: &str) -> Result<Endpoint, String> {
    let credentials = Credentials::new(client);
    let keys = credentials.keys(namespace, access).await.map_err(|why| why.to_string())?;
    let transport = credentials.transport(&keys.tls).map_err(|why| why.to_string())?;
    Endpoint::new(transport, address, &keys.headers).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use llmscaler_api::parse_json;
    use serde_json::{Value, json};

    use super::*;

    fn asked_by(more: Value) -> Vec<Asked> {
        let mut spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 8,
            "serverAddress": "http://prometheus:9090"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
            "metadata": {"name": "x", "namespace": "serving"}, "spec": spec});
        asked(&parse_json(object).unwrap().parse().unwrap(), "serving")
    }

    #[test]
    fn every_query_of_a_sync_is_told_with_its_source() {
        let preset = json!({"name": "llm-d-EPP", "matchLabels": {"service": "epp"}});
        let slo = json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"});
        let asked = asked_by(json!({"metrics": [{"name": "q", "query": "sum(a)", "target": "1"}], "preset": preset, "slo": slo}));
        assert_eq!(asked[0], Asked { source: "q".to_owned(), what: What::Value("sum(a)".to_owned()) });
        let of_slo: Vec<_> = asked[1..].iter().map(|asked| (asked.source.as_str(), &asked.what)).collect();
        assert!(
            matches!(
                of_slo.as_slice(),
                [
                    ("slo", What::Quantile { name: "TTFT", promised: Some(_), .. }),
                    ("slo", What::Quantile { name: "TPOT", .. }),
                    ("slo", What::InFlight(_)),
                    ("slo", What::Inputs(_))
                ]
            ),
            "{of_slo:?}"
        );
    }

    #[test]
    fn pages_are_asked_for_signals_and_what_cannot_be_asked_says_why() {
        let preset = json!({"name": "vLLM"});
        let metrics = json!([{"signal": "queuedRequests", "target": "5"}]);
        let scrape = json!({"metricProvider": "Scrape", "serverAddress": null, "preset": preset, "metrics": metrics});
        assert_eq!(asked_by(scrape)[0].what, What::Signals(vec![Signal::QueuedRequests]));
        let unscoped = asked_by(json!({"preset": {"name": "vLLM"}, "metrics": metrics}));
        assert!(matches!(&unscoped[0].what, What::Nothing(why) if why.contains("model_name")), "{unscoped:?}");
    }
}
