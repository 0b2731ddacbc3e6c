//! The bounds of the histograms that vLLM and the llm-d router (EPP) keep.

/// EPP, time to first token as measured, in seconds: `llm_d_epp_request_ttft_seconds`.
pub const EPP_TTFT: &[f64] =
    &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0];

/// EPP, time to first token as predicted, in seconds: `llm_d_epp_request_predicted_ttft_seconds`.
pub const EPP_PREDICTED_TTFT: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0,
    180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// EPP, time per output token as measured, in seconds: `llm_d_epp_request_streaming_tpot_seconds`.
pub const EPP_TPOT: &[f64] =
    &[0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 2.0];

/// EPP, time per output token as predicted, in seconds: `llm_d_epp_request_predicted_tpot_seconds`.
pub const EPP_PREDICTED_TPOT: &[f64] = &[
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.5, 6.0,
    12.0, 18.0, 24.0, 30.0, 36.0, 48.0, 60.0, 90.0, 120.0, 180.0, 270.0, 360.0,
];

/// EPP, prompt length in tokens: `llm_d_epp_input_tokens`. That one bound is 32778 and no power of two is the router's.
pub const EPP_PROMPT: &[f64] = &[
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32778.0, 65536.0, 131072.0, 262144.0,
    524288.0, 1048576.0,
];

/// EPP, output length in tokens: `llm_d_epp_output_tokens`.
pub const EPP_OUTPUT: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];

/// vLLM, time to first token in seconds: `vllm:time_to_first_token_seconds`.
pub const VLLM_TTFT: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0];

/// vLLM, time between tokens and time per output token of a request, in seconds: `vllm:inter_token_latency_seconds` and
/// `vllm:request_time_per_output_token_seconds`.
pub const VLLM_TPOT: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// vLLM, lengths in tokens, `vllm:request_prompt_tokens` and `vllm:request_generation_tokens`: 1, 2 and 5 times the powers of ten up to
/// the longest context that the model takes, here 131,072 tokens.
pub const VLLM_LENGTH: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0];

/// Powers of two up to 2²¹, in tokens: as fine as the headroom law wants prompt lengths.
pub const POWERS_OF_TWO: &[f64] = &powers_of_two::<22>();

const fn powers_of_two<const N: usize>() -> [f64; N] {
    let mut bounds = [1.0; N];
    let mut i = 1;
    while i < N {
        bounds[i] = bounds[i - 1] * 2.0;
        i += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend() {
        let all = [EPP_TTFT, EPP_PREDICTED_TTFT, EPP_TPOT, EPP_PREDICTED_TPOT, EPP_PROMPT, EPP_OUTPUT, VLLM_TTFT, VLLM_TPOT, VLLM_LENGTH];
        for bounds in all.into_iter().chain([POWERS_OF_TWO]) {
            assert!(bounds[0] > 0.0 && bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        }
    }

    #[test]
    fn powers_of_two_end_where_documented() {
        assert_eq!(POWERS_OF_TWO.last(), Some(&2_097_152.0));
    }
}
