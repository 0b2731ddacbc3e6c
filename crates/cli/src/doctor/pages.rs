//! The pages of pods and router, read through the API server.

use std::collections::BTreeSet;

use llmscaler_signals::preset::{Preset, Signal};
use llmscaler_signals::scrape::exposition::Line;

use super::finding::Finding;
use super::names::{self, Names};

const CHECK: &str = "page";

/// The page of one pod or router.
pub struct Page {
    /// Whose page, for people.
    pub of: String,
    /// Whose names it has.
    pub preset: &'static Preset,
    /// The names on it, or why there is none.
    pub names: Result<BTreeSet<String>, Missed>,
}

/// Why a page was not read.
#[derive(Clone, Debug, PartialEq)]
pub struct Missed {
    pub why: String,
    /// Whether it is only we who may not.
    pub forbidden: bool,
}

/// The names of the samples on a page.
pub fn names_on(page: &str) -> Result<BTreeSet<String>, Missed> {
    let mut names = BTreeSet::new();
    for (number, line) in page.lines().enumerate() {
        match Line::of(line.as_bytes()) {
            Ok(Some(sample)) => drop(names.insert(sample.name.to_owned())),
            Ok(None) => {}
            Err(why) => return Err(Missed { why: format!("line {} is not of a page of metrics: {why}", number + 1), forbidden: false }),
        }
    }
    if names.is_empty() { Err(Missed { why: "the page is empty".to_owned(), forbidden: false }) } else { Ok(names) }
}

/// What the pages have of the signals.
pub fn check(pages: &[Page], signals: &BTreeSet<Signal>) -> Vec<Finding> {
    if pages.is_empty() {
        return vec![Finding::note(CHECK, "there is no ready pod whose page could be read", "ask again when one is ready")];
    }
    pages.iter().flat_map(|page| of_page(page, signals)).collect()
}

fn of_page(page: &Page, signals: &BTreeSet<Signal>) -> Vec<Finding> {
    match &page.names {
        Ok(seen) => {
            let seen = Names { here: seen.clone(), anywhere: BTreeSet::new() };
            names::check(page.preset, signals, &seen, &format!("on the page of {}", page.of))
        }
        Err(Missed { why, forbidden: true }) => vec![Finding::unseen(CHECK, &format!("the page of {}", page.of), why)],
        Err(Missed { why, .. }) => vec![Finding::warning(
            CHECK,
            format!("the page of {} could not be read through the API server: {why}", page.of),
            "check scrape.port, scrape.path and scrape.scheme; the operator itself goes to the pod's address, and the scaler's status tells how \
             it fares",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn checked(names: Result<BTreeSet<String>, Missed>) -> Vec<Severity> {
        let page = Page { of: "pod a".to_owned(), preset: Preset::named("vLLM").unwrap(), names };
        check(&[page], &[Signal::QueuedRequests].into()).into_iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn a_page_has_the_names_or_it_is_told_what_is_wrong() {
        assert_eq!(checked(names_on("# HELP x\nvllm:num_requests_waiting{engine=\"0\"} 1\n")), [Severity::Ok]);
        assert_eq!(checked(names_on("python_gc_total 1\n")), [Severity::Problem]);
        assert_eq!(checked(names_on("<html>")), [Severity::Warning]);
        assert_eq!(checked(names_on("")), [Severity::Warning]);
        assert_eq!(checked(Err(Missed { why: "pods/proxy is forbidden".to_owned(), forbidden: true })), [Severity::Note]);
        assert_eq!(check(&[], &BTreeSet::new())[0].severity, Severity::Note);
    }
}
