//! What the endpoint picker of a fleet says, in the names of llm-d's router 0.9 and later.

use llmscaler_simulator::{EngineMeters, GatewayMeters};

use super::Plan;
use super::page::Page;

/// The page. `engines` are the endpoints that are ready. Of what the router states that is here which the simulator counts; so there
/// is no saturation of the pool.
pub(super) fn page(gateway: &GatewayMeters, engines: &[&EngineMeters], plan: &Plan) -> Page {
    let mut page = Page::default();
    let model = || plan.profile.name.clone();
    let requests = &vec![("model_name", model()), ("target_model_name", model())];
    let streamed = &vec![("model_name", model()), ("streaming", "true".to_owned()), ("target_model_name", model())];
    let pool = &vec![("name", plan.name.clone())];
    let queue = &vec![("inference_pool", plan.name.clone()), ("model_name", model())];
    page.gauge("llm_d_epp_flow_control_queue_size", "Requests that are held back", queue, gateway.queued);
    page.gauge("llm_d_epp_request_running", "Requests at the endpoints", requests, gateway.in_flight);
    page.gauge("llm_d_epp_ready_endpoints", "Endpoints that are ready", pool, engines.len() as u32);
    let mean = |of: &dyn Fn(&EngineMeters) -> f64| engines.iter().map(|meters| of(meters)).sum::<f64>() / engines.len().max(1) as f64;
    let usage = mean(&|meters| meters.kv_tokens as f64 / f64::from(plan.profile.costs.kv_tokens));
    page.gauge("llm_d_epp_average_kv_cache_utilization", "Mean share of the KV caches in use", pool, usage);
    page.gauge(
        "llm_d_epp_average_queue_size",
        "Mean number of requests that wait at an endpoint",
        pool,
        mean(&|meters| f64::from(meters.waiting)),
    );
    page.counter("llm_d_epp_request", "Requests that arrived", requests, gateway.arrivals);
    page.histogram("llm_d_epp_request_ttft_seconds", "Time to first token", streamed, &gateway.ttft);
    page.histogram("llm_d_epp_request_streaming_tpot_seconds", "Mean time between the tokens of a request", requests, &gateway.tpot);
    page.histogram("llm_d_epp_request_predicted_ttft_seconds", "Time to first token, as predicted", requests, &gateway.predicted_ttft);
    page.histogram("llm_d_epp_request_predicted_tpot_seconds", "Time between tokens, as predicted", requests, &gateway.predicted_tpot);
    page.histogram("llm_d_epp_request_input_tokens", "Tokens of a prompt", requests, &gateway.prompt_length);
    page.histogram("llm_d_epp_request_output_tokens", "Tokens of an answer", requests, &gateway.output_length);
    page
}
