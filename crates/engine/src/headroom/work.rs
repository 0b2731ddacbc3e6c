//! Step 2: what a request costs a replica, by the profile and corrected by what was measured.

use serde::{Deserialize, Serialize};

use super::TICK;
use super::demand::NORMAL_QUEUE;
use super::inputs::{Arrivals, Inputs};
use super::numbers::{ratio, same, within};
use super::shape::Shape;
use crate::{Costs, Headroom};

/// What a tick leaves of the sums for the context: a minute of gauges says more than one.
const CONTEXT_KEPT: f64 = 0.99;
/// The context counts for as many requests before the first gauge is read.
const CONTEXT_PRIOR: f64 = 50.0;
/// How fast the fastest step is forgotten, per tick: it doubles in 14 hours of slower ones, so that a lucky one does not stay.
const FASTEST_CREEP: f64 = 1.0002;
/// A mean time between tokens of fewer gaps than this says nothing.
const FEWEST_GAPS: f64 = 50.0;
/// What a tick leaves of the calibration: half of it is from the last 35 minutes of busy ticks.
const CALIBRATION_KEPT: f64 = 0.995;
/// Weight of a named profile in busy ticks: some three minutes at half load halve its error.
const WEIGHT_OF_PROFILE: f64 = 6.0;
/// Weight of the profile that stands in where none is named.
const WEIGHT_OF_DEFAULT: f64 = 1.5;
/// Below this busy share the noise of the fastest step is larger than what it tells.
const LEAST_BUSY: f64 = 0.15;
/// Ticks that a fleet must have been as planned before arrivals tell what it serves.
const SETTLED: u32 = 2;
/// Seconds that completions look back.
pub(super) const COMPLETIONS: f64 = 120.0;
/// The same for completions: as many ticks as they look back.
const SETTLED_WITH_QUEUE: u32 = (COMPLETIONS / TICK) as u32;

/// The coefficients of the profile, as law.md names them, kept within reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    /// a: seconds of a step at any rate.
    pub base: f64,
    /// b: seconds per prompt token.
    pub prompt_token: f64,
    /// e: seconds per prompt token and token before it.
    pub attention: f64,
    /// c: seconds per sequence and step.
    pub sequence: f64,
    /// d: seconds per token in the KV cache and step.
    pub kv_token: f64,
    /// KV cache in tokens; `None` where only the default profile would tell.
    pub kv_capacity: Option<f64>,
    /// Most sequences at once.
    pub max_sequences: f64,
    /// What the profile weighs against measurements, in busy ticks.
    weight: f64,
}

impl Model {
    pub(super) fn of(law: &Headroom) -> Self {
        let Costs { overhead, weights, prompt_token, attention, sequence, kv_token, kv_tokens, max_sequences, .. } = law.costs;
        let seconds = |cost: f64| within(cost, 0.0, 1e3);
        Self {
            base: seconds(overhead + weights),
            prompt_token: seconds(prompt_token),
            attention: seconds(attention),
            sequence: seconds(sequence),
            kv_token: seconds(kv_token),
            kv_capacity: law.profile_is_given.then_some(f64::from(kv_tokens)),
            max_sequences: f64::from(max_sequences),
            weight: if law.profile_is_given { WEIGHT_OF_PROFILE } else { WEIGHT_OF_DEFAULT },
        }
    }

    /// p*: the prompt in tokens that takes `seconds` on an idle replica, by a model corrected by `eta`. Infinite without a cost.
    pub(super) fn longest_within(&self, seconds: f64, eta: f64) -> f64 {
        let (b, e) = (eta * self.prompt_token, eta * self.attention);
        let below = b + (b * b + 2.0 * e * seconds).sqrt();
        ratio(2.0 * seconds, below, f64::INFINITY)
    }
}

/// What was measured of the engine, and of its profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Calibration {
    /// A: the fastest mean step of late in seconds; `None` (without end) until one was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    fastest: Option<f64>,
    /// Sn: busy ticks, fading.
    busy: f64,
    /// Sl: sum over them of busy share × ln(busy share measured ÷ planned).
    log_error: f64,
    /// K: KV tokens in use, fading.
    kv: f64,
    /// R: running requests, fading.
    running: f64,
    /// a, b, e, c and d of the profile that Sn and Sl are about.
    profile: [f64; 5],
}

