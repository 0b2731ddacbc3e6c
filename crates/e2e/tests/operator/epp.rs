//! The endpoint picker of llm-d as its `/metrics` show it, with its real names, labels and bucket bounds.

use std::sync::Mutex;

use llmscaler_e2e::Exporter;
use serde_json::{Value, json};

/// The Service of the picker, a label that scraping adds.
pub const SERVICE: &str = "pool-epp";

/// Upper bounds of the buckets of TTFT in seconds.
const TTFT: [&str; 24] = [
    "0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "0.6", "0.8", "1", "1.25", "1.5", "2", "3", "4", "5", "6", "8", "10", "15", "20", "30",
    "45", "60", "120",
];

/// Upper bounds of the buckets of TPOT in seconds, the last of them above any time of these tests.
const TPOT: [&str; 12] = ["0.0005", "0.00205", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.125", "0.15", "0.2"];

/// Upper bounds of the buckets of the lengths of prompts and answers in tokens.
const TOKENS: [&str; 12] = ["1", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192"];

/// Latencies in seconds that a pool has when all is well: the P90 of TTFT reads 0.38 s, that of TPOT 0.019 s, a fifth of the promise.
pub const HEALTHY: (f64, f64) = (0.3, 0.015);

/// Latencies of a pool that is overrun: the P90 of TTFT reads 9.8 s.
pub const OVERRUN: (f64, f64) = (9.0, 0.05);

/// What a scaler of this picker's pool says of it.
pub fn preset() -> Value {
    json!({"name": "llm-d-EPP", "matchLabels": {"service": SERVICE}})
}

/// A picker, from its start on.
pub struct Epp<'a> {
    exporter: &'a Exporter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pod: u32,
    /// Requests by latency: TTFT and TPOT in seconds, and how many had them.
    answered: Vec<((f64, f64), f64)>,
    arrived: Arrived,
}

/// Requests that have come, and been answered, with the tokens of their prompts and answers.
#[derive(Default)]
struct Arrived {
    requests: f64,
    /// By length of prompt and answer, and how many had it.
    prompts: Vec<(f64, f64)>,
    outputs: Vec<(f64, f64)>,
}

impl<'a> Epp<'a> {
    /// One that has just started, and has answered nothing.
    pub fn start(exporter: &'a Exporter) -> Self {
        let epp = Self { exporter, state: Mutex::default() };
        epp.load(0, 0);
        epp.answered(0.0, HEALTHY);
        epp
    }

    /// Requests that run and that wait from now on.
    pub fn load(&self, running: u32, queued: u32) {
        let model = [("model_name", "qwen3-32b"), ("target_model_name", "qwen3-32b")];
        let flow = [("fairness_id", "default-flow"), ("priority", "0")];
        self.set("llm_d_epp_request_running", &[&model[..], &flow[..]].concat(), running.into());
        let pool = [("inference_pool", "pool")];
        self.set("llm_d_epp_flow_control_queue_size", &[&pool[..], &model[..1], &flow[..]].concat(), queued.into());
        let saturation = if queued > 0 { 1.0 } else { (f64::from(running) / 100.0).min(1.0) };
        self.set("llm_d_epp_flow_control_pool_saturation", &[&pool[..], &[("stage", "effective")]].concat(), saturation);
        self.set("llm_d_epp_ready_endpoints", &[("name", "pool")], 1.0);
    }

    /// So many more requests, predicted and answered with these latencies: TTFT and TPOT in seconds.
    pub fn answered(&self, requests: f64, latencies: (f64, f64)) {
        let mut merged = std::mem::take(&mut self.state.lock().unwrap().answered);
        add(&mut merged, latencies, requests);
        let model = [("model_name", "qwen3-32b"), ("target_model_name", "qwen3-32b")];
        let flow = [("fairness_id", "default-flow"), ("priority", "0")];
        let plugin = [("plugin_name", "predicted-latency-producer"), ("plugin_type", "predicted-latency-producer")];
        let predicted = [&plugin[..], &model[..]].concat();
        let measured = [&model[..], &flow[..]].concat();
        let streamed = [&measured[..], &[("streaming", "true")]].concat();
        // Predicted times of the first token have more bounds.
        let longer = [&TTFT[..], &["300", "600", "1200", "1800", "2700", "3600"]].concat();
        self.histogram("llm_d_epp_request_predicted_ttft_seconds", &predicted, &longer, &merged, |(ttft, _)| ttft);
        self.histogram("llm_d_epp_request_predicted_tpot_seconds", &predicted, &TPOT, &merged, |(_, tpot)| tpot);
        self.histogram("llm_d_epp_request_ttft_seconds", &streamed, &TTFT, &merged, |(ttft, _)| ttft);
        self.histogram("llm_d_epp_request_streaming_tpot_seconds", &measured, &TPOT, &merged, |(_, tpot)| tpot);
        self.state.lock().unwrap().answered = merged;
    }

    /// So many more requests have come and ended, each with so many tokens in its prompt and in its answer.
    pub fn arrived(&self, requests: f64, prompt: f64, output: f64) {
        let arrived = {
            let mut state = self.state.lock().unwrap();
            state.arrived.requests += requests;
            add(&mut state.arrived.prompts, prompt, requests);
            add(&mut state.arrived.outputs, output, requests);
            std::mem::take(&mut state.arrived)
        };
        let model = [("model_name", "qwen3-32b"), ("target_model_name", "qwen3-32b")];
        let labels = [&model[..], &[("fairness_id", "default-flow"), ("priority", "0")]].concat();
        self.set("llm_d_epp_request_total", &labels, arrived.requests);
        for (name, lengths) in [("llm_d_epp_request_input_tokens", &arrived.prompts), ("llm_d_epp_request_output_tokens", &arrived.outputs)]
        {
            let observed: Vec<_> = lengths.iter().map(|(length, count)| ((*length, 0.0), *count)).collect();
            self.histogram(name, &labels, &TOKENS, &observed, |(length, _)| length);
            self.set(&format!("{name}_sum"), &labels, lengths.iter().map(|(length, count)| length * count).sum());
            self.set(&format!("{name}_count"), &labels, lengths.iter().map(|(_, count)| count).sum());
        }
        self.state.lock().unwrap().arrived = arrived;
    }

    /// Its series end, as those of a pod that is gone.
    pub fn goes(&self) {
        self.exporter.clear();
    }

    /// It is back, as another pod, and has answered nothing.
    pub fn comes_back(&self) {
        let before = std::mem::take(&mut *self.state.lock().unwrap());
        self.state.lock().unwrap().pod = before.pod + 1;
        self.load(0, 0);
        self.answered(0.0, HEALTHY);
    }

    /// Its container restarts: the series go on, and count from zero.
    pub fn counts_from_zero(&self) {
        self.state.lock().unwrap().answered.iter_mut().for_each(|(_, count)| *count = 0.0);
        self.answered(0.0, HEALTHY);
    }

    fn histogram(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        bounds: &[&str],
        observed: &[((f64, f64), f64)],
        of: impl Fn((f64, f64)) -> f64,
    ) {
        for bound in bounds.iter().chain(&["+Inf"]) {
            let upper: f64 = bound.trim_start_matches('+').parse().unwrap();
            let count: f64 = observed.iter().filter(|(latencies, _)| of(*latencies) <= upper).map(|(_, count)| count).sum();
            self.set(&format!("{name}_bucket"), &[labels, &[("le", bound)]].concat(), count);
        }
    }

    fn set(&self, metric: &str, labels: &[(&str, &str)], value: f64) {
        let number = self.state.lock().unwrap().pod;
        let (pod, instance) = (format!("{SERVICE}-{number}"), format!("10.0.0.{number}:9090"));
        let scraped = [("service", SERVICE), ("pod", &pod), ("instance", &instance), ("job", SERVICE)];
        self.exporter.set(metric, &[&scraped[..], labels].concat(), value);
    }
}

/// Counts so many more that are alike.
fn add<T: PartialEq>(counts: &mut Vec<(T, f64)>, of: T, more: f64) {
    match counts.iter_mut().find(|(other, _)| *other == of) {
        Some((_, count)) => *count += more,
        None => counts.push((of, more)),
    }
}
