//! Quantiles of latencies in bounded memory.

/// The shortest latency that is told from shorter ones: 2⁻¹² s, 0.24 ms.
const SHORTEST: f64 = 1.0 / 4096.0;

/// Latencies from here on are not told apart: 2¹⁶ s, 18 h.
const LONGEST: f64 = 65_536.0;

/// Bits of a double's mantissa.
const MANTISSA: u32 = 52;

/// A histogram of latencies whose buckets divide each power of two into equal parts: finding one takes a shift.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Binary logarithm of the parts.
    precision: u32,
    counts: Vec<u32>,
    count: u64,
    least: f64,
    greatest: f64,
}

impl Latencies {
    /// Buckets of at most 1/128 of what they hold.
    pub fn fine() -> Self {
        Self::of(7)
    }

    /// Buckets of at most 1/32 of what they hold.
    pub fn coarse() -> Self {
        Self::of(5)
    }

    fn of(precision: u32) -> Self {
        Self { precision, counts: Vec::new(), count: 0, least: f64::INFINITY, greatest: 0.0 }
    }

    /// Adds one, in seconds.
    pub fn add(&mut self, seconds: f64) {
        let bounded = seconds.clamp(SHORTEST, LONGEST);
        let bucket = ((bounded.to_bits() - SHORTEST.to_bits()) >> (MANTISSA - self.precision)) as usize;
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.least = self.least.min(seconds);
        self.greatest = self.greatest.max(seconds);
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The nearest-rank quantile `q`, above 0 and at most 1, of those that were added and of `endless` ones that took for ever; NaN of
    /// none at all.
    pub fn quantile(&self, q: f64, endless: u64) -> f64 {
        let of = self.count + endless;
        if of == 0 {
            return f64::NAN;
        }
        // The product's rounding must not make the rank one too high.
        let rank = (q * of as f64 - 1e-6).ceil().max(1.0) as u64;
        let mut before = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = u64::from(*count);
            if before + count >= rank {
                let (low, high) = (self.bound(bucket), self.bound(bucket + 1));
                let within = ((rank - before) as f64 - 0.5) / count as f64;
                return (low + (high - low) * within).clamp(self.least, self.greatest);
            }
            before += count;
        }
        f64::INFINITY
    }

    fn bound(&self, bucket: usize) -> f64 {
        f64::from_bits(SHORTEST.to_bits() + ((bucket as u64) << (MANTISSA - self.precision)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64, part: f64) {
        assert!((one / other - 1.0).abs() <= part, "{one} {other}");
    }

    #[test]
    fn quantiles_are_near_the_exact_ones() {
        for (mut latencies, part) in [(Latencies::fine(), 1.0 / 128.0), (Latencies::coarse(), 1.0 / 32.0)] {
            for milliseconds in 1..=10_000_u32 {
                latencies.add(f64::from(milliseconds) / 1000.0);
            }
            for (q, exact) in [(0.001, 0.010), (0.5, 5.0), (0.9, 9.0), (0.99, 9.9), (1.0, 10.0)] {
                close(latencies.quantile(q, 0), exact, part);
            }
        }
    }

    #[test]
    fn a_single_one_is_every_quantile() {
        let mut latencies = Latencies::coarse();
        latencies.add(0.123);
        assert_eq!([0.01, 0.5, 0.99].map(|q| latencies.quantile(q, 0)), [0.123; 3]);
    }

    #[test]
    fn none_has_no_quantile() {
        assert!(Latencies::fine().quantile(0.5, 0).is_nan());
    }

    #[test]
    fn the_endless_ones_are_the_longest() {
        let mut latencies = Latencies::fine();
        (0..9).for_each(|_| latencies.add(1.0));
        assert_eq!(latencies.quantile(0.9, 1), 1.0);
        assert_eq!(latencies.quantile(0.91, 1), f64::INFINITY);
        assert_eq!(Latencies::fine().quantile(0.5, 3), f64::INFINITY);
    }

    #[test]
    fn what_is_out_of_range_is_kept_at_its_end() {
        let mut latencies = Latencies::fine();
        latencies.add(0.0);
        latencies.add(1e9);
        assert!(latencies.quantile(0.5, 0) < 0.000_25);
        assert!(latencies.quantile(1.0, 0) > 65_000.0);
    }
}
