//! Words for people: ages, counts, and lines that fit the terminal.

use std::time::Duration;

use indicatif::HumanDuration;
use jiff::Timestamp;
use textwrap::{Options, fill, termwidth};

/// The narrowest and the widest text. Below the one nothing fits, beyond the other the eye loses the line.
const WIDTHS: (usize, usize) = (40, 120);

/// How many columns there are to write to; 80 where there is no terminal.
pub fn columns() -> usize {
    termwidth().clamp(WIDTHS.0, WIDTHS.1)
}

/// `text` in lines of at most `columns`, the first behind `first`, the others below it.
pub fn paragraph(first: &str, text: &str, columns: usize) -> String {
    let rest = " ".repeat(first.chars().count());
    // What is quoted may have no blank for long; it is not cut, so that it can be copied.
    fill(text, Options::new(columns).initial_indent(first).subsequent_indent(&rest).break_words(false))
}

/// `3 replicas`, `1 replica`.
pub fn count(number: i32, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// How long ago something was: `3 minutes ago`, `just now`.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    let age = age(then, now);
    if age < Duration::from_secs(1) { "just now".to_owned() } else { format!("{} ago", HumanDuration(age)) }
}

/// For how long something has been so: `for 3 minutes`.
pub fn lasting(since: Timestamp, now: Timestamp) -> String {
    format!("for {}", HumanDuration(age(since, now).max(Duration::from_secs(1))))
}

/// The time between the two, none where the clocks disagree.
pub fn age(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_words_and_a_clock_that_is_ahead_is_now() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let then = at("2026-01-01T00:00:00Z");
        for (now, said) in [
            ("2026-01-01T00:00:00Z", "just now"),
            ("2025-12-31T23:59:00Z", "just now"),
            ("2026-01-01T00:00:01Z", "1 second ago"),
            ("2026-01-01T00:03:10Z", "3 minutes ago"),
            ("2026-01-03T01:00:00Z", "2 days ago"),
        ] {
            assert_eq!(ago(then, at(now)), said);
        }
        assert_eq!(lasting(then, then), "for 1 second");
    }

    #[test]
    fn a_paragraph_hangs_below_its_beginning_and_breaks_no_query() {
        let query = "sum(vllm:num_requests_waiting{namespace=\"serving\"})";
        let text = paragraph("  kv  ", &format!("the query {query} gives nothing"), 30);
        assert_eq!(text, format!("  kv  the query\n      {query}\n      gives nothing"));
    }

    #[test]
    fn one_is_singular() {
        assert_eq!((count(1, "replica"), count(0, "replica")), ("1 replica".to_owned(), "0 replicas".to_owned()));
    }
}
