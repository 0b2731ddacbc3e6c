//! What a real Prometheus answers to the queries of the presets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use llmscaler_e2e::{ControlPlane, Exporter};
use llmscaler_engine::{Measurement, Traffic};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Scope, Signal};
use llmscaler_signals::slo::LatencyQueries;
use llmscaler_signals::{Endpoint, PrometheusClient, Promised, TlsSettings, Transport};

type Labels<'a> = &'a [(&'a str, &'a str)];

/// A pool of its own in a Prometheus that all tests share.
struct Pool {
    plane: Arc<ControlPlane>,
    exporter: Exporter,
    namespace: &'static str,
    preset: &'static Preset,
    scope: Scope,
}

impl Pool {
    /// `None` where the control plane was never built.
    async fn new(preset: &str, namespace: &'static str, (label, value): (&str, &str)) -> Option<Self> {
        let plane = ControlPlane::shared().await?;
        let exporter = plane.exporter();
        let scope = Scope::new(namespace, [(label, value)]);
        Some(Self { exporter, plane, namespace, preset: Preset::named(preset).unwrap(), scope })
    }

    fn set(&self, metric: &str, labels: Labels<'_>, value: f64) {
        self.exporter.set(metric, &self.labels(labels), value);
    }

    /// Observations so far of a histogram, cumulative, by upper bound.
    fn observed(&self, histogram: &str, labels: Labels<'_>, buckets: [(&str, f64); 4]) {
        for (le, count) in buckets {
            let labels: Vec<_> = labels.iter().copied().chain([("le", le)]).collect();
            self.set(&format!("{histogram}_bucket"), &labels, count);
        }
    }

    fn labels<'a>(&self, labels: Labels<'a>) -> Vec<(&'a str, &'a str)> {
        [("namespace", self.namespace)].into_iter().chain(labels.iter().copied()).collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    async fn value(&self, query: &str) -> Option<f64> {
        let answer = self.plane.prometheus().query(query).await;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let results = answer["data"]["result"].as_array().unwrap().len();
        assert!(results <= 1, "{query}: {answer}");
        self.plane.prometheus().value(query).await
    }

    async fn total(&self, signal: Signal) -> Option<f64> {
        self.value(&self.preset.query(signal, Aggregate::Total, &self.scope).unwrap()).await
    }

    async fn per_replica(&self, signal: Signal) -> Option<f64> {
        self.value(&self.preset.query(signal, Aggregate::PerReplica, &self.scope).unwrap()).await
    }

    async fn quantile(&self, latency: Latency) -> Option<f64> {
        self.value(&self.preset.latency_query(latency, 0.9, &self.scope).unwrap()).await
    }

    async fn traffic(&self) -> Option<f64> {
        self.value(&self.preset.traffic_query(&self.scope).unwrap()).await
    }
}

#[track_caller]
fn close(value: Option<f64>, expected: f64) {
    assert!(value.is_some_and(|value| (value - expected).abs() < 1e-9), "{value:?}, not {expected}");
}

/// One observation of each histogram in (upper bound before, upper bound], of the bounds that the EPP has.
const IN_FIRST: [(&str, f64); 4] = [("0.2", 10.0), ("0.4", 10.0), ("2", 10.0), ("+Inf", 10.0)];
const IN_SECOND: [(&str, f64); 4] = [("0.2", 0.0), ("0.4", 10.0), ("2", 10.0), ("+Inf", 10.0)];
const IN_THIRD: [(&str, f64); 4] = [("0.2", 0.0), ("0.4", 0.0), ("2", 10.0), ("+Inf", 10.0)];
const NONE: [(&str, f64); 4] = [("0.2", 0.0), ("0.4", 0.0), ("2", 0.0), ("+Inf", 0.0)];

