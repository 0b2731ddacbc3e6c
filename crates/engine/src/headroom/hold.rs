//! Step 7: how long a fleet keeps what it needed.

use serde::{Deserialize, Serialize};

use super::TICK;
use crate::Replicas;

/// The holds to choose from, in ticks of 15 s: 60, 120, 180, 240, 300, 450, 600, 900, 1200 and 1800 s.
const HOLDS: [usize; 10] = [4, 8, 12, 16, 20, 30, 40, 60, 80, 120];
/// Until there is a history to choose by: 600 s.
const FIRST_HOLD: u32 = 40;
/// A young history is too short to choose by: at least 450 s.
pub(super) const YOUNG_HOLD: u32 = 30;
/// Ticks of the history: 7200 s.
const HISTORY: usize = 480;
/// The hold is chosen anew at every fourth tick: a minute changes a history of two hours by little.
const CHOICE_EVERY: u8 = 4;
/// What a start costs, in warm-ups: one is paid for, and the rest is the risk of being without.
const START_PRICE: f64 = 10.0;
/// A tenth of what is held is cut off: a replica that starts now cannot serve a spike that is shorter.
const CUT: usize = 10;
/// Zeros before the history, so that its first windows are as long as the others.
const PADDING: usize = HOLDS[HOLDS.len() - 1];

/// The needs of late, and for how long they hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hold {
    /// need[], the oldest first, one for each tick.
    need: Vec<Replicas>,
    /// h in ticks.
    ticks: u32,
    /// Ticks since h was chosen.
    since_choice: u8,
}

/// What the past asks to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub count: Replicas,
    /// Ticks since it was needed last.
    pub age: usize,
    /// Ticks that it is held for if it is not needed again.
    pub more: usize,
}

impl Default for Hold {
    fn default() -> Self {
        Self { need: vec![], ticks: FIRST_HOLD, since_choice: 0 }
    }
}

impl Hold {
    /// Adds a tick's `need`, and chooses h anew where that is due. `warmup` in seconds.
    pub(super) fn add(&mut self, need: Replicas, warmup: f64) {
        self.push(need);
        self.since_choice = self.since_choice.saturating_add(1);
        if self.since_choice >= CHOICE_EVERY {
            self.since_choice = 0;
            self.ticks = cheapest(&self.need, warmup);
        }
    }

    /// Adds a tick whose need is unknown: the last one stands. Where there is none, there is nothing to repeat; the size of the fleet is
    /// no need, and as one it would make long holds look cheap for two hours.
    pub(super) fn repeat(&mut self) {
        if let Some(&last) = self.need.last() {
            self.push(last);
        }
    }

    /// Whether no need has been seen yet.
    pub(super) fn is_empty(&self) -> bool {
        self.need.is_empty()
    }

    fn push(&mut self, need: Replicas) {
        self.need.push(need);
        self.need.drain(..self.need.len().saturating_sub(HISTORY));
    }

    /// h in ticks, no shorter than `at_least`.
    pub(super) fn ticks(&self, at_least: u32) -> u32 {
        self.ticks.max(at_least)
    }

    /// held: the largest need of the last `ticks`, with the highest tenth cut off.
    pub(super) fn held(&self, ticks: u32) -> Replicas {
        let mut recent = self.recent(ticks).to_vec();
        let at = recent.len() / CUT;
        if recent.is_empty() {
            return Replicas::ZERO;
        }
        *recent.select_nth_unstable_by(at, |a, b| b.cmp(a)).1
    }

    /// Why at least `count` is held.
    pub(super) fn why(&self, count: Replicas, ticks: u32) -> Held {
        let window = ticks as usize + 1;
        // So many may be as high without being held; the next one holds until it has left the window.
        let cut = self.recent(ticks).len() / CUT;
        let age = self.need.iter().rev().enumerate().filter(|(_, need)| **need >= count).nth(cut).map_or(0, |(age, _)| age);
        let last = self.need.iter().rev().position(|need| *need >= count).unwrap_or(0);
        Held { count, age: last, more: window.saturating_sub(age) }
    }

