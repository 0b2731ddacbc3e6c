//! Many decode steps at once.

use llmscaler_engine::Costs;

/// Decode steps in a row, in which nothing else happens.
///
/// Each step adds a token per sequence to what is read, so the steps' times are an arithmetic series: j of them take j (first + growth j)
/// seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leap {
    starts: f64,
    sequences: u64,
    first: f64,
    growth: f64,
    steps: u64,
    ends: f64,
    /// Steps that are already in the meters.
    observed: u64,
    /// Whether requests wait that cannot be admitted before a sequence finishes; others that come have to wait behind them.
    blocked: bool,
}

impl Leap {
    /// `steps` steps, at least one, of `sequences` sequences with `context` tokens in the KV cache.
    pub fn new(costs: &Costs, starts: f64, sequences: u64, context: u64, steps: u64, blocked: bool) -> Self {
        let n = sequences as f64;
        let growth = costs.kv_token * n / 2.0;
        let first = super::step_seconds(costs, n, context as f64, 0.0) + growth;
        let mut leap = Self { starts, sequences, first, growth, steps, ends: starts, observed: 0, blocked };
        leap.ends = starts + leap.elapsed(steps);
        leap
    }

    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn ends(&self) -> f64 {
        self.ends
    }

    pub fn starts(&self) -> f64 {
        self.starts
    }

    /// A request came: unless it has to wait anyway, the leap ends with the step that is at work at `now`.
    pub fn interrupt(&mut self, now: f64) {
        if self.blocked {
            return;
        }
        let mut steps = self.guess(now).ceil().max(1.0) as u64;
        while self.time(steps) < now {
            steps += 1;
        }
        while steps > 1 && self.time(steps - 1) >= now {
            steps -= 1;
        }
        if steps < self.steps {
            self.steps = steps;
            self.ends = self.time(steps);
        }
    }

    /// Steps that are complete by `now`.
    pub fn steps_by(&self, now: f64) -> u64 {
        let mut steps = self.guess(now) as u64;
        while steps > 0 && self.time(steps) > now {
            steps -= 1;
        }
        while self.time(steps + 1) <= now {
            steps += 1;
        }
        steps.min(self.steps)
    }

    /// Gaps between tokens, and the seconds of them all, up to step `until`, that have not been asked for before.
    pub fn observe(&mut self, until: u64) -> (u64, f64) {
        if until <= self.observed {
            return (0, 0.0);
        }
        let seconds = self.sequences as f64 * (self.elapsed(until) - self.elapsed(self.observed));
        let gaps = self.sequences * (until - self.observed);
        self.observed = until;
        (gaps, seconds)
    }

    fn time(&self, steps: u64) -> f64 {
        self.starts + self.elapsed(steps)
    }

    fn elapsed(&self, steps: u64) -> f64 {
        let steps = steps as f64;
        steps * (self.first + self.growth * steps)
    }

    /// The steps, whole and part, that take until `now`: the root of the quadratic, in the form that does not cancel.
    fn guess(&self, now: f64) -> f64 {
        let seconds = (now - self.starts).max(0.0);
        2.0 * seconds / (self.first + (self.first * self.first + 4.0 * self.growth * seconds).sqrt())
    }
}
