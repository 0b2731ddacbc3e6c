//! How figures are written for people.

use super::Spread;

/// A share as a percentage of two places: `99.59`. Only what is whole is written as 100.00.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "-".to_owned();
    }
    let rounded = (share * 10_000.0).round();
    let shown = if share < 1.0 { rounded.min(9999.0) } else { rounded };
    format!("{:.2}", shown / 100.0)
}

/// A percentage without places that say nothing, for sentences and ranges: `99.5`, `100`.
pub fn short_percent(share: f64) -> String {
    trim(&percent(share)).to_owned()
}

/// A percentage of one place, for ranges: `99.4`. Only what is whole is written as 100.
pub fn coarse_percent(share: f64) -> String {
    if !share.is_finite() {
        return "-".to_owned();
    }
    let rounded = (share * 1000.0).round();
    trim(&format!("{:.1}", if share < 1.0 { rounded.min(999.0) } else { rounded } / 10.0)).to_owned()
}

/// A quantity in three figures: `8.57`, `28.5`, `205`.
pub fn three(value: f64) -> String {
    let places = match value.abs() {
        small if small < 9.995 => 2,
        middle if middle < 99.95 => 1,
        _ => 0,
    };
    if value.is_finite() { format!("{value:.places$}") } else { "-".to_owned() }
}

/// A latency: `61 ms`, `1.20 s`, `526 s`; `never` when it does not end.
pub fn latency(seconds: f64) -> String {
    match seconds {
        unknown if unknown.is_nan() => "-".to_owned(),
        endless if endless.is_infinite() => "never".to_owned(),
        short if short < 0.9995 => format!("{:.0} ms", short * 1000.0),
        long => format!("{} s", three(long)),
    }
}

/// A count that is a mean: `11`, `10.4`.
pub fn count(mean: f64) -> String {
    if mean.is_finite() { trim(&format!("{mean:.1}")).to_owned() } else { "-".to_owned() }
}

/// A time of the run: `3:05` (minutes and seconds) or `1:03:05`.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// The range of a spread, empty where there is none: `(99.4-99.6)`.
pub fn range(spread: Spread, write: fn(f64) -> String) -> String {
    let (low, high) = (write(spread.min), write(spread.max));
    if low == high { String::new() } else { format!("({low}-{high})") }
}

fn trim(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([percent(0.9959), percent(0.999_99), percent(1.0), percent(f64::NAN)], ["99.59", "99.99", "100.00", "-"]);
        assert_eq!([short_percent(0.995), short_percent(1.0), short_percent(0.5)], ["99.5", "100", "50"]);
        assert_eq!([coarse_percent(0.9928), coarse_percent(0.9999), coarse_percent(1.0)], ["99.3", "99.9", "100"]);
        assert_eq!([three(8.567), three(9.999), three(28.46), three(99.96), three(1234.4)], ["8.57", "10.0", "28.5", "100", "1234"]);
        assert_eq!([latency(0.0612), latency(0.9999), latency(43.81), latency(f64::INFINITY)], ["61 ms", "1.00 s", "43.8 s", "never"]);
        assert_eq!([count(11.0), count(10.44), count(0.0)], ["11", "10.4", "0"]);
        assert_eq!([clock(0.0), clock(185.2), clock(3785.0)], ["0:00", "3:05", "1:03:05"]);
        assert_eq!(range(Spread { mean: 1.0, min: 1.0, max: 1.0 }, three), "");
        assert_eq!(range(Spread { mean: 1.5, min: 1.0, max: 2.0 }, three), "(1.00-2.00)");
    }
}