#[tokio::test]
async fn vllm_in_the_middle_of_an_upgrade_and_with_several_engines() {
    let Some(pool) = Pool::new("vLLM", "presets-vllm", ("model_name", "qwen")).await else { return };
    let pod = |pod: &'static str, instance: &'static str, engine: &'static str, job: &'static str| {
        [("pod", pod), ("instance", instance), ("engine", engine), ("job", job), ("model_name", "qwen")]
    };
    let (old, both, new) =
        (pod("old", "10.0.0.1:8000", "0", "vllm"), pod("both", "10.0.0.2:8000", "0", "vllm"), pod("new", "10.0.0.3:8000", "0", "vllm"));
    pool.set("vllm:gpu_cache_usage_perc", &old, 0.3);
    pool.set("vllm:gpu_cache_usage_perc", &both, 0.6);
    pool.set("vllm:kv_cache_usage_perc", &both, 0.6);
    pool.set("vllm:kv_cache_usage_perc", &new, 0.9);
    // One pod with two engines on one port, one with two on two ports, one that two jobs scrape, and one without a pod label.
    pool.set("vllm:num_requests_waiting", &pod("dp", "10.0.0.4:8000", "0", "vllm"), 3.0);
    pool.set("vllm:num_requests_waiting", &pod("dp", "10.0.0.4:8000", "1", "vllm"), 5.0);
    pool.set("vllm:num_requests_waiting", &pod("ports", "10.0.0.5:8000", "0", "vllm"), 2.0);
    pool.set("vllm:num_requests_waiting", &pod("ports", "10.0.0.5:8001", "0", "vllm"), 2.0);
    pool.set("vllm:num_requests_waiting", &pod("twice", "10.0.0.6:8000", "0", "vllm"), 6.0);
    pool.set("vllm:num_requests_waiting", &pod("twice", "10.0.0.6:8000", "0", "other"), 6.0);
    pool.set("vllm:num_requests_waiting", &[("instance", "10.0.0.7:8000"), ("engine", "0"), ("model_name", "qwen")], 2.0);
    pool.set("vllm:num_requests_waiting", &[("instance", "10.0.0.7:8001"), ("engine", "0"), ("model_name", "qwen")], 4.0);
    // Neighbours.
    pool.set("vllm:num_requests_waiting", &[("pod", "x"), ("model_name", "llama")], 100.0);
    pool.set("vllm:num_requests_waiting", &[("pod", "x"), ("model_name", "qwen"), ("namespace", "presets-other")], 100.0);
    pool.exporter.scraped().await;

    close(pool.total(Signal::KvCacheUsage).await, 0.3 + 0.6 + 0.9);
    close(pool.per_replica(Signal::KvCacheUsage).await, 0.6);
    close(pool.total(Signal::QueuedRequests).await, 24.0);
    close(pool.per_replica(Signal::QueuedRequests).await, 24.0 / 4.0);
    assert_eq!(pool.total(Signal::RunningRequests).await, None, "no series is no result, not zero");
    assert_eq!(pool.traffic().await, None, "the queue alone does not prove idleness");

    // The time between tokens: one pod calls it by the old name, one by both, one by the new.
    for begun in [false, true] {
        let of = |buckets| if begun { buckets } else { NONE };
        pool.observed("vllm:time_per_output_token_seconds", &old, of(IN_FIRST));
        pool.observed("vllm:time_per_output_token_seconds", &both, of(IN_SECOND));
        pool.observed("vllm:inter_token_latency_seconds", &both, of(IN_SECOND));
        pool.observed("vllm:inter_token_latency_seconds", &new, of(IN_THIRD));
        pool.exporter.scraped().await;
    }
    // 30 requests in three buckets: the 27th of them is the 7th of 10 in (0.4, 2]. Counted twice, `both` would make it the 6th.
    close(pool.quantile(Latency::Tpot).await, 0.4 + 0.7 * 1.6);
}

