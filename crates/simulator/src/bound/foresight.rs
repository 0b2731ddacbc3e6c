//! The bound that a run can reach.

use super::{Need, Plan, Rounding};
use crate::Scenario;
use crate::outcome::Outcome;
use crate::policy::Clairvoyant;

/// Shares of the capacity to plan with: below 1 leaves slack for chance, above 1 lets requests be late.
const RHO: [f64; 10] = [0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25];

/// Seconds of a long interval; a short one is [`Plan::GRAIN`].
const LONG: f64 = 60.0;

/// Most fleets without changes that a front tries.
const STEADY: u32 = 8;

/// Halvings between two neighbours of a front.
const HALVINGS: u32 = 3;

/// Parts of a run that are tried with one replica less, besides the plan's own steps.
const PARTS: f64 = 12.0;

/// Looks for the cheapest fleet that has a share of the requests in time, with all that will come known.
///
/// The fluid plan is replayed in the simulator with its need divided by ρ. Where bursts are shorter than its intervals this recipe fails,
/// so fleets that stand from the start and never change are tried too: these do not begin with the workload's own `start`. What meets the
/// target at least cost is then thinned out, one replica for some time after the other, as long as the target is still met. It is the
/// cheapest of what was tried, not a proof that nothing is cheaper; and it knows this seed's requests, which no policy can.
#[derive(Clone, Debug)]
pub struct Foresight<'a> {
    scenario: &'a Scenario,
    seed: u64,
    /// Ways to make a plan: what the traffic takes, and what becomes of parts of a replica.
    needs: Vec<(Need, Rounding)>,
}

/// A run with the future known.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The share of the capacity that was planned with; `None` where the fleet stood from the start.
    pub rho: Option<f64>,
    /// Replicas that were ready at the start.
    pub start: u32,
    /// What was asked for.
    pub plan: Plan,
    /// What came of it.
    pub outcome: Outcome,
    /// The place of its recipe among those of the search.
    recipe: usize,
}

