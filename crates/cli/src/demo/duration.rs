//! Lengths of time as one writes them on a command line.

use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

/// Seconds, or a length with units of at most hours: `90`, `90s`, `4m4s`, `4 min 4 s`, `1.5h`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let length = match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => SpanParser::new().parse_unsigned_duration(text).ok(),
    };
    length.filter(|length| !length.is_zero()).ok_or_else(|| "write a length of time above 0, such as 90s, 4m30s or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units_or_are_seconds() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("10m", 600), ("1h", 3600), ("4m4s", 244), ("4 min 4 s", 244), ("1h 30m", 5400), ("1.5h", 5400)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "0", "0s", "-1s", "1s ago", "s", "1d", "4m4", "99999999999999999999h"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