#[tokio::test]
async fn epp_of_two_generations_of_names() {
    let Some(pool) = Pool::new("llm-d-EPP", "presets-epp", ("service", "pool-a-epp")).await else { return };
    let epp = [("service", "pool-a-epp"), ("instance", "10.0.1.1:9090"), ("job", "epp")];
    let with = |pod: &'static str, more: Labels<'static>| [&epp[..], &[("pod", pod)], more].concat();

    // A router that has just started, without flow control, knows its endpoints and nothing else.
    pool.set("llm_d_epp_ready_endpoints", &with("new", &[("name", "pool-a")]), 4.0);
    pool.exporter.scraped().await;
    close(pool.total(Signal::RunningRequests).await, 0.0);
    close(pool.traffic().await, 0.0);
    assert_eq!(pool.total(Signal::QueuedRequests).await, None, "without flow control there is no queue to be empty");
    // With flow control it states its saturation, and a flow only while there is one.
    pool.set("llm_d_epp_flow_control_pool_saturation", &with("new", &[("inference_pool", "pool-a"), ("stage", "decode")]), 0.5);
    pool.set("llm_d_epp_flow_control_pool_saturation", &with("new", &[("inference_pool", "pool-a"), ("stage", "effective")]), 0.7);
    pool.exporter.scraped().await;
    close(pool.total(Signal::QueuedRequests).await, 0.0);
    close(pool.per_replica(Signal::PoolSaturation).await, 0.7);
    close(pool.total(Signal::PoolSaturation).await, 0.7 * 4.0);

    // The same 8 requests under a new name by fairness and under an old one; and 2 more of a second, old router.
    pool.set("llm_d_epp_request_running", &with("new", &[("model_name", "qwen"), ("fairness_id", "a")]), 5.0);
    pool.set("llm_d_epp_request_running", &with("new", &[("model_name", "qwen"), ("fairness_id", "b")]), 3.0);
    pool.set("inference_objective_running_requests", &with("new", &[("model_name", "qwen")]), 8.0);
    pool.set("inference_objective_running_requests", &with("old", &[("model_name", "qwen")]), 2.0);
    pool.set("inference_pool_ready_pods", &with("old", &[("name", "pool-a")]), 4.0);
    pool.set("llm_d_epp_flow_control_queue_size", &with("new", &[("inference_pool", "pool-a"), ("priority", "0")]), 6.0);
    pool.set("inference_extension_flow_control_queue_size", &with("new", &[("inference_pool", "pool-a"), ("priority", "0")]), 6.0);
    // The router of another pool of the namespace serves the same model.
    pool.set("llm_d_epp_request_running", &[("service", "pool-b-epp"), ("pod", "b"), ("model_name", "qwen")], 100.0);
    // In-flight tokens: two ranks of one pod, one of another.
    for (endpoint, tokens) in [("decode-0-rank-0", 30.0), ("decode-0-rank-1", 10.0), ("decode-1:8000", 20.0)] {
        pool.set("llm_d_epp_inflight_tokens", &[&epp[..], &[("pod", "new"), ("endpoint_name", endpoint)]].concat(), tokens);
    }
    pool.exporter.scraped().await;
    close(pool.total(Signal::RunningRequests).await, 10.0);
    close(pool.per_replica(Signal::RunningRequests).await, 2.5);
    close(pool.total(Signal::QueuedRequests).await, 6.0);
    close(pool.traffic().await, 16.0);
    close(pool.total(Signal::InflightTokens).await, 60.0);
    close(pool.per_replica(Signal::InflightTokens).await, 30.0);

    // The pool's name is another label on each of the two.
    let by_pool = Scope::new("presets-epp", [("inference_pool", "pool-a")]);
    let queue = pool.preset.query(Signal::QueuedRequests, Aggregate::PerReplica, &by_pool).unwrap();
    close(pool.value(&queue).await, 1.5);
}

#[tokio::test]
async fn predicted_latency_counts_until_the_predictor_is_dead() {
    let Some(pool) = Pool::new("llm-d-EPP", "presets-slo", ("service", "pool-a-epp")).await else { return };
    let epp = [("service", "pool-a-epp"), ("instance", "10.0.2.1:9090"), ("job", "epp"), ("pod", "epp-0")];
    let with = |more: Labels<'static>| [&epp[..], more].concat();
    let (streamed, whole) = (with(&[("streaming", "true")]), with(&[("streaming", "false")]));
    for begun in [false, true] {
        let of = |buckets| if begun { buckets } else { NONE };
        // TTFT: the predictor is dead, and answers that are not streamed take long. TPOT: it is alive, under the old name too.
        pool.observed("llm_d_epp_request_predicted_ttft_seconds", &epp, IN_THIRD);
        pool.observed("llm_d_epp_request_ttft_seconds", &streamed, of(IN_SECOND));
        pool.observed("llm_d_epp_request_ttft_seconds", &whole, of(IN_THIRD));
        pool.observed("llm_d_epp_request_predicted_tpot_seconds", &epp, of(IN_FIRST));
        pool.observed("inference_objective_request_predicted_tpot_seconds", &epp, of(IN_FIRST));
        pool.observed("llm_d_epp_request_streaming_tpot_seconds", &epp, of(IN_THIRD));
        pool.exporter.scraped().await;
    }
    close(pool.quantile(Latency::Ttft).await, 0.2 + 0.9 * 0.2);
    close(pool.quantile(Latency::Tpot).await, 0.9 * 0.2);
}