    fn recent(&self, ticks: u32) -> &[Replicas] {
        &self.need[self.need.len().saturating_sub(ticks as usize + 1)..]
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        self.need.drain(..self.need.len().saturating_sub(HISTORY));
        if !HOLDS.contains(&(self.ticks as usize)) {
            self.ticks = FIRST_HOLD;
        }
    }
}

/// The hold in ticks that would have been cheapest over `need`, if an idle replica costs its time and a start ten warm-ups; the shorter
/// one on ties.
fn cheapest(need: &[Replicas], warmup: f64) -> u32 {
    // Signed, as every processor compares those in groups.
    let mut highest: Vec<i32> = std::iter::repeat_n(0, PADDING).chain(need.iter().map(|need| need.as_i32())).collect();
    let needed = sum(&highest);
    let (mut size, mut shorter, mut held) = (1, highest.clone(), Vec::with_capacity(need.len()));
    let mut best = (f64::INFINITY, FIRST_HOLD);
    for hold in HOLDS {
        let window = hold + 1;
        // `highest` holds the maximum of the last `size` values at each place, and grows by doubling.
        while 2 * size <= window {
            shorter.copy_from_slice(&highest);
            raise(&mut highest[size..], &shorter);
            size *= 2;
        }
        held.clear();
        held.extend_from_slice(&highest[PADDING..]);
        raise(&mut held, &highest[PADDING + size - window..]);
        let idle = sum(&held) - needed;
        let starts: i64 = held.windows(2).map(|pair| i64::from((pair[1] - pair[0]).max(0))).sum();
        let cost = TICK * idle as f64 + START_PRICE * warmup * starts as f64;
        if cost < best.0 {
            best = (cost, hold as u32);
        }
    }
    best.1
}

/// Raises each value to the one at the same place of `others`.
fn raise(values: &mut [i32], others: &[i32]) {
    for (value, other) in values.iter_mut().zip(others) {
        *value = if *other > *value { *other } else { *value };
    }
}

