//! Lengths of time as one writes them on a command line.

use std::time::Duration;

/// Seconds, or a whole number with a unit: `90`, `90s`, `10m`, `1h`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.as_bytes().last().copied().unwrap_or(b's')),
        None => (text, b's'),
    };
    let seconds = match unit {
        b'h' => 3600,
        b'm' => 60,
        _ => 1,
    };
    let length = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).filter(|seconds| *seconds > 0);
    length.map(Duration::from_secs).ok_or_else(|| "write a length of time above 0, such as 90s, 10m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units_or_are_seconds() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h", 3600)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "0", "0s", "-1s", "1.5h", "s", "1d", "99999999999999999999h"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