/// What one request costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// P in tokens.
    pub prompt: f64,
    /// O in tokens.
    pub output: f64,
    /// ctx: tokens that a running request has in the KV cache.
    pub context: f64,
    /// tau_p: seconds of a replica per prompt token, by the profile.
    pub per_token: f64,
    /// tau_d: seconds of a replica per request for decoding, by the profile.
    pub decoding: f64,
    /// w1 = P tau_p + tau_d, seconds.
    pub by_profile: f64,
    /// eta: by how much the profile is too cheap.
    pub eta: f64,
    /// a′: seconds of the shortest step.
    pub shortest_step: f64,
}

impl Work {
    /// w = eta w1: seconds of a replica per request.
    pub(super) fn seconds(&self) -> f64 {
        self.eta * self.by_profile
    }

    /// eta P tau_p: seconds of a replica that a typical prompt takes.
    pub(super) fn prefill(&self) -> f64 {
        self.eta * self.prompt * self.per_token
    }
}

/// What calibration needs to know of the fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serving {
    /// r.
    pub ready: f64,
    /// Ticks in a row in which the fleet was as planned.
    pub stable: u32,
}

impl Serving {
    /// max(r, 1): what the work is shared by, as nobody can share it by 0.
    pub(super) fn shared_by(self) -> f64 {
        self.ready.max(1.0)
    }
}

impl Calibration {
    /// Forgets how wrong another profile was. What was measured of the engine itself, its fastest step and its context, stays; so does
    /// all of it where only the size of the cache or the weight of the profile is another one, as neither is in what was compared.
    pub(super) fn belongs_to(&mut self, model: &Model) {
        let profile = [model.base, model.prompt_token, model.attention, model.sequence, model.kv_token];
        if !self.profile.iter().zip(&profile).all(|(mine, theirs)| same(*mine, *theirs)) {
            (self.profile, self.busy, self.log_error) = (profile, 0.0, 0.0);
        }
    }

    /// Learns from one tick, and answers what a request costs.
    pub(super) fn learn(&mut self, model: &Model, shape: &Shape, inputs: &Inputs<'_>, arrivals: Arrivals, fleet: Serving) -> Work {
        if let (Some(kv), Some(running)) = (inputs.kv_used, inputs.running) {
            self.kv = CONTEXT_KEPT * self.kv + kv;
            self.running = CONTEXT_KEPT * self.running + running;
        }
        let (prompt, output) = (shape.prompt.unwrap_or(0.0), shape.output());
        let mean = prompt + output / 2.0;
        // A request that is still in its prompt has less in the cache than it will have, so the mean is a floor.
        let context = mean.max((self.kv + CONTEXT_PRIOR * mean) / (self.running + CONTEXT_PRIOR));
        let variation = inputs.variation.unwrap_or(shape.variation);
        let per_token = model.prompt_token + model.attention * prompt * (1.0 + variation) / 2.0;
        let decoding = output * (model.sequence + model.kv_token * context);
        let by_profile = prompt * per_token + decoding;

        let measured = inputs.inter_token.filter(|(_, gaps)| *gaps > FEWEST_GAPS).map(|(mean, _)| mean);
        if let Some(step) = measured {
            self.fastest = Some(self.fastest.map_or(step, |fastest| (FASTEST_CREEP * fastest).min(step)));
        }
        let shortest_step = self.shortest_step(model);
        if let (Some(step), Some(waiting)) = (measured, inputs.waiting) {
            // Where a queue grows, arrivals are not what is served.
            let (served, settled) = if waiting < NORMAL_QUEUE * fleet.ready {
                (Some(arrivals.over_60s.requests), SETTLED)
            } else {
                (inputs.finished.map(|(done, _)| done / COMPLETIONS), SETTLED_WITH_QUEUE)
            };
            let planned = served.map_or(0.0, |served| served * by_profile / fleet.shared_by());
            let busy = 1.0 - shortest_step / step;
            if fleet.stable >= settled && busy > LEAST_BUSY && planned > 0.0 {
                self.busy = CALIBRATION_KEPT * self.busy + busy;
                self.log_error = CALIBRATION_KEPT * self.log_error + busy * (busy / planned).ln();
            }
        }
        Work { prompt, output, context, per_token, decoding, by_profile, eta: self.eta(model), shortest_step }
    }

    /// eta, 0.25 to 4: by how much the profile is too cheap.
    pub(super) fn eta(&self, model: &Model) -> f64 {
        within((self.log_error / (self.busy + model.weight)).exp(), 0.25, 4.0)
    }

