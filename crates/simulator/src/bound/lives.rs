//! What requests take of replicas while they live.

use llmscaler_engine::Costs;

use crate::capacity::{KV_FILL, decode_work, prefill_work};
use crate::{Capacity, Promised, Request};

/// Replicas by interval of `bin` seconds, parts included: as many as have the time for the prompts and answers of the moment, the KV
/// cache for their tokens, and the places in the batch. Infinite throughout where even an idle replica is slower than promised.
pub(super) fn need(requests: &[Request], costs: &Costs, promised: Promised, bin: f64) -> Vec<f64> {
    let bins = requests.last().map_or(0, |last| (last.at / bin) as usize + 1);
    let count = requests.len().max(1) as f64;
    let mean = |tokens: fn(&Request) -> u32| requests.iter().map(|request| f64::from(tokens(request))).sum::<f64>() / count;
    let typical = Capacity::new(costs, mean(|request| request.prompt), mean(|request| request.output), KV_FILL);
    let busy = 1.0 - costs.base() / promised.tpot;
    if busy <= 0.0 {
        return vec![f64::INFINITY; bins];
    }
    let token = typical.inter_token(typical.limit(promised));
    let (mut work, mut tokens, mut running) = (Spread::new(bin, bins), Spread::new(bin, bins), Spread::new(bin, bins));
    for request in requests {
        let (prompt, output) = (f64::from(request.prompt), f64::from(request.output));
        let (prefill, life) = (prefill_work(costs, prompt), output * token);
        work.add(request.at, prefill, 1.0);
        work.add(request.at, life, decode_work(costs, prompt, output) / life);
        tokens.add(request.at, life, prompt + output / 2.0);
        running.add(request.at, life, 1.0);
    }
    let (room, places) = (KV_FILL * f64::from(costs.kv_tokens), f64::from(costs.max_sequences));
    let limits = work.means().zip(tokens.means()).zip(running.means());
    limits.map(|((work, tokens), running)| (work / busy).max(tokens / room).max(running / places)).collect()
}

/// A sum of amounts that each hold for some time, as means of intervals.
struct Spread {
    bin: f64,
    /// What falls into an interval in part, as amount times seconds.
    partial: Vec<f64>,
    /// Changes from one interval to the next of what holds throughout.
    change: Vec<f64>,
}

impl Spread {
    fn new(bin: f64, bins: usize) -> Self {
        Self { bin, partial: vec![0.0; bins], change: vec![0.0; bins + 1] }
    }

    /// Adds `amount` from `from` on for `seconds`; what comes after the last interval is left out.
    fn add(&mut self, from: f64, seconds: f64, amount: f64) {
        let bins = self.partial.len();
        let until = (from + seconds).min(bins as f64 * self.bin);
        let (first, last) = ((from / self.bin) as usize, (until / self.bin) as usize);
        if first == last {
            self.partial[first] += amount * (until - from);
            return;
        }
        self.partial[first] += amount * ((first + 1) as f64 * self.bin - from);
        self.change[first + 1] += amount;
        self.change[last] -= amount;
        if last < bins {
            self.partial[last] += amount * (until - last as f64 * self.bin);
        }
    }

    fn means(&self) -> impl Iterator<Item = f64> + '_ {
        let whole = self.change.iter().scan(0.0, |sum, change| {
            *sum += change;
            Some(*sum)
        });
        whole.zip(&self.partial).map(|(whole, partial)| whole + partial / self.bin)
    }
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::Profile;
    use proptest::prelude::*;

    use super::*;
    use crate::capacity;

    proptest! {
        #[test]
        fn nothing_is_lost_between_intervals(lives in prop::collection::vec((0.0..100.0, 0.0..300.0, 0.1..5.0), 0..20)) {
            let mut spread = Spread::new(10.0, 10);
            lives.iter().for_each(|(from, seconds, amount)| spread.add(*from, *seconds, *amount));
            let got: Vec<f64> = spread.means().collect();
            prop_assert_eq!(got.len(), 10);
            for (place, got) in got.into_iter().enumerate() {
                let (start, end) = (place as f64 * 10.0, (place + 1) as f64 * 10.0);
                let inside = |from: f64, seconds: f64| ((from + seconds).min(end) - from.max(start)).max(0.0);
                let wanted: f64 = lives.iter().map(|(from, seconds, amount)| amount * inside(*from, *seconds) / 10.0).sum();
                prop_assert!((got - wanted).abs() < 1e-9, "{} instead of {}", got, wanted);
            }
        }
    }

    #[test]
    fn steady_traffic_takes_what_the_closed_form_says_once_the_first_answers_end() {
        let costs = &Profile::named(Profile::DEFAULT).unwrap().costs;
        let promised = Promised { ttft: 3.0, tpot: 0.1 };
        let requests: Vec<_> =
            (0..6000).map(|place| Request { at: f64::from(place) * 0.1, prompt: 4000, output: 1000, reusable_prefix: 0 }).collect();
        let need = need(&requests, costs, promised, 60.0);
        let wanted = 10.0 / capacity(costs, 4000.0, 1000.0, promised);
        assert!(need[2..9].iter().all(|need| (need / wanted - 1.0).abs() < 0.01), "{need:?} instead of {wanted}");
        assert!(need[0] < 0.7 * wanted);
    }
}