#[tokio::test]
async fn idle_is_proved_and_a_lost_scrape_is_not_idle() {
    let Some(pool) = Pool::new("llm-d-EPP", "presets-idle", ("service", "pool-a-epp")).await else { return };
    let epp = [("service", "pool-a-epp"), ("instance", "10.0.3.1:9090"), ("job", "epp"), ("pod", "epp-0")];
    let endpoint = Endpoint::new(Transport::new(&TlsSettings::default()).unwrap(), pool.plane.prometheus().url(), &BTreeMap::new());
    let prometheus = PrometheusClient::new(endpoint.unwrap());
    let queries = LatencyQueries {
        ttft: Some(pool.preset.latency_query(Latency::Ttft, 0.9, &pool.scope).unwrap()),
        tpot: Some(pool.preset.latency_query(Latency::Tpot, 0.9, &pool.scope).unwrap()),
        traffic: Some(pool.preset.traffic_query(&pool.scope).unwrap()),
    };
    let readings = async || {
        let readings = prometheus.latencies(&queries).await;
        let (ttft, tpot) = (readings.ttft.unwrap(), readings.tpot.unwrap());
        assert_eq!(ttft.is_unknown(), tpot.is_unknown(), "{ttft:?}, {tpot:?}");
        format!("{ttft:?}")
    };
    let says = |reading: String, text: &str| assert!(reading.contains(text), "{reading}");

    // TTFT has been observed, long ago, and TPOT never.
    pool.set("llm_d_epp_ready_endpoints", &epp, 2.0);
    pool.set("llm_d_epp_request_running", &epp, 0.0);
    pool.observed("llm_d_epp_request_ttft_seconds", &[&epp[..], &[("streaming", "true")]].concat(), IN_FIRST);
    pool.exporter.scraped().await;
    pool.exporter.scraped().await;
    assert!(pool.quantile(Latency::Ttft).await.is_some_and(f64::is_nan));
    assert_eq!(pool.quantile(Latency::Tpot).await, None);
    says(readings().await, "Idle");
    // Requests that nobody answers.
    pool.set("llm_d_epp_request_running", &epp, 7.0);
    pool.exporter.scraped().await;
    says(readings().await, "7 requests are running or queued");
    // The last minute is still there, and says nothing of now.
    pool.set("llm_d_epp_request_running", &epp, 0.0);
    pool.exporter.scraped().await;
    pool.exporter.fail(true);
    pool.exporter.scraped().await;
    assert_eq!(pool.traffic().await, None);
    says(readings().await, "whether the pool is idle is not known");
}

