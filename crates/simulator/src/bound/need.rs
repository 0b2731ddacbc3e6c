//! How many replicas the traffic takes, from what really comes.

use llmscaler_engine::{Bounds, Costs, Replicas};

use super::{Plan, lives, sliding};
use crate::capacity::KV_FILL;
use crate::{Arrivals, Capacity, ClosedLoop, Promised, Request, capacity};

/// Replicas that the traffic of each interval takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// Seconds of an interval, a multiple of [`Plan::GRAIN`].
    bin: f64,
    /// Replicas by interval, parts included; infinite where no number of them would do.
    replicas: Vec<f64>,
}

impl Need {
    /// What `arrivals` take by the closed form, interval by interval of `bin` seconds, as if they came evenly in it and were served at
    /// once.
    #[must_use]
    pub fn of(arrivals: &Arrivals, costs: &Costs, promised: Promised, bin: f64) -> Self {
        let replicas = match arrivals {
            Arrivals::Open(requests) => of_requests(requests, costs, promised, bin),
            Arrivals::Closed(clients) => of_users(clients, costs, promised, bin),
        };
        Self { bin, replicas }
    }

    /// What `arrivals` take while they live: prompts when they come, answers for as long as they take at the limit of a replica. Long
    /// answers need little when they come and much later, which no mean of an interval shows.
    #[must_use]
    pub fn lived(arrivals: &Arrivals, costs: &Costs, promised: Promised, bin: f64) -> Self {
        match arrivals {
            Arrivals::Open(requests) => Self { bin, replicas: lives::need(requests, costs, promised, bin) },
            Arrivals::Closed(_) => Self::of(arrivals, costs, promised, bin),
        }
    }

    /// Replicas by interval, parts included.
    #[must_use]
    pub fn replicas(&self) -> &[f64] {
        &self.replicas
    }

    /// The cheapest plan that has the need, divided by `rho`, ready in time, where a pod takes `warmup` seconds to start and goes at once:
    /// at each moment the largest need from then to one warm-up later. What no pod that starts at 0 can be ready for falls to the
    /// `start` replicas.
    #[must_use]
    pub fn plan(&self, rho: f64, rounding: Rounding, warmup: f64, bounds: Bounds, start: u32) -> Plan {
        let ahead = (warmup / self.bin).ceil() as usize;
        let scaled = self.replicas.iter().enumerate().map(|(place, need)| {
            let need = bounds.clamp(rounding.of(need / rho)).as_f64();
            if place < ahead { need.min(f64::from(start)) } else { need }
        });
        let largest = sliding::maxima(&scaled.collect::<Vec<_>>(), ahead);
        // When the traffic is over the fleet falls to its minimum.
        let rest = bounds.clamp(Replicas::ZERO).get();
        Plan::binned(self.bin, largest.into_iter().map(|replicas| replicas as u32).chain([rest]))
    }
}

/// How a need with parts becomes replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next larger number: nothing waits for a part of a replica.
    Up,
    /// To the nearest number: a part of a replica is left to the slack of the others.
    Nearest,
}

impl Rounding {
    fn of(self, need: f64) -> Replicas {
        match self {
            Self::Up => Replicas::ceil(need),
            Self::Nearest => Replicas::ceil(need.round()),
        }
    }
}

fn of_requests(requests: &[Request], costs: &Costs, promised: Promised, bin: f64) -> Vec<f64> {
    let bins = requests.last().map_or(0, |last| (last.at / bin) as usize + 1);
    let mut sums = vec![(0.0, 0.0, 0.0); bins];
    for request in requests {
        let (count, prompt, output) = &mut sums[(request.at / bin) as usize];
        *count += 1.0;
        *prompt += f64::from(request.prompt);
        *output += f64::from(request.output);
    }
    let need = |(count, prompt, output): (f64, f64, f64)| {
        if count > 0.0 { count / bin / capacity(costs, prompt / count, output / count, promised) } else { 0.0 }
    };
    sums.into_iter().map(need).collect()
}

