//! What happens when: in the order of time, and at the same time in the order of insertion.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events that are to come.
#[derive(Clone, Debug)]
pub(crate) struct Events<E> {
    heap: BinaryHeap<Event<E>>,
    inserted: u64,
}

#[derive(Clone, Debug)]
struct Event<E> {
    at: f64,
    number: u64,
    what: E,
}

impl<E> Events<E> {
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }

    pub fn add(&mut self, at: f64, what: E) {
        self.heap.push(Event { at, number: self.inserted, what });
        self.inserted += 1;
    }

    /// When the first one is due; infinite where there is none.
    pub fn due(&self) -> f64 {
        self.heap.peek().map_or(f64::INFINITY, |event| event.at)
    }

    /// The first one.
    pub fn take(&mut self) -> Option<E> {
        self.heap.pop().map(|event| event.what)
    }
}

impl<E> Event<E> {
    /// The heap gives the greatest first, so the earliest is the greatest.
    fn rank(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then_with(|| other.number.cmp(&self.number))
    }
}

impl<E> Ord for Event<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank(other)
    }
}

impl<E> PartialOrd for Event<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Event<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Event<E> {}

/// One due time for each of a few things that move it often. The earliest is known at once, the first of those that are equal.
///
/// A tournament: the leaves are the times, each node above names the earlier of its two.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    due: Vec<f64>,
    /// Winners of the nodes, the root at 1; as many as leaves.
    winners: Vec<u32>,
}

impl Timers {
    pub fn new() -> Self {
        Self { due: vec![f64::INFINITY; 2], winners: vec![0; 2] }
    }

    /// Sets one's time; infinite: never.
    pub fn set(&mut self, index: usize, due: f64) {
        if index >= self.due.len() {
            self.grow(index + 1);
        }
        self.due[index] = due;
        let leaves = self.due.len();
        let mut node = (leaves + index) / 2;
        while node > 0 {
            self.winners[node] = self.play(node, leaves);
            node /= 2;
        }
    }

    /// The earliest, and when it is due; infinite where none is.
    pub fn first(&self) -> (usize, f64) {
        let winner = self.winners[1] as usize;
        (winner, self.due[winner])
    }

    fn play(&self, node: usize, leaves: usize) -> u32 {
        let contender = |child: usize| if child >= leaves { (child - leaves) as u32 } else { self.winners[child] };
        let (left, right) = (contender(2 * node), contender(2 * node + 1));
        if self.due[right as usize] < self.due[left as usize] { right } else { left }
    }

    fn grow(&mut self, needed: usize) {
        let leaves = needed.next_power_of_two();
        self.due.resize(leaves, f64::INFINITY);
        self.winners = vec![0; leaves];
        for node in (1..leaves).rev() {
            self.winners[node] = self.play(node, leaves);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_insertion() {
        let mut events = Events::new();
        for (at, name) in [(2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b"), (0.5, "first")] {
            events.add(at, name);
        }
        assert_eq!(events.due(), 0.5);
        let names: Vec<_> = std::iter::from_fn(|| events.take()).collect();
        assert_eq!(names, ["first", "a", "b", "c", "d"]);
        assert_eq!(events.due(), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn the_first_timer_is_the_earliest(sets in prop::collection::vec((0usize..40, prop::option::of(0u8..20)), 1..200)) {
            let mut timers = Timers::new();
            let mut due = [f64::INFINITY; 64];
            for (index, at) in sets {
                due[index] = at.map_or(f64::INFINITY, f64::from);
                timers.set(index, due[index]);
                let earliest = due.iter().copied().fold(f64::INFINITY, f64::min);
                let (first, at) = timers.first();
                prop_assert_eq!(at, earliest);
                if earliest < f64::INFINITY {
                    prop_assert_eq!(Some(first), due.iter().position(|due| *due == earliest));
                }
            }
        }
    }
}