    /// a′ = min(a, A), seconds.
    pub(super) fn shortest_step(&self, model: &Model) -> f64 {
        self.fastest.map_or(model.base, |fastest| fastest.min(model.base))
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        if let Some(fastest) = &mut self.fastest {
            *fastest = within(*fastest, 0.0, 1e6);
        }
        self.busy = within(self.busy, 0.0, 1e3);
        self.log_error = within(self.log_error, -1e6, 1e6);
        self.kv = within(self.kv, 0.0, 1e15);
        self.running = within(self.running, 0.0, 1e15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headroom::inputs::Rate;
    use crate::tests::headroom::law;

    fn model() -> Model {
        Model::of(&law())
    }

    fn shape() -> Shape {
        let mut shape = Shape::default();
        shape.learn_outputs(&Inputs { finished: Some((1.0, 400.0)), median_output: Some(300.0), ..Inputs::default() });
        shape.learn_prompts(arrivals(1.0), &Inputs::default());
        shape
    }

    fn arrivals(requests: f64) -> Arrivals {
        Arrivals { over_60s: Rate { requests, tokens: 1000.0 * requests }, over_30s: None, over_15s: None }
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, not {expected}");
    }

    fn learn(calibration: &mut Calibration, inputs: &Inputs<'_>, requests: f64, stable: u32) -> Work {
        calibration.learn(&model(), &shape(), inputs, arrivals(requests), Serving { ready: 2.0, stable })
    }

    /// P 1000, O 400, C2 1: tau_p = 5e-5 + 2e-9 × 1000 = 5.2e-5; ctx = 1200; tau_d = 400 × (2e-5 + 6e-5) = 0.032; w1 = 0.084.
    #[test]
    fn what_a_request_costs() {
        let work = learn(&mut Calibration::default(), &Inputs::default(), 1.0, 0);
        for (found, expected) in
            [(work.per_token, 5.2e-5), (work.context, 1200.0), (work.decoding, 0.032), (work.by_profile, 0.084), (work.seconds(), 0.084)]
        {
            close(found, expected);
        }
        close(work.prefill(), 0.052);
        close(work.shortest_step, 0.01);
        // With this tick's c2 of 3: tau_p = 5e-5 + 2e-9 × 1000 × 2.
        close(learn(&mut Calibration::default(), &Inputs { variation: Some(3.0), ..Inputs::default() }, 1.0, 0).per_token, 5.4e-5);
    }

    /// 10 running with 30 000 tokens: (30 000 + 50 × 1200) ÷ (10 + 50) = 1500, and after a second tick
    /// (59 700 + 60 000) ÷ (19.9 + 50) = 1712.446…
    #[test]
    fn the_context_is_measured() {
        let mut calibration = Calibration::default();
        let gauges = Inputs { kv_used: Some(30_000.0), running: Some(10.0), ..Inputs::default() };
        close(learn(&mut calibration, &gauges, 1.0, 0).context, 1500.0);
        close(learn(&mut calibration, &gauges, 1.0, 0).context, 119_700.0 / 69.9);
        let before = calibration.clone();
        learn(&mut calibration, &Inputs { kv_used: Some(30_000.0), ..Inputs::default() }, 1.0, 0);
        assert_eq!(calibration, before, "one gauge alone says nothing, and both stay");
        let low = Inputs { kv_used: Some(10.0), running: Some(1000.0), ..Inputs::default() };
        close(learn(&mut Calibration::default(), &low, 1.0, 0).context, 1200.0);
    }

    /// A step of 20 ms where 10 ms is the shortest: u = 0.5. Two replicas and 5 requests/s: x1 = 5 × 0.084 ÷ 2 = 0.21.
    #[test]
    fn the_profile_is_corrected() {
        let busy = Inputs { inter_token: Some((0.02, 51.0)), waiting: Some(0.9), ..Inputs::default() };
        let mut calibration = Calibration::default();
        let work = learn(&mut calibration, &busy, 5.0, 2);
        // ln(0.5 ÷ 0.21) = 0.867500567…; eta = exp(0.5 × 0.8675 ÷ 6.5) = exp(0.06673…)
        close(calibration.busy, 0.5);
        close(calibration.log_error, 0.43375028385236153);
        close(work.eta, 1.069007676364181);
        learn(&mut calibration, &busy, 5.0, 2);
        close(calibration.busy, 0.9975);
        close(calibration.log_error, 1.995 * 0.43375028385236153);
    }

    #[test]
    fn what_says_nothing_does_not_calibrate() {
        let busy = Inputs { inter_token: Some((0.02, 51.0)), waiting: Some(0.9), finished: Some((600.0, 1e5)), ..Inputs::default() };
        let learned = |inputs: Inputs<'_>, requests, stable| {
            let mut calibration = Calibration::default();
            learn(&mut calibration, &inputs, requests, stable);
            calibration.busy > 0.0
        };
        assert!(learned(busy, 5.0, 2));
        assert!(!learned(busy, 5.0, 1), "the fleet has just changed");
        assert!(!learned(busy, 0.0, 2), "nothing arrives");
        assert!(!learned(Inputs { waiting: None, ..busy }, 5.0, 9), "a queue may grow");
        assert!(!learned(Inputs { inter_token: Some((0.02, 50.0)), ..busy }, 5.0, 9), "too few gaps");
        assert!(!learned(Inputs { inter_token: Some((0.0117, 90.0)), ..busy }, 5.0, 9), "busy by 0.145 only");
        let queued = Inputs { waiting: Some(1.0), ..busy };
        assert!(!learned(queued, 5.0, 7), "completions look back 120 s");
        assert!(learned(queued, 5.0, 8));
        assert!(!learned(Inputs { finished: None, ..queued }, 5.0, 8));
    }

    /// A queue of half the fleet or more: what is served is 600 in 120 s, 5 a second, whatever arrives.
    #[test]
    fn with_a_queue_completions_count() {
        let inputs = Inputs { inter_token: Some((0.02, 99.0)), waiting: Some(1.0), finished: Some((600.0, 1e5)), ..Inputs::default() };
        let mut calibration = Calibration::default();
        learn(&mut calibration, &inputs, 50.0, 8);
        close(calibration.log_error, 0.43375028385236153);
    }

    #[test]
    fn the_fastest_step_is_kept_and_slowly_forgotten() {
        let mut calibration = Calibration::default();
        for (step, expected) in [(0.008, 0.008), (0.02, 0.008_001_6), (0.02, 0.008_003_200_32)] {
            let inputs = Inputs { inter_token: Some((step, 99.0)), ..Inputs::default() };
            close(learn(&mut calibration, &inputs, 1.0, 0).shortest_step, expected);
        }
        let slow = Inputs { inter_token: Some((0.02, 99.0)), ..Inputs::default() };
        close(learn(&mut Calibration::default(), &slow, 1.0, 0).shortest_step, 0.01);
    }

    #[test]
    fn another_profile_ends_what_was_learned_of_the_last_one_and_nothing_else() {
        let learned = |model: &Model| {
            let mut calibration = Calibration { fastest: Some(0.008), kv: 9000.0, running: 3.0, ..Calibration::default() };
            calibration.belongs_to(model);
            (calibration.busy, calibration.log_error) = (2.0, 1.5);
            calibration
        };
        let before = learned(&model());
        let after = |model: &Model| {
            let mut calibration = before.clone();
            calibration.belongs_to(model);
            calibration
        };
        let rounded = Model { base: 0.01 * (1.0 + 1e-15), kv_capacity: None, max_sequences: 9.0, weight: 1.5, ..model() };
        assert_eq!(after(&rounded), before);
        for other in [
            Model { base: 0.011, ..model() },
            Model { prompt_token: 6e-5, ..model() },
            Model { attention: 0.0, ..model() },
            Model { sequence: 3e-5, ..model() },
            Model { kv_token: 4e-8, ..model() },
        ] {
            assert_eq!(after(&other), Calibration { busy: 0.0, log_error: 0.0, ..learned(&other) });
        }
    }

    #[test]
    fn a_default_profile_weighs_less_and_no_correction_is_beyond_four() {
        let light = Model { weight: WEIGHT_OF_DEFAULT, ..model() };
        let calibration = Calibration { busy: 0.5, log_error: 0.43375028385236153, ..Calibration::default() };
        close(calibration.eta(&light), 1.242188995129533); // exp(0.43375 ÷ 2)
        let wild = |log_error| Calibration { busy: 1.0, log_error, ..Calibration::default() }.eta(&model());
        assert_eq!((wild(1e6), wild(-1e6)), (4.0, 0.25));
    }

    /// b 5e-5, e 2e-9, 1 s: 2 ÷ (5e-5 + √(2.5e-9 + 4e-9)) = 2 ÷ 1.306225775e-4 = 15 311.2887…; it costs 1 s: b p + e p²/2.
    #[test]
    fn the_longest_prompt_within_a_time() {
        let longest = model().longest_within(1.0, 1.0);
        close(longest, 15311.288741492748);
        close(5e-5 * longest + 1e-9 * longest * longest, 1.0);
        let doubled = model().longest_within(1.0, 2.0);
        close(2.0 * (5e-5 * doubled + 1e-9 * doubled * doubled), 1.0);
        assert_eq!(Model { prompt_token: 0.0, attention: 0.0, ..model() }.longest_within(1.0, 1.0), f64::INFINITY);
    }
}
