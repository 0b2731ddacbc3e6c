//! Steps 3 and 4: how many replicas the load takes, with room for noise.

use super::inputs::{Arrivals, Inputs, Rate};
use super::numbers::{ratio, within};
use super::work::{Model, Work};
use crate::Headroom;

/// The least busy share that is planned with: where even an idle replica hardly keeps the promise, nothing sensible follows.
pub(super) const LEAST_SHARE: f64 = 0.05;
/// Of the KV cache this much is planned with: an engine that has none left preempts.
const KV_USABLE: f64 = 0.92;
/// A share above 0 for what has none, so that it can be divided by.
const TINY: f64 = 1e-9;
/// A short window counts where it stands this many standard deviations of counting noise clear of 0.
const SIGMA: f64 = 2.0;
/// Of the promised time to first token this much at least is left for waiting in the plan.
const LEAST_WAIT: f64 = 0.2;
/// A queue of up to so many requests per replica is the normal course of things.
const NORMAL_QUEUE: f64 = 0.5;
/// A longer queue is to be gone in so many seconds.
const CLEAR_WITHIN: f64 = 30.0;

/// What decides how many replicas there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Time per output token.
    Tpot,
    /// The KV cache is full before time per output token is reached.
    KvCache,
    /// Time to first token.
    Ttft,
    /// The queue that is there.
    Backlog,
}

/// The load, and what it takes. In busy replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Demand {
    /// D: how many replicas' worth of work arrives.
    pub load: f64,
    /// umax: the share of its time that a replica may be busy, above 0 to 1.
    pub share: f64,
    /// What is added to the load for noise, or for the queue where that decides.
    pub margin: f64,
    /// x0: what the load takes.
    pub replicas: f64,
    /// Why as many.
    pub limit: Limit,
}

/// What is known of the requests and of the fleet that serves them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub work: Work,
    /// O50 in tokens.
    pub median: f64,
    /// C2.
    pub variation: f64,
    /// r.
    pub ready: f64,
}

impl Demand {
    /// The demand with room for `z` standard deviations of noise.
    pub(super) fn of(law: &Headroom, model: &Model, scene: &Scene, arrivals: Arrivals, inputs: &Inputs<'_>, z: f64) -> Self {
        let Scene { work, median, variation, ready } = scene;
        let (seconds, tpot, ttft) = (work.seconds(), law.tpot.get(), law.ttft.get());
        let (share, full) = share(model, work, tpot, inputs.kv_capacity);
        let fraction = ratio(work.prefill(), seconds, 0.0).min(1.0);
        // w2: mean square of the work of a request over its mean.
        let spread = seconds * (1.0 + fraction * fraction * variation);
        let load = load(work, spread, arrivals);

        let noise = |window: f64| z * (load * spread / window).sqrt();
        let by_tpot = noise(*median * tpot);
        let by_ttft = noise((ttft - work.prefill()).max(LEAST_WAIT * ttft));
        let queue = inputs.waiting.map_or(0.0, |waiting| (waiting - NORMAL_QUEUE * *ready).max(0.0) * seconds / CLEAR_WITHIN);
        let tpot_or_kv = if full { Limit::KvCache } else { Limit::Tpot };
        [
            ((load + by_tpot) / share, by_tpot, tpot_or_kv),
            (load + by_ttft, by_ttft, Limit::Ttft),
            ((load + queue) / share, queue, Limit::Backlog),
        ]
        .into_iter()
        .reduce(|most, next| if next.0 > most.0 { next } else { most })
        .map_or(Self { load, share, margin: 0.0, replicas: load, limit: Limit::Tpot }, |(replicas, margin, limit)| Self {
            load,
            share,
            margin,
            replicas,
            limit,
        })
    }
}

/// umax, and whether it is the KV cache that sets it.
fn share(model: &Model, work: &Work, tpot: f64, kv_capacity: Option<f64>) -> (f64, bool) {
    let by_tpot = (1.0 - work.shortest_step / tpot).max(LEAST_SHARE);
    let sequences = kv_capacity.or(model.kv_capacity).map_or(model.max_sequences, |tokens| {
        // Nfit: requests that fit into the KV cache.
        ratio(KV_USABLE * tokens, work.context, f64::INFINITY).min(model.max_sequences)
    });
    let working = sequences * work.seconds();
    let by_kv = ratio(working, work.output * work.shortest_step + working, 1.0);
    (within(by_tpot.min(by_kv), TINY, 1.0), by_kv < by_tpot)
}

/// D: the load of the last minute, or of a shorter window that is higher beyond the noise of counting.
fn load(work: &Work, spread: f64, arrivals: Arrivals) -> f64 {
    let over = |rate: Rate| work.eta * (rate.tokens * work.per_token + rate.requests * work.decoding);
    let beyond_noise = |rate: Option<Rate>, seconds: f64| {
        rate.map_or(0.0, |rate| {
            let load = over(rate);
            load - SIGMA * (load * spread / seconds).sqrt()
        })
    };
    over(arrivals.over_60s).max(beyond_noise(arrivals.over_30s, 30.0)).max(beyond_noise(arrivals.over_15s, 15.0))
}
