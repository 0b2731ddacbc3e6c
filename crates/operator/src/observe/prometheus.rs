//! What a Prometheus is asked.

use llmscaler_engine::{Reading, Traffic};
use llmscaler_signals::PrometheusClient;
use llmscaler_signals::slo::{LatencyQueries, LatencyReadings};

use super::answer::{Answer, saturation};
use crate::questions::{LatencyQuestion, Question, SloQuestion, TrafficQuestion};

pub(super) async fn ask(client: &PrometheusClient, question: &Question) -> Answer {
    match question {
        Question::Query(query) => client.query_value(query).await.into(),
        Question::Slo(slo) => {
            let (reading, traffic) = tokio::join!(latencies(client, slo), traffic(client, slo));
            Answer { reading, traffic }
        }
        Question::Unanswerable(why) => Reading::unknown(why.clone()).into(),
        Question::Signal(..) | Question::Decision { .. } => Reading::unknown("a Prometheus is asked in PromQL alone").into(),
    }
}

async fn traffic(client: &PrometheusClient, slo: &SloQuestion) -> Option<Box<Traffic>> {
    let TrafficQuestion { promised, queries: Some(Ok(queries)) } = slo.traffic.as_deref()? else { return None };
    Some(Box::new(client.traffic(queries, promised).await))
}

async fn latencies(client: &PrometheusClient, slo: &SloQuestion) -> Reading {
    if let Some(query) = &slo.saturation {
        return client.saturation(query, slo.in_flight.as_deref()).await;
    }
    let query = |latency: &Option<LatencyQuestion>| latency.as_ref().and_then(|latency| latency.query.as_ref()?.as_ref().ok().cloned());
    let queries = LatencyQueries { ttft: query(&slo.ttft), tpot: query(&slo.tpot), traffic: slo.in_flight.clone() };
    let LatencyReadings { ttft, tpot } = client.latencies(&queries).await;
    // What was promised and cannot be asked for is unknown.
    let or_unknown = |reading: Option<Reading>, latency: &Option<LatencyQuestion>| {
        reading.or_else(|| Some(Reading::unknown(latency.as_ref()?.query.as_ref()?.as_ref().err()?.as_str())))
    };
    let (ttft, tpot) = (or_unknown(ttft, &slo.ttft), or_unknown(tpot, &slo.tpot));
    saturation(slo, ttft.as_ref(), tpot.as_ref())
}
