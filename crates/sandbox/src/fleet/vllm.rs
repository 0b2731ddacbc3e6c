//! What a replica says of itself, in the names of vLLM 0.11 and later.

use llmscaler_engine::Profile;
use llmscaler_simulator::EngineMeters;

use super::page::{Labels, Page};

/// Tokens of a block of the KV cache.
const BLOCK: u32 = 16;

/// The page of one replica. Of what vLLM states that is here which the simulator counts; so there is no queue time.
pub(super) fn page(meters: &EngineMeters, profile: &Profile) -> Page {
    let mut page = Page::default();
    let engine = || vec![("engine", "0".to_owned()), ("model_name", profile.name.clone())];
    let labels = &engine();
    let and = |more: Labels| -> Labels { engine().into_iter().chain(more).collect() };
    page.gauge("vllm:num_requests_running", "Requests in the batch", labels, meters.running);
    page.gauge("vllm:num_requests_waiting", "Requests that wait for a place in it", labels, meters.waiting);
    let usage = meters.kv_tokens as f64 / f64::from(profile.costs.kv_tokens);
    page.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 1 is all of it", labels, usage);
    let blocks = profile.costs.kv_tokens / BLOCK;
    let size = vec![("block_size", BLOCK.to_string()), ("engine", "0".to_owned()), ("num_gpu_blocks", blocks.to_string())];
    page.gauge("vllm:cache_config_info", "The size of the KV cache, in its labels", &size, 1.0);
    let finished = and(vec![("finished_reason", "stop".to_owned())]);
    page.counter("vllm:request_success", "Requests whose answer is complete", &finished, meters.finished);
    // vLLM counts cached tokens among those of prompts.
    page.counter("vllm:prompt_tokens", "Tokens of prompts", labels, meters.prompt_tokens + meters.cached_tokens);
    page.counter("vllm:prompt_tokens_cached", "Of these, tokens that were cached", labels, meters.cached_tokens);
    page.counter("vllm:generation_tokens", "Tokens of answers", labels, meters.output_tokens);
    page.counter("vllm:num_preemptions", "Requests put back for lack of KV cache", labels, meters.preemptions);
    page.histogram("vllm:time_to_first_token_seconds", "Time to first token", labels, &meters.ttft);
    page.histogram("vllm:inter_token_latency_seconds", "Time between tokens", labels, &meters.inter_token);
    page.histogram("vllm:request_time_per_output_token_seconds", "Mean time between the tokens of a request", labels, &meters.request_tpot);
    page.histogram("vllm:request_prompt_tokens", "Tokens of a prompt", labels, &meters.prompt_length);
    page.histogram("vllm:request_generation_tokens", "Tokens of an answer", labels, &meters.output_length);
    page
}