#[tokio::test]
async fn traffic_of_engines_and_of_a_router() {
    let Some(pool) = Pool::new("vLLM", "presets-traffic", ("model_name", "qwen")).await else { return };
    let promised = Promised { ttft: 0.3, tpot: 0.3 };
    let endpoint = Endpoint::new(Transport::new(&TlsSettings::default()).unwrap(), pool.plane.prometheus().url(), &BTreeMap::new());
    let prometheus = PrometheusClient::new(endpoint.unwrap());
    let target = [("pod", "a"), ("instance", "10.0.4.1:8000"), ("job", "vllm"), ("engine", "0")];
    let engine = [&target[..], &[("model_name", "qwen")]].concat();
    pool.set("vllm:cache_config_info", &[&target[..], &[("num_gpu_blocks", "1000"), ("block_size", "16")]].concat(), 1.0);
    // Another pool of the namespace, of twice the size; its series do not name its model either.
    let other = [("pod", "x"), ("instance", "10.0.4.2:8000"), ("job", "vllm"), ("engine", "0")];
    pool.set("vllm:cache_config_info", &[&other[..], &[("num_gpu_blocks", "2000"), ("block_size", "16")]].concat(), 1.0);
    pool.set("vllm:num_requests_running", &[&other[..], &[("model_name", "llama")]].concat(), 50.0);
    for begun in [0.0, 1.0] {
        for (gauge, value) in [("num_requests_running", 4.0), ("num_requests_waiting", 3.0), ("kv_cache_usage_perc", 0.5)] {
            pool.set(&format!("vllm:{gauge}"), &engine, value);
        }
        for (counter, value) in [
            ("request_success_total", 10.0),
            ("prompt_tokens_total", 5000.0),
            ("prompt_tokens_cached_total", 1000.0),
            ("time_to_first_token_seconds_count", 10.0),
            ("request_generation_tokens_sum", 700.0),
            ("request_generation_tokens_count", 10.0),
            ("inter_token_latency_seconds_sum", 20.0),
            ("inter_token_latency_seconds_count", 500.0),
        ] {
            pool.set(&format!("vllm:{counter}"), &engine, begun * value);
        }
        let of = |buckets| if begun > 0.0 { buckets } else { NONE };
        pool.observed("vllm:time_to_first_token_seconds", &engine, of(IN_SECOND));
        pool.observed("vllm:request_time_per_output_token_seconds", &engine, of(IN_THIRD));
        pool.observed("vllm:request_prompt_tokens", &engine, of(IN_FIRST));
        pool.exporter.scraped().await;
    }
    let found = prometheus.traffic(&pool.preset.traffic_queries(&pool.scope).unwrap(), &promised).await;
    let of = |measured: Option<Measurement>| measured.map(Measurement::get);
    let ratio = |tokens: Option<Measurement>, requests: Option<Measurement>| Some(of(tokens)? / of(requests)?);
    close(ratio(found.prompt_tokens.over_60s, found.arrivals.over_60s), 400.0);
    let finished = found.finished.unwrap();
    // Two queries, a moment apart.
    assert!(ratio(Some(finished.output_tokens), Some(finished.requests)).is_some_and(|mean| (mean - 70.0).abs() < 1.0), "{finished:?}");
    close(found.inter_token.map(|inter_token| inter_token.mean.get()), 0.04);
    close(of(found.waiting), 3.0);
    close(of(found.running), 4.0);
    close(of(found.kv_capacity), 16_000.0);
    close(of(found.kv_used), 8000.0);
    // Ten in (0.2, 0.4], and ten above that.
    close(found.late_ttft.map(|late| late.share.get()), 0.5);
    close(found.late_tpot.map(|late| late.share.get()), 1.0);
    assert_eq!(found.prompt_lengths.map(|buckets| buckets.len()), Some(4));

    // A router with nothing to say yet: what is there and not there is read without an error of Prometheus.
    for (preset, label) in [("llm-d-EPP", "service"), ("SGLang", "model_name")] {
        let scope = Scope::new("presets-traffic", [(label, "nobody")]);
        let queries = Preset::named(preset).unwrap().traffic_queries(&scope).unwrap();
        for query in [queries.arrivals_15s, queries.mean_prompt, queries.inter_token, queries.waiting, queries.ttft].into_iter().flatten() {
            assert_eq!(pool.value(&query).await, None, "{query}");
        }
        assert_eq!(
            prometheus.traffic(&Preset::named(preset).unwrap().traffic_queries(&scope).unwrap(), &promised).await,
            Traffic::default()
        );
    }
}

#[tokio::test]
async fn sglang_ranks_repeat_each_other_and_priorities_their_sum() {
    let Some(pool) = Pool::new("SGLang", "presets-sglang", ("model_name", "qwen")).await else { return };
    let series = |pod: &'static str, tp: &'static str, dp: &'static str, priority: &'static str| {
        [("pod", pod), ("instance", pod), ("model_name", "qwen"), ("tp_rank", tp), ("dp_rank", dp), ("priority", priority)]
    };
    for tp in ["0", "1"] {
        pool.set("sglang:num_running_reqs", &series("a", tp, "0", ""), 4.0);
        pool.set("sglang:num_running_reqs", &series("a", tp, "1", ""), 2.0);
        pool.set("sglang:num_running_reqs", &series("a", tp, "0", "7"), 4.0);
    }
    pool.set("sglang:num_running_reqs", &series("b", "0", "0", ""), 3.0);
    // An engine that has not served anything has no queue to show.
    pool.set("sglang:max_total_num_tokens", &series("a", "0", "0", ""), 1e5);
    pool.exporter.scraped().await;
    close(pool.total(Signal::RunningRequests).await, 9.0);
    close(pool.per_replica(Signal::RunningRequests).await, 4.5);
    close(pool.total(Signal::QueuedRequests).await, 0.0);
    close(pool.traffic().await, 9.0);
}
