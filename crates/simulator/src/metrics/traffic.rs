//! What the headroom law measures.

use llmscaler_engine::{
    Bucket, Finished, InterToken, Late, Measurement, Rates, Traffic, histogram_quantile, share_above, squared_variation,
};

use super::latencies::measured;
use super::window::Window;
use super::{Group, Histograms, Metrics};
use crate::{Counts, Promised};

/// Windows of the rates in seconds.
const WINDOWS: [f64; 3] = [15.0, 30.0, 60.0];

impl Metrics {
    /// What the headroom law knows of the traffic at `now`.
    #[must_use]
    pub fn traffic(&self, promised: Promised, now: f64) -> Traffic {
        let [arrivals, prompt_tokens] = self.arrivals(now);
        let lengths = self.prompt_lengths(now);
        let finished = self.window(Group::Outputs, now, 120.0);
        let inter_token = self.window(Group::InterToken, now, 15.0).map(|window| window.engines_observed(|meters| &meters.inter_token));
        let [late_ttft, late_tpot] = self.late(promised, now);
        Traffic {
            arrivals,
            prompt_tokens,
            prompt_variation: lengths.as_ref().and_then(|lengths| squared_variation(lengths.cumulative())).and_then(Measurement::new),
            prompt_lengths: lengths.map(|lengths| lengths.each().collect::<Vec<Bucket>>()),
            finished: finished.as_ref().and_then(|window| self.finished(window)),
            median_output: finished.as_ref().and_then(|window| self.median_output(window)),
            inter_token: inter_token.as_ref().and_then(mean_gap),
            waiting: self.waiting(now).and_then(Measurement::new),
            kv_capacity: Measurement::new(self.kv_tokens),
            kv_used: self.kv_used(now).and_then(Measurement::new),
            running: self.running(now).and_then(Measurement::new),
            late_ttft,
            late_tpot,
        }
    }

    /// Requests and prompt tokens that arrive per second.
    fn arrivals(&self, now: f64) -> [Rates; 2] {
        let windows = WINDOWS.map(|seconds| self.window(Group::Arrivals, now, seconds));
        let requests = windows.each_ref().map(|window| window.as_ref().map(|window| self.requests(window)));
        let tokens = match self.settings.histograms {
            Histograms::Ideal => windows.map(|window| window.map(|window| self.tokens(&window))),
            // As the operator has them: tokens are counted when a prompt has been computed, too late to be added up.
            Histograms::Real => {
                let mean = windows.last().and_then(Option::as_ref).and_then(mean_prompt);
                requests.map(|rate| rate.and_then(|rate| if rate == 0.0 { Some(0.0) } else { mean.map(|mean| rate * mean) }))
            }
        };
        [requests, tokens].map(|rates| {
            let [over_15s, over_30s, over_60s] = rates.map(|rate| rate.and_then(Measurement::new));
            Rates { over_15s, over_30s, over_60s }
        })
    }

    fn requests(&self, window: &Window<'_>) -> f64 {
        if self.settings.gateway {
            window.rate(window.first.gateway.arrivals, window.last.gateway.arrivals)
        } else {
            let more = (self.in_flight_at(window.last) - self.in_flight_at(window.first)) / (window.last.at - window.first.at);
            (window.engines_rate(|engine| engine.finished) + more).max(0.0)
        }
    }

    /// Those of the very requests that arrive, as nobody in a cluster counts them; without a gateway those that were computed.
    fn tokens(&self, window: &Window<'_>) -> f64 {
        if self.settings.gateway {
            let cached = window.engines_rate(|engine| engine.cached_tokens);
            (window.rate(window.first.gateway.prompt_tokens, window.last.gateway.prompt_tokens) - cached).max(0.0)
        } else {
            window.engines_rate(|engine| engine.prompt_tokens)
        }
    }

    /// Whether the engines' histograms are what is known of requests.
    fn engines_tell(&self) -> bool {
        !self.settings.gateway || self.settings.histograms == Histograms::Real
    }

    fn prompt_lengths(&self, now: f64) -> Option<Counts> {
        let window = self.window(Group::PromptLengths, now, 60.0)?;
        Some(match self.engines_tell() {
            true => window.engines_observed(|meters| &meters.prompt_length),
            false => window.gateway_observed(|meters| &meters.prompt_length_ideal),
        })
    }

    fn finished(&self, window: &Window<'_>) -> Option<Finished> {
        let (requests, tokens) = if self.settings.gateway {
            let (first, last) = (&window.first.gateway, &window.last.gateway);
            (last.finished.saturating_sub(first.finished), last.output_tokens.saturating_sub(first.output_tokens))
        } else {
            // Tokens of requests that are under way count too: vLLM has no other counter.
            (window.engines_grew(|engine| engine.finished), window.engines_grew(|engine| engine.output_tokens))
        };
        Some(Finished { requests: Measurement::new(requests as f64)?, output_tokens: Measurement::new(tokens as f64)? })
    }

    fn median_output(&self, window: &Window<'_>) -> Option<Measurement> {
        let counts = match self.engines_tell() {
            true => window.engines_observed(|meters| &meters.output_length),
            false => window.gateway_observed(|meters| &meters.output_length),
        };
        Measurement::new(histogram_quantile(0.5, counts.cumulative()))
    }

    /// Requests of the last 15 s that were later than promised, by TTFT and by TPOT.
    fn late(&self, promised: Promised, now: f64) -> [Option<Late>; 2] {
        let Some(window) = self.window(Group::Latency, now, 15.0) else { return [None; 2] };
        let [ttft, tpot] = measured(&window, self.engines_tell());
        [share_late(promised.ttft, &ttft), share_late(promised.tpot, &tpot)]
    }
}

/// In tokens, less the cached ones: of the prompts that were computed within the window, or, without any, since the beginning. A prompt
/// is computed when its first token comes.
fn mean_prompt(window: &Window<'_>) -> Option<f64> {
    let (tokens, prompts) = (window.engines_rate(|engine| engine.prompt_tokens), window.engines_rate(|engine| engine.ttft.count()));
    if prompts > 0.0 {
        return Some(tokens / prompts);
    }
    let (tokens, prompts) = (window.last.engines.prompt_tokens as f64, window.last.engines.ttft.count() as f64);
    (prompts > 0.0).then(|| tokens / prompts)
}

fn mean_gap(gaps: &Counts) -> Option<InterToken> {
    let count = gaps.count() as f64;
    // Without a gap there is no mean, but it is known that there was none.
    let mean = if count > 0.0 { gaps.sum() / count } else { 0.0 };
    Some(InterToken { mean: Measurement::new(mean)?, count: Measurement::new(count)? })
}

/// Known without a request too: then none of none was late.
fn share_late(limit: f64, counts: &Counts) -> Option<Late> {
    let share = share_above(limit, counts.cumulative()).unwrap_or(0.0);
    Some(Late { share: Measurement::new(share)?, of: Measurement::new(counts.count() as f64)? })
}
