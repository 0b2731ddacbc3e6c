//! Lengths of time that the resource carries as text: `3s`, `100ms`, `1m30s`.

use std::time::Duration;

/// Units in the order in which they have to appear, with their length in seconds.
const UNITS: [(&str, f64); 4] = [("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001)];

/// A length of time as hours, minutes, seconds and milliseconds, in this order and each at most once, with up to six digits before
/// the point and after it; to the nearest nanosecond. `None` for anything else, as for a bare number: nobody could tell its unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut units, mut seconds) = (text, UNITS.as_slice(), 0.0);
    while !rest.is_empty() || rest.len() == text.len() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !matches!(c, '0'..='9' | '.'))?);
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len()));
        let place = units.iter().position(|(name, _)| *name == unit)?;
        seconds += plain(number)? * units[place].1;
        (rest, units) = (tail, &units[place + 1..]);
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// Up to six digits, and up to six more after a point.
fn plain(number: &str) -> Option<f64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(whole) && digits(fraction) { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        for (text, milliseconds) in [
            ("3s", 3000),
            ("100ms", 100),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("1h2m3s4ms", 3_723_004),
            ("1.5s", 1500),
            ("0.25m", 15_000),
            ("62.5ms", 62),
            ("0s", 0),
            ("0h0m", 0),
            ("999999h", 3_599_996_400_000),
        ] {
            assert_eq!(duration(text).map(|length| length.as_millis()), Some(milliseconds), "{text}");
        }
        assert_eq!(duration("62.5ms"), Some(Duration::from_micros(62_500)));
        assert_eq!(duration("0.1s"), Some(Duration::from_millis(100)));
    }

    #[test]
    fn what_is_no_length_of_time() {
        for text in [
            "", " ", "3", "3 s", " 3s", "3s ", "-3s", "+3s", "s", ".5s", "5.s", "1e3s", "3S", "3sec", "1d", "30s1m", "1s1s", "1ms1s",
            "1000000s", "1µs", "٣s",
        ] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }
}
