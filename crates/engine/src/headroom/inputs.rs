//! What the law reads at one tick.

use super::numbers::within;
use crate::recommend::Activity;
use crate::{Bucket, InterToken, Late, Measurement, Rates, Reading, Traffic};

/// More than any pool shows, in whatever unit: beyond it a reading counts for this, so that no product overflows.
const MOST: f64 = 1e12;
/// The widest spread of prompt lengths that is believed, as a squared coefficient of variation.
const WIDEST: f64 = 1e6;
/// The longest time between tokens that is believed, in seconds.
const SLOWEST: f64 = 1e6;

/// The inputs of one tick. `None` is unknown and never 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inputs<'a> {
    /// λ, π; without those over 60 s nothing is known of what arrives.
    pub arrivals: Option<Arrivals>,
    /// λ60 alone, requests per second, where prompt tokens are unknown.
    pub rate: Option<f64>,
    /// π60 alone, tokens per second.
    pub token_rate: Option<f64>,
    /// c2.
    pub variation: Option<f64>,
    /// hist.
    pub lengths: Option<&'a [Bucket]>,
    /// done and otok: requests, and their output tokens.
    pub finished: Option<(f64, f64)>,
    /// o50, tokens.
    pub median_output: Option<f64>,
    /// itl in seconds, and itl_n.
    pub inter_token: Option<(f64, f64)>,
    /// wait, requests.
    pub waiting: Option<f64>,
    /// kv_cap, tokens.
    pub kv_capacity: Option<f64>,
    /// kv, tokens.
    pub kv_used: Option<f64>,
    /// run, requests.
    pub running: Option<f64>,
    /// late_ttft: the share that was late, and of how many.
    pub late_ttft: Option<(f64, f64)>,
    /// late_tpot, likewise.
    pub late_tpot: Option<(f64, f64)>,
}

/// What arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrivals {
    pub over_60s: Rate,
    pub over_30s: Option<Rate>,
    pub over_15s: Option<Rate>,
}

/// Requests and prompt tokens per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// λ.
    pub requests: f64,
    /// π.
    pub tokens: f64,
}

impl<'a> Inputs<'a> {
    /// The inputs in `traffic`. Where the source's own reading proves the pool idle, what traffic does not tell is 0.
    pub(super) fn of(traffic: Option<&'a Traffic>, reading: Option<&Reading>) -> Self {
        let proved_idle = matches!(reading, Some(Reading::Idle));
        let idle_is_zero = |value: Option<f64>| value.or(proved_idle.then_some(0.0));
        let mut inputs = traffic.map_or_else(Self::default, Self::read);
        inputs.rate = idle_is_zero(inputs.rate);
        inputs.waiting = idle_is_zero(inputs.waiting);
        inputs.running = idle_is_zero(inputs.running);
        if inputs.rate == Some(0.0) {
            inputs.token_rate = idle_is_zero(inputs.token_rate);
        }
        if let (Some(requests), Some(tokens)) = (inputs.rate, inputs.token_rate) {
            let rates = traffic.map(|traffic| (traffic.arrivals, traffic.prompt_tokens)).unwrap_or_default();
            let shorter = |of: fn(Rates) -> Option<Measurement>| Some(Rate { requests: known(of(rates.0))?, tokens: known(of(rates.1))? });
            let over_60s = Rate { requests, tokens };
            inputs.arrivals = Some(Arrivals { over_60s, over_30s: shorter(|r| r.over_30s), over_15s: shorter(|r| r.over_15s) });
        }
        inputs
    }

    /// Forgets how many requests arrive, as others do too. That some do stays known; that none does never was.
    pub(super) fn forget_arrivals(&mut self) {
        self.arrivals = None;
        self.rate = self.rate.filter(|rate| *rate > 0.0);
    }

    /// Whether anything arrives, waits or runs. It takes all three to know that nothing does, and one to know that something does.
    pub(super) fn activity(&self) -> Activity {
        if [self.rate, self.token_rate, self.waiting, self.running].into_iter().flatten().any(|amount| amount > 0.0) {
            Activity::Active
        } else if [self.rate, self.waiting, self.running] == [Some(0.0); 3] {
            Activity::Inactive
        } else {
            Activity::Unknown
        }
    }