/// Users who think and wait: at the limit of a replica each makes one request per think time and answer.
fn of_users(clients: &ClosedLoop, costs: &Costs, promised: Promised, bin: f64) -> Vec<f64> {
    let count = clients.lengths.len().max(1) as f64;
    let prompt = clients.lengths.iter().map(|(prompt, _)| f64::from(*prompt)).sum::<f64>() / count;
    let output = clients.lengths.iter().map(|(_, output)| f64::from(*output)).sum::<f64>() / count;
    let replica = Capacity::new(costs, prompt, output, KV_FILL);
    let limit = replica.limit(promised);
    let each = 1.0 / (clients.think + output * replica.inter_token(limit));
    let most = |place: usize| {
        let (from, until) = (place as f64 * bin, (place + 1) as f64 * bin);
        let before = clients.users.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let there = clients.users[before..].iter().take_while(|(at, _)| *at < until);
        there.map(|(_, users)| f64::from(*users)).fold(0.0, f64::max)
    };
    (0..(clients.until / bin).ceil() as usize).map(|place| most(place) * each / limit).collect()
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::Profile;

    use super::*;

    const PROMISED: Promised = Promised { ttft: 3.0, tpot: 0.1 };

    fn costs() -> &'static Costs {
        &Profile::named(Profile::DEFAULT).unwrap().costs
    }

    fn bounds(min: u32, max: u32) -> Bounds {
        Bounds { min: Replicas::new(min), max: Replicas::new(max) }
    }

    fn need(replicas: &[f64]) -> Need {
        Need { bin: 60.0, replicas: replicas.to_vec() }
    }

    #[test]
    fn need_is_rate_over_capacity() {
        let request = |at| Request { at, prompt: 4000, output: 1000, reusable_prefix: 0 };
        let requests = (0..600).map(|place| request(f64::from(place) * 0.2)).chain([request(200.0)]).collect();
        let need = Need::of(&Arrivals::Open(requests), costs(), PROMISED, 60.0);
        let one = capacity(costs(), 4000.0, 1000.0, PROMISED);
        let wanted = [5.0 / one, 5.0 / one, 0.0, 1.0 / 60.0 / one];
        assert!(need.replicas().iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-9), "{need:?}");
    }

    #[test]
    fn a_promise_that_no_replica_keeps_needs_more_than_all() {
        let requests = vec![Request { at: 0.0, prompt: 10, output: 10, reusable_prefix: 0 }];
        let need = Need::of(&Arrivals::Open(requests), costs(), Promised { ttft: 1.0, tpot: 0.001 }, 60.0);
        assert_eq!(need.replicas(), [f64::INFINITY]);
        assert_eq!(need.plan(1.0, Rounding::Up, 0.0, bounds(1, 7), 1).at(0.0), 7);
    }

    #[test]
    fn users_make_what_they_have_time_for() {
        let clients = ClosedLoop { users: vec![(0.0, 100), (90.0, 300)], think: 2.0, lengths: vec![(4000, 1000)], until: 180.0 };
        let need = Need::of(&Arrivals::Closed(clients), costs(), PROMISED, 60.0);
        // Little's law: users less those who think are what runs, and a replica runs at most 71.6.
        let full = Capacity::new(costs(), 4000.0, 1000.0, KV_FILL);
        let rate = need.replicas()[0] * full.until_full();
        assert!((100.0 - rate * 2.0 - need.replicas()[0] * full.sequences()).abs() < 1e-6);
        assert!((need.replicas()[1] / need.replicas()[0] - 3.0).abs() < 1e-9);
        assert_eq!(need.replicas().len(), 3);
    }

    #[test]
    fn replicas_are_asked_for_one_warm_up_before_they_are_needed() {
        let plan = need(&[1.0, 1.0, 1.0, 4.2, 1.0, 1.0]).plan(1.0, Rounding::Up, 100.0, bounds(1, 8), 1);
        assert_eq!(plan.steps(), [(0.0, 1), (60.0, 5), (240.0, 1)]);
        let nearest = need(&[1.0, 1.0, 1.0, 4.2, 1.0, 1.0]).plan(1.0, Rounding::Nearest, 100.0, bounds(1, 8), 1);
        assert_eq!(nearest.steps(), [(0.0, 1), (60.0, 4), (240.0, 1)]);
        let scaled = need(&[1.0, 1.0, 1.0, 4.2, 1.0, 1.0]).plan(0.5, Rounding::Up, 100.0, bounds(1, 8), 2);
        assert_eq!(scaled.steps(), [(0.0, 2), (60.0, 8), (240.0, 2), (360.0, 1)]);
    }

    #[test]
    fn what_cannot_be_ready_is_not_asked_for() {
        let plan = need(&[9.0, 9.0, 1.0, 1.0]).plan(1.0, Rounding::Up, 100.0, bounds(1, 8), 3);
        assert_eq!(plan.steps(), [(0.0, 3), (120.0, 1)]);
    }
}
