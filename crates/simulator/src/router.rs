//! Which replica gets a request.

use crate::replica::Load;
use crate::scenario::Router;

/// Chooses among the replicas that serve.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    router: Router,
    turn: usize,
}

/// What the cache of one replica is worth to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached {
    /// The replica.
    pub slot: u32,
    /// Prompt tokens that it would not have to process.
    pub tokens: u64,
}

impl Routes {
    pub fn new(router: Router) -> Self {
        Self { router, turn: 0 }
    }

    /// One of `serving`; `None` only where these are none. `loads` are indexed by the slots that `serving` names.
    pub fn choose(&mut self, now: f64, serving: &[u32], loads: &[Load], cached: Option<Cached>) -> Option<u32> {
        match self.router {
            Router::RoundRobin => {
                let slot = *serving.get(self.turn % serving.len().max(1))?;
                self.turn = self.turn.wrapping_add(1);
                Some(slot)
            }
            Router::LeastLoaded => least_loaded(now, serving, loads),
            Router::PrefixAffine => {
                let least = least_loaded(now, serving, loads)?;
                let worth = |cached: &Cached| loads[cached.slot as usize].prefill <= loads[least as usize].prefill + cached.tokens;
                Some(cached.filter(worth).map_or(least, |cached| cached.slot))
            }
        }
    }
}

fn least_loaded(now: f64, serving: &[u32], loads: &[Load]) -> Option<u32> {
    let (&first, others) = serving.split_first()?;
    let mut best = first;
    let mut least = &loads[first as usize];
    for &slot in others {
        let load = &loads[slot as usize];
        let less = match load.prefill.cmp(&least.prefill) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => {
                let (kv, least_kv) = (load.kv(now), least.kv(now));
                kv < least_kv || (kv == least_kv && load.waiting < least.waiting)
            }
        };
        if less {
            (best, least) = (slot, load);
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVING: [u32; 3] = [0, 2, 1];

    fn choose(router: Router, loads: [Load; 3], cached: Option<Cached>) -> Option<u32> {
        Routes::new(router).choose(0.0, &SERVING, &loads, cached)
    }

    #[test]
    fn least_loaded_goes_by_prompts_then_cache_then_queue() {
        let steady = Load::steady;
        let least = |loads| choose(Router::LeastLoaded, loads, None);
        assert_eq!(least([steady(10, 0.0, 0), steady(9, 900.0, 5), steady(11, 0.0, 0)]), Some(1));
        assert_eq!(least([steady(0, 800.0, 0), steady(0, 900.0, 0), steady(0, 700.0, 9)]), Some(2));
        assert_eq!(least([steady(0, 7.0, 2), steady(0, 7.0, 1), steady(0, 7.0, 2)]), Some(1));
        assert_eq!(least([steady(0, 7.0, 1); 3]), Some(0), "the oldest of equals");
        assert_eq!(Routes::new(Router::LeastLoaded).choose(0.0, &[], &[], None), None);
    }

    #[test]
    fn round_robin_takes_turns() {
        let mut routes = Routes::new(Router::RoundRobin);
        let turns: Vec<_> = (0..4).map(|_| routes.choose(0.0, &SERVING, &[Load::steady(0, 0.0, 0); 3], None)).collect();
        assert_eq!(turns, [Some(0), Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn a_cached_prefix_is_worth_a_queue_of_its_length() {
        let loads = |behind: u64| [Load::steady(100, 0.0, 0), Load::steady(100 + behind, 0.0, 0), Load::steady(200, 0.0, 0)];
        let cached = Some(Cached { slot: 1, tokens: 50 });
        assert_eq!(choose(Router::PrefixAffine, loads(50), cached), Some(1));
        assert_eq!(choose(Router::PrefixAffine, loads(51), cached), Some(0));
        assert_eq!(choose(Router::PrefixAffine, loads(0), None), Some(0));
    }
}
