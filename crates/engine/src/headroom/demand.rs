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
pub(super) const NORMAL_QUEUE: f64 = 0.5;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Costs, Target, tests};

    /// As promised.
    fn law(ttft: f64, tpot: f64) -> Headroom {
        let target = |x| Target::new(x).unwrap();
        Headroom { ttft: target(ttft), tpot: target(tpot), ..tests::headroom::law() }
    }

    /// P 1000, O 400: w 84 ms, of which the prompt takes 52 ms; O50 300, C2 1, eight replicas.
    fn scene() -> Scene {
        let work = Work {
            prompt: 1000.0,
            output: 400.0,
            context: 1200.0,
            per_token: 5.2e-5,
            decoding: 0.032,
            by_profile: 0.084,
            eta: 1.0,
            shortest_step: 0.01,
        };
        Scene { work, median: 300.0, variation: 1.0, ready: 8.0 }
    }

    fn rate(requests: f64) -> Rate {
        Rate { requests, tokens: 1000.0 * requests }
    }

    /// 60 requests/s: D = 60 × 0.084 = 5.04.
    fn at_60() -> Arrivals {
        Arrivals { over_60s: rate(60.0), over_30s: None, over_15s: None }
    }

    fn demand(law: &Headroom, inputs: &Inputs<'_>) -> Demand {
        Demand::of(law, &Model::of(law), &scene(), at_60(), inputs, 2.0)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, not {expected}");
    }

    /// umax = 1 − 10 ÷ 50 = 0.8. f = 52 ÷ 84, w2 = 0.084 (1 + f²) = 0.11619…; 5.04 + 2 √(5.04 × 0.11619 ÷ 15) = 5.43517…; ÷ 0.8.
    #[test]
    fn time_per_token_limits() {
        let demand = demand(&law(1.0, 0.05), &Inputs::default());
        close(demand.load, 5.04);
        close(demand.share, 0.8);
        close(demand.replicas, 6.793_963_561_409_138_5);
        close(demand.margin, 6.793_963_561_409_138_5 * 0.8 - 5.04);
        assert_eq!(demand.limit, Limit::Tpot);
    }

    /// 100 ms to the first token, of which the prompt takes 52: 48 ms are left, and 5.04 + 2 √(5.04 × 0.11619 ÷ 0.048) = 12.0257.
    #[test]
    fn time_to_first_token_limits() {
        let demand = demand(&law(0.1, 0.05), &Inputs::default());
        close(demand.replicas, 12.025_699_678_629_191);
        assert_eq!(demand.limit, Limit::Ttft);
        // Of 60 ms 8 are left, but a fifth, 12 ms, is planned with.
        let tight = self::demand(&law(0.06, 0.05), &Inputs::default());
        close(tight.margin, 2.0 * (5.04 * (0.084 + 0.052 * 0.052 / 0.084) / 0.012_f64).sqrt());
    }

    /// 300 wait, 4 of them as always: 296 × 0.084 ÷ 30 = 0.8288; (5.04 + 0.8288) ÷ 0.8 = 7.336.
    #[test]
    fn a_queue_is_worked_off_in_half_a_minute() {
        let demand = demand(&law(1.0, 0.05), &Inputs { waiting: Some(300.0), ..Inputs::default() });
        close(demand.replicas, 7.336);
        close(demand.margin, 0.8288);
        assert_eq!(demand.limit, Limit::Backlog);
        let few = self::demand(&law(1.0, 0.05), &Inputs { waiting: Some(4.0), ..Inputs::default() });
        assert_eq!(few.limit, Limit::Tpot);
    }

    /// 30 000 tokens: 0.92 × 30 000 ÷ 1200 = 23 requests; 23 × 0.084 ÷ (400 × 0.01 + 23 × 0.084) = 0.32569…
    #[test]
    fn the_kv_cache_limits() {
        let law = law(1.0, 0.05);
        let demand = demand(&law, &Inputs { kv_capacity: Some(30_000.0), ..Inputs::default() });
        close(demand.share, 1.932 / 5.932);
        assert_eq!(demand.limit, Limit::KvCache);
        // Without a profile that is the engine's, its cache is not known either: 256 sequences give 0.843, above 0.8.
        let guess = Headroom { profile_is_given: false, ..law };
        assert_eq!(self::demand(&guess, &Inputs::default()).limit, Limit::Tpot);
        let small = Headroom { costs: Costs { kv_tokens: 30_000, ..law.costs }, ..law };
        assert_eq!(self::demand(&small, &Inputs::default()).limit, Limit::KvCache, "a named profile tells");
        let small = Headroom { profile_is_given: false, ..small };
        assert_eq!(self::demand(&small, &Inputs::default()).limit, Limit::Tpot);
    }

    #[test]
    fn a_promise_that_steps_hardly_keep_leaves_a_twentieth() {
        close(demand(&law(1.0, 0.0101), &Inputs::default()).share, 0.05);
    }

    /// D15 of 90/s: 7.56 − 2 √(7.56 × 0.11619 ÷ 15) = 7.076; D30 of 80/s: 6.72 − 2 √(6.72 × 0.11619 ÷ 30) = 6.397.
    #[test]
    fn a_short_window_counts_where_it_is_clear_of_its_noise() {
        let load = |over_30s: Option<f64>, over_15s: Option<f64>| {
            let arrivals = Arrivals { over_30s: over_30s.map(rate), over_15s: over_15s.map(rate), ..at_60() };
            load(&scene().work, 0.116_190_476_190_476_2, arrivals)
        };
        close(load(Some(60.0), Some(90.0)), 7.076_016_529_207_867);
        close(load(Some(80.0), None), 6.397_344_352_805_245);
        close(load(Some(62.0), Some(64.0)), 5.04);
        close(load(None, None), 5.04);
    }

    #[test]
    fn no_load_needs_nothing() {
        let law = law(1.0, 0.05);
        let nothing = Arrivals { over_60s: rate(0.0), over_30s: Some(rate(0.0)), over_15s: Some(rate(0.0)) };
        let demand = Demand::of(&law, &Model::of(&law), &scene(), nothing, &Inputs::default(), 2.0);
        assert_eq!((demand.load, demand.margin, demand.replicas), (0.0, 0.0, 0.0));
    }
}