impl<'a> Foresight<'a> {
    /// Looks at what comes under `seed`.
    #[must_use]
    pub fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let arrivals = scenario.workload.arrivals(seed);
        let (costs, promised) = (&scenario.profile.costs, scenario.workload.promised);
        let needs = vec![
            (Need::of(&arrivals, costs, promised, LONG), Rounding::Nearest),
            (Need::of(&arrivals, costs, promised, Plan::GRAIN), Rounding::Up),
            (Need::lived(&arrivals, costs, promised, LONG), Rounding::Nearest),
            (Need::lived(&arrivals, costs, promised, Plan::GRAIN), Rounding::Up),
        ];
        Self { scenario, seed, needs }
    }

    /// Attainment against cost: what was tried and is not beaten in both by something else, cheapest first. About 50 runs.
    #[must_use]
    pub fn front(&self) -> Vec<Reached> {
        let planned = (0..self.needs.len()).flat_map(|recipe| RHO.map(|rho| self.planned(recipe, rho)));
        let steady = self.steady_sizes().into_iter().map(|replicas| self.steady(replicas));
        let mut reached: Vec<_> = planned.chain(steady).collect();
        reached.sort_by(|one, other| {
            let by_cost = one.outcome.gpu_hours.total_cmp(&other.outcome.gpu_hours);
            by_cost.then(other.outcome.attainment.total_cmp(&one.outcome.attainment))
        });
        let mut best = f64::NEG_INFINITY;
        reached.retain(|reached| {
            let better = reached.outcome.attainment > best;
            best = best.max(reached.outcome.attainment);
            better
        });
        reached
    }

    /// The cheapest fleet found that has at least the share `target` of the requests in time: the cheapest of `front`, refined between
    /// its neighbours and thinned out in at most `runs` runs more. `None` where nothing tried meets the target.
    #[must_use]
    pub fn cheapest(&self, front: &[Reached], target: f64, runs: usize) -> Option<Reached> {
        let meets = |reached: &&Reached| reached.outcome.attainment >= target;
        let mut best = front.iter().find(meets)?.clone();
        for refined in self.refined(front, target) {
            if meets(&&refined) && refined.outcome.gpu_hours < best.outcome.gpu_hours {
                best = refined;
            }
        }
        Some(self.thinned(best, target, runs))
    }

    /// GPU-hours for which foresight has the attainment of `outcome`, a run of the same scenario and seed: those of
    /// [`Foresight::cheapest`], and at most those of `outcome`, whose own decisions could have been foreseen too.
    #[must_use]
    pub fn price(&self, front: &[Reached], outcome: &Outcome, runs: usize) -> f64 {
        let reached = self.cheapest(front, outcome.attainment, runs);
        reached.map_or(outcome.gpu_hours, |reached| reached.outcome.gpu_hours.min(outcome.gpu_hours))
    }

    /// Between the last that misses the target and the first that meets it, for each recipe.
    fn refined(&self, front: &[Reached], target: f64) -> Vec<Reached> {
        let mut tried = Vec::new();
        for recipe in 0..self.needs.len() {
            let rho = |meets: bool| {
                let of_recipe = front.iter().filter(move |reached| reached.recipe == recipe);
                of_recipe.filter(move |reached| (reached.outcome.attainment >= target) == meets).filter_map(|reached| reached.rho)
            };
            let Some(mut slack) = rho(true).reduce(f64::max) else { continue };
            let mut tight = rho(false).filter(|rho| *rho > slack).reduce(f64::min).unwrap_or(slack + 0.1);
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(slack, tight);
                let reached = self.planned(recipe, middle);
                if reached.outcome.attainment >= target {
                    slack = middle
                } else {
                    tight = middle
                }
                tried.push(reached);
            }
        }
        let steady = |meets: bool| {
            let steady = front.iter().filter(|reached| reached.rho.is_none());
            steady.filter(move |reached| (reached.outcome.attainment >= target) == meets).map(|reached| reached.start)
        };
        if let Some(mut enough) = steady(true).min() {
            let mut few = steady(false).max().unwrap_or(self.scenario.workload.bounds.min.get().saturating_sub(1));
            while few + 1 < enough {
                let middle = u32::midpoint(few, enough);
                let reached = self.steady(middle);
                if reached.outcome.attainment >= target {
                    enough = middle
                } else {
                    few = middle
                }
                tried.push(reached);
            }
        }
        tried
    }

    /// Takes one replica off for some time, where the target is still met, until that helps nowhere or the runs are used up.
    fn thinned(&self, mut best: Reached, target: f64, mut runs: usize) -> Reached {
        let min = self.scenario.workload.bounds.min.get();
        let mut helped = true;
        while helped {
            helped = false;
            for (from, until) in self.parts(&best.plan) {
                let Some(plan) = best.plan.with_less(from, until, min) else { continue };
                if runs == 0 {
                    return best;
                }
                runs -= 1;
                let start = if best.rho.is_none() { plan.at(0.0) } else { best.start };
                let reached = self.run(best.recipe, best.rho, start, plan);
                if reached.outcome.attainment >= target && reached.outcome.gpu_hours < best.outcome.gpu_hours {
                    best = reached;
                    helped = true;
                }
            }
        }
        best
    }

    /// Parts of a run between the steps of a plan and at even distances, the longest first.
    fn parts(&self, plan: &Plan) -> Vec<(f64, f64)> {
        let span = self.scenario.workload.span();
        let part = (span / PARTS / Plan::GRAIN).ceil().max(1.0) * Plan::GRAIN;
        let even = (0..).map(|place| f64::from(place) * part).take_while(|at| *at < span);
        let mut ends: Vec<_> = plan.steps().iter().map(|(at, _)| *at).chain(even).collect();
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let untils = ends.iter().skip(1).copied().chain([f64::INFINITY]);
        let mut parts: Vec<_> = ends.iter().copied().zip(untils).collect();
        parts.sort_by(|one, other| (other.1 - other.0).total_cmp(&(one.1 - one.0)));
        parts
    }

    /// Fleets worth trying without changes: the bounds, and sizes between them that grow by the same factor.
    fn steady_sizes(&self) -> Vec<u32> {
        let bounds = self.scenario.workload.bounds;
        let (min, max) = (bounds.min.min(bounds.max).as_f64().max(1.0), bounds.max.as_f64().max(1.0));
        let share = |place: u32| f64::from(place) / f64::from(STEADY - 1);
        let mut sizes: Vec<_> = (0..STEADY).map(|place| (min * (max / min).powf(share(place))).round() as u32).collect();
        sizes.dedup();
        sizes
    }

    fn planned(&self, recipe: usize, rho: f64) -> Reached {
        let Scenario { workload, fleet, .. } = self.scenario;
        let (need, rounding) = &self.needs[recipe];
        let plan = need.plan(rho, *rounding, fleet.warmup.median, workload.bounds, workload.start);
        self.run(recipe, Some(rho), workload.start, plan)
    }

    fn steady(&self, replicas: u32) -> Reached {
        self.run(self.needs.len(), None, replicas, Plan::steady(replicas))
    }

    fn run(&self, recipe: usize, rho: Option<f64>, start: u32, plan: Plan) -> Reached {
        let mut scenario = self.scenario.clone();
        scenario.workload.start = start;
        let name = rho.map_or_else(|| format!("clairvoyant from {start}"), |rho| format!("clairvoyant ρ {rho:.2}"));
        let outcome = scenario.run(&mut Clairvoyant::new(name, plan.clone()), self.seed);
        Reached { rho, start, plan, outcome, recipe }
    }
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::{Bounds, Profile, Replicas};

    use super::*;
    use crate::metrics::PipelineSettings;
    use crate::policy::{self, Fixed, Policy};
    use crate::scenario::FleetSettings;
    use crate::workload::{Length, Lengths, Setting};
    use crate::{Promised, Workload};

    const PROMISED: Promised = Promised { ttft: 1.0, tpot: 0.05 };
    const BOUNDS: Bounds = Bounds { min: Replicas::ONE, max: Replicas::new(6) };

    fn scenario(traffic: &str) -> Scenario {
        let lengths = Lengths { prompt: Length::Fixed(3000), output: Length::log_normal(150.0, 100.0, 2000) };
        let workload = Workload::drawn(traffic, lengths, Setting { promised: PROMISED, bounds: BOUNDS, start: 2 }).unwrap();
        let profile = Profile::named(Profile::DEFAULT).unwrap().clone();
        Scenario { workload, profile, fleet: FleetSettings::default(), pipeline: PipelineSettings::default() }
    }

    fn peers(scenario: &Scenario) -> Vec<Outcome> {
        let setting = policy::Setting { promised: PROMISED, bounds: BOUNDS, costs: scenario.profile.costs, profile_given: true };
        let named = ["seed", "in-flight:8", "in-flight:32", "headroom"].map(|text| policy::named(text, &setting).unwrap());
        let mut outcomes: Vec<_> = named.into_iter().map(|mut policy| scenario.run(policy.as_mut(), 1)).collect();
        for replicas in 1..=6 {
            let mut standing = scenario.clone();
            standing.workload.start = replicas;
            outcomes.push(standing.run(&mut Fixed(replicas) as &mut dyn Policy, 1));
        }
        outcomes
    }

    fn nobody_is_cheaper(traffic: &str) {
        let scenario = scenario(traffic);
        let foresight = Foresight::new(&scenario, 1);
        let front = foresight.front();
        for peer in peers(&scenario) {
            let reached = foresight.cheapest(&front, peer.attainment, 20).unwrap();
            assert!(reached.outcome.attainment >= peer.attainment, "{traffic}, {}", peer.policy);
            let (cost, of_peer) = (reached.outcome.gpu_hours, peer.gpu_hours);
            assert!(cost <= of_peer, "{traffic}: {} has {} at {of_peer} GPU-hours, foresight takes {cost}", peer.policy, peer.attainment);
        }
    }

    #[test]
    fn nobody_is_cheaper_on_steps() {
        nobody_is_cheaper("steps:2x5m,12x5m,4x5m");
    }

    #[test]
    fn nobody_is_cheaper_on_bursts_shorter_than_a_warm_up() {
        nobody_is_cheaper("on-off:low=1,high=20,on=40,off=150,seconds=20m");
    }

    #[test]
    fn a_front_rises_and_is_the_same_again() {
        let scenario = scenario("steps:2x3m,9x3m");
        let front = Foresight::new(&scenario, 2).front();
        assert!(front.len() > 3);
        let rises = |one: &Reached, next: &Reached| {
            one.outcome.gpu_hours <= next.outcome.gpu_hours && one.outcome.attainment < next.outcome.attainment
        };
        assert!(front.is_sorted_by(rises));
        let again = Foresight::new(&scenario, 2).front();
        assert!(front.iter().map(|reached| &reached.plan).eq(again.iter().map(|reached| &reached.plan)));
    }

    #[test]
    fn what_no_fleet_reaches_is_not_found() {
        let mut scenario = scenario("constant:rate=5,seconds=5m");
        scenario.workload.promised.ttft = 0.001;
        let foresight = Foresight::new(&scenario, 1);
        let front = foresight.front();
        assert_eq!(foresight.cheapest(&front, 0.5, 5), None);
        let who_does = Outcome { attainment: 0.5, ..front[0].outcome.clone() };
        assert_eq!(foresight.price(&front, &who_does, 5), who_does.gpu_hours);
    }

    #[test]
    fn the_fluid_plan_costs_what_its_replicas_cost() {
        let scenario = scenario("constant:rate=5,seconds=10m");
        let fluid = crate::bound::Fluid::of(&scenario, &scenario.workload.arrivals(1));
        // Start, need and minimum are two replicas of two GPUs or less, for 10 minutes and the 10 after it.
        assert_eq!(fluid.gpu_hours, fluid.plan.replica_seconds(1200.0) * 2.0 / 3600.0);
        assert!((2.0 / 3.0..=4.0 / 3.0).contains(&fluid.gpu_hours), "{fluid:?}");
    }
}