    fn read(traffic: &'a Traffic) -> Self {
        let gaps = |gaps: &InterToken| (within(gaps.mean.get(), 0.0, SLOWEST), gaps.count.get());
        let late = |late: &Late| (within(late.share.get(), 0.0, 1.0), within(late.of.get(), 0.0, MOST));
        let amount = |amount: Measurement| within(amount.get(), 0.0, MOST);
        Self {
            arrivals: None,
            rate: known(traffic.arrivals.over_60s),
            token_rate: known(traffic.prompt_tokens.over_60s),
            variation: traffic.prompt_variation.map(|c2| within(c2.get(), 0.0, WIDEST)),
            lengths: traffic.prompt_lengths.as_deref(),
            finished: traffic.finished.map(|done| (amount(done.requests), amount(done.output_tokens))),
            median_output: known(traffic.median_output),
            inter_token: traffic.inter_token.as_ref().map(gaps).filter(|(mean, _)| *mean > 0.0),
            waiting: known(traffic.waiting),
            kv_capacity: known(traffic.kv_capacity),
            kv_used: known(traffic.kv_used),
            running: known(traffic.running),
            late_ttft: traffic.late_ttft.as_ref().map(late),
            late_tpot: traffic.late_tpot.as_ref().map(late),
        }
    }
}

fn known(value: Option<Measurement>) -> Option<f64> {
    value.map(|value| within(value.get(), 0.0, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(over_60s: f64) -> Rates {
        Rates { over_60s: Measurement::new(over_60s), ..Rates::default() }
    }

    #[test]
    fn arrivals_take_both_rates() {
        let traffic = Traffic { arrivals: rates(2.0), ..Traffic::default() };
        assert_eq!(Inputs::of(Some(&traffic), None).arrivals, None);
        let traffic = Traffic { prompt_tokens: rates(900.0), ..traffic };
        let expected = Arrivals { over_60s: Rate { requests: 2.0, tokens: 900.0 }, over_30s: None, over_15s: None };
        assert_eq!(Inputs::of(Some(&traffic), None).arrivals, Some(expected));
        assert_eq!(Inputs::of(None, None).arrivals, None);
    }

    #[test]
    fn an_idle_pool_has_no_arrivals_unless_traffic_knows_of_some() {
        let nothing = Rate { requests: 0.0, tokens: 0.0 };
        let idle = Inputs::of(None, Some(&Reading::Idle));
        assert_eq!((idle.arrivals.map(|a| a.over_60s), idle.waiting, idle.running), (Some(nothing), Some(0.0), Some(0.0)));
        assert_eq!(idle.activity(), Activity::Inactive);
        let traffic = Traffic { arrivals: rates(2.0), ..Traffic::default() };
        let contradicted = Inputs::of(Some(&traffic), Some(&Reading::Idle));
        assert_eq!((contradicted.arrivals, contradicted.activity()), (None, Activity::Active), "two requests a second bring no 0 tokens");
        let traffic = Traffic { waiting: Measurement::new(3.0), ..Traffic::default() };
        assert_eq!(Inputs::of(Some(&traffic), Some(&Reading::Idle)).activity(), Activity::Active, "somebody waits");
    }

    #[test]
    fn a_rate_of_zero_alone_does_not_prove_idleness() {
        let zero = Measurement::new(0.0);
        let quiet = Traffic { arrivals: rates(0.0), prompt_tokens: rates(0.0), waiting: zero, ..Traffic::default() };
        let activity = |traffic: &Traffic| Inputs::of(Some(traffic), None).activity();
        assert_eq!(activity(&quiet), Activity::Unknown, "what runs is unknown");
        assert_eq!(activity(&Traffic { running: zero, ..quiet.clone() }), Activity::Inactive);
        assert_eq!(activity(&Traffic { running: Measurement::new(1.0), ..quiet }), Activity::Active);
        assert_eq!(Inputs::of(None, None).activity(), Activity::Unknown);
    }

    #[test]
    fn arrivals_that_are_not_all_counted_still_prove_work_but_not_that_there_is_none() {
        let zero = Measurement::new(0.0);
        let activity = |rate: f64| {
            let traffic =
                Traffic { arrivals: rates(rate), prompt_tokens: rates(900.0 * rate), waiting: zero, running: zero, ..Traffic::default() };
            let mut inputs = Inputs::of(Some(&traffic), None);
            inputs.forget_arrivals();
            assert_eq!(inputs.arrivals, None);
            inputs.activity()
        };
        assert_eq!((activity(2.0), activity(0.0)), (Activity::Active, Activity::Unknown));
    }

    #[test]
    fn a_gap_of_no_length_is_none() {
        let gaps = InterToken { mean: Measurement::ZERO, count: Measurement::ZERO };
        let traffic = Traffic { inter_token: Some(gaps), ..Traffic::default() };
        assert!(Inputs::of(Some(&traffic), None).inter_token.is_none());
    }
}
