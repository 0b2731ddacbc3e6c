//! Numbers that no reading and no memory, however wild, can drive out of range.

/// `x` within `low` to `high`; what is not a number is `low`.
pub(super) fn within(x: f64, low: f64, high: f64) -> f64 {
    if x.is_nan() { low } else { x.clamp(low, high) }
}

/// `a ÷ b`, or `otherwise` where nothing can be divided by `b`.
pub(super) fn ratio(a: f64, b: f64, otherwise: f64) -> f64 {
    if b > 0.0 { a / b } else { otherwise }
}

/// Whether both are the same but for the last digits, which a memory may lose that is written down and read.
pub(super) fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// The number p standard deviations of a normal distribution that a share of `p` lies below: Φ⁻¹(p), for 0.075 < p < 1 − 1e-10.
///
/// Algorithm AS 241 (PPND7) of Wichura, good to 7 digits.
pub(super) fn normal_quantile(p: f64) -> f64 {
    const SPLIT: f64 = 0.425;
    let q = p - 0.5;
    if q.abs() <= SPLIT {
        let r = SPLIT * SPLIT - q * q;
        let above = ((59.109_374_720 * r + 159.291_132_02) * r + 50.434_271_938) * r + 3.387_132_717_9;
        let below = ((67.187_563_600 * r + 78.757_757_664) * r + 17.895_169_469) * r + 1.0;
        return q * above / below;
    }
    let r = (-(1.0 - p).ln()).sqrt() - 1.6;
    let above = ((0.170_238_211_03 * r + 1.306_728_481_6) * r + 2.756_815_390_0) * r + 1.423_437_277_7;
    let below = (0.120_211_329_75 * r + 0.737_001_642_50) * r + 1.0;
    above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right values from Python's `statistics.NormalDist().inv_cdf`.
    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (p, z) in [
            (0.9, 1.281_551_565_5),
            (0.92, 1.405_071_560_3),
            (0.93, 1.475_791_028_2),
            (0.96, 1.750_686_071_3),
            (0.98, 2.053_748_910_6),
            (0.99, 2.326_347_874),
            (0.999, 3.090_232_306_2),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-6, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn wild_numbers_are_tamed() {
        for (x, tame) in [(f64::NAN, 1.0), (f64::INFINITY, 9.0), (f64::NEG_INFINITY, 1.0), (5.0, 5.0)] {
            assert_eq!(within(x, 1.0, 9.0), tame);
        }
        assert_eq!((ratio(6.0, 3.0, 1.0), ratio(0.0, 0.0, 1.0)), (2.0, 1.0));
    }
}
