//! Random streams: one for each cause, so that a change in one cause leaves the others as they were.

use rand_pcg::Pcg64;

/// The stream of a cause under a seed: the same two give the same numbers, other ones give unrelated numbers.
#[must_use]
pub fn stream(seed: u64, cause: &str) -> Pcg64 {
    Pcg64::new(u128::from(mixed(seed)), u128::from(fnv1a(cause.as_bytes())))
}

/// The finaliser of SplitMix64: seeds that follow each other are states far apart.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The 64-bit FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    fn first(seed: u64, cause: &str) -> u64 {
        stream(seed, cause).next_u64()
    }

    #[test]
    fn a_stream_depends_on_seed_and_cause_alone() {
        assert_eq!(first(1, "warm-up"), first(1, "warm-up"));
        assert_ne!(first(1, "warm-up"), first(2, "warm-up"));
        assert_ne!(first(1, "warm-up"), first(1, "arrivals"));
    }

    #[test]
    fn hash_is_fnv1a() {
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