fn sum(values: &[i32]) -> i64 {
    values.iter().map(|value| i64::from(*value)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hold(need: impl IntoIterator<Item = u32>) -> Hold {
        Hold { need: need.into_iter().map(Replicas::new).collect(), ..Hold::default() }
    }

    /// Steps of law.md, value by value.
    fn naive(need: &[u32], warmup: f64) -> u32 {
        let cost = |hold: usize| {
            let held: Vec<u32> = (0..need.len()).map(|t| *need[t.saturating_sub(hold)..=t].iter().max().unwrap()).collect();
            let idle: f64 = held.iter().zip(need).map(|(held, need)| 15.0 * (f64::from(*held) - f64::from(*need))).sum();
            let starts: f64 = held.windows(2).map(|pair| f64::from(pair[1].saturating_sub(pair[0]))).sum();
            idle + 10.0 * warmup * starts
        };
        let mut best = 4;
        for hold in [8, 12, 16, 20, 30, 40, 60, 80, 120] {
            if cost(hold) < cost(best) {
                best = hold;
            }
        }
        best as u32
    }

    /// A burst of one tick from 1 to 2 every 10 ticks (150 s) with T_w 100 s: a start costs 1000, and holding over the nine ticks
    /// between costs 135, so the 180 s that bridge them pay. With T_w 5 s a start costs 50, less than the 60 s of the shortest hold,
    /// which all holds cost at least.
    #[test]
    fn a_hold_bridges_what_comes_back_if_that_is_cheaper_than_a_start() {
        let bursts: Vec<Replicas> = (0..480).map(|t| Replicas::new(if t % 10 == 9 { 2 } else { 1 })).collect();
        assert_eq!(cheapest(&bursts, 100.0), 12);
        assert_eq!(cheapest(&bursts, 5.0), 4);
        assert_eq!(cheapest(&[Replicas::ONE], 100.0), 4, "the shorter one on ties");
    }

    #[test]
    fn the_hold_is_chosen_at_every_fourth_tick() {
        let mut hold = Hold::default();
        for _ in 0..3 {
            hold.add(Replicas::ONE, 100.0);
            assert_eq!(hold.ticks(0), 40, "600 s until then");
        }
        hold.add(Replicas::ONE, 100.0);
        assert_eq!((hold.ticks(0), hold.ticks(YOUNG_HOLD)), (4, 30), "60 s, or 450 s while young");
    }

    #[test]
    fn a_tenth_is_cut_off() {
        // Twenty-one values at 300 s: floor(2.1) = 2, the third highest.
        let need = |high: usize| hold((0..40).map(|t| if t >= 40 - high { 9 } else { 4 }));
        assert_eq!(need(2).held(20), Replicas::new(4));
        assert_eq!(need(3).held(20), Replicas::new(9));
        // As many as there are: of five none is cut off, of ten one.
        assert_eq!(hold([9, 4, 4, 4, 4]).held(20), Replicas::new(9));
        assert_eq!(hold([9, 4, 4, 4, 4, 4, 4, 4, 4, 4]).held(20), Replicas::new(4));
        assert_eq!(hold([]).held(20), Replicas::ZERO);
        assert_eq!(hold([9].into_iter().chain([4; 21])).held(20), Replicas::new(4), "22 ticks ago");
    }

    /// Three of 9, two ticks ago the last of them: two may be cut off, so the third, 4 ticks ago, holds for 21 − 4 more.
    #[test]
    fn why_it_is_held() {
        let hold = hold([4; 30].into_iter().chain([9, 9, 9, 4, 4]));
        assert_eq!(hold.held(20), Replicas::new(9));
        assert_eq!(hold.why(Replicas::new(9), 20), Held { count: Replicas::new(9), age: 2, more: 17 });
        let mut later = hold.clone();
        for tick in 1..=17 {
            later.repeat();
            assert_eq!(later.held(20) == Replicas::new(9), tick < 17, "{tick}");
        }
    }

    #[test]
    fn a_missing_need_is_the_last_one() {
        let mut none = Hold::default();
        none.repeat();
        assert!(none.is_empty());
        let mut hold = hold([8]);
        hold.repeat();
        assert_eq!(hold.need, [Replicas::new(8); 2]);
        for _ in 0..600 {
            hold.repeat();
        }
        assert_eq!(hold.need.len(), 480);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn the_hold_is_the_cheapest_by_brute_force(need in prop::collection::vec(0_u32..12, 1..480), warmup in 0.0_f64..600.0) {
            let found = cheapest(&need.iter().copied().map(Replicas::new).collect::<Vec<_>>(), warmup);
            prop_assert_eq!(found, naive(&need, warmup));
        }

        /// Runs as a fleet has them, where long holds pay as well.
        #[test]
        fn also_over_plateaus(runs in prop::collection::vec((0_u32..30, 1_usize..90), 1..12), warmup in 0.0_f64..600.0) {
            let need: Vec<u32> = runs.into_iter().flat_map(|(need, ticks)| std::iter::repeat_n(need, ticks)).take(480).collect();
            let found = cheapest(&need.iter().copied().map(Replicas::new).collect::<Vec<_>>(), warmup);
            prop_assert_eq!(found, naive(&need, warmup));
        }

        #[test]
        fn held_is_the_sorted_element(need in prop::collection::vec(0_u32..12, 1..200), ticks in 4_u32..120) {
            let mut last: Vec<u32> = need.iter().rev().take(ticks as usize + 1).copied().collect();
            last.sort_by(|a, b| b.cmp(a));
            let expected = last[(0.1 * last.len() as f64).floor() as usize];
            prop_assert_eq!(hold(need).held(ticks).get(), expected);
        }

        #[test]
        fn the_largest_counts_do_not_overflow(need in prop::collection::vec(prop::sample::select(vec![0, u32::MAX]), 1..480)) {
            let found = cheapest(&need.iter().copied().map(Replicas::new).collect::<Vec<_>>(), 1e6);
            prop_assert!(HOLDS.contains(&(found as usize)));
        }
    }
}
