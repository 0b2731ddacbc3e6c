//! What is told of the scalers while the demo runs: one line for each change of a size or a state, and not too many of them.

use std::collections::BTreeMap;
use std::time::Duration;

use llmscaler_api::{LLMScalerStatus, MetricState};
use tokio::time::Instant;

/// The least time between two lines about the size of one fleet; what happens in between is told as one change.
const PAUSE: Duration = Duration::from_secs(6);

/// For how long nothing must be known before that is told: some syncs without numbers are no news.
const SILENCE: Duration = Duration::from_secs(4);

/// The longest reason that is told, in characters.
const LONGEST: usize = 130;

/// What was told of each scaler.
#[derive(Debug, Default)]
pub(super) struct Commentary(BTreeMap<String, Told>);

#[derive(Debug)]
struct Told {
    size: i32,
    at: Option<Instant>,
    /// A size that is not told yet, and why.
    pending: Option<(i32, String)>,
    unknown: Unknown,
    /// What the next write waits for, if it was told.
    waits: Option<String>,
}

/// Whether a scaler knows anything.
#[derive(Debug)]
enum Unknown {
    /// Nothing was known so far, as at the beginning, which is no news.
    Yet,
    No,
    Since(Instant),
    Told,
}

impl Commentary {
    /// Takes in a status, and answers what is to be told.
    pub(super) fn hear(&mut self, name: &str, status: &LLMScalerStatus, now: Instant) -> Vec<String> {
        let Some(size) = status.replicas else { return vec![] };
        let first = Told { size, at: None, pending: None, unknown: Unknown::Yet, waits: None };
        let told = self.0.entry(name.to_owned()).or_insert(first);
        let mut lines = vec![];
        let unknown = !status.metrics.is_empty() && status.metrics.iter().all(|metric| metric.state == MetricState::Unknown);
        match (&told.unknown, unknown) {
            (Unknown::No, true) => told.unknown = Unknown::Since(now),
            (Unknown::Yet | Unknown::Since(_), false) => told.unknown = Unknown::No,
            (Unknown::Told, false) => {
                told.unknown = Unknown::No;
                lines.push(line(name, &format!("has numbers again, at {size}"), ""));
            }
            _ => {}
        }
        let why = status.decision.as_ref().map_or("", |decision| decision.message.as_str());
        let waits = waits_for(status);
        if waits.is_some() && waits != told.waits {
            lines.push(line(name, &format!("{size} waits"), why));
            told.waits = waits;
        }
        if size != told.pending.as_ref().map_or(told.size, |(size, _)| *size) {
            told.pending = Some((size, why.to_owned()));
            told.waits = None;
        }
        lines.extend(told.due(name, now));
        lines
    }

    /// What was kept back and may be told now.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<String> {
        self.0.iter_mut().flat_map(|(name, told)| told.silent(name, now).into_iter().chain(told.due(name, now))).collect()
    }
}

impl Told {
    /// That nothing is known any more, once that has lasted.
    fn silent(&mut self, name: &str, now: Instant) -> Option<String> {
        let Unknown::Since(since) = self.unknown else { return None };
        (now.duration_since(since) >= SILENCE).then(|| {
            self.unknown = Unknown::Told;
            line(name, &format!("knows nothing any more, and holds {}", self.size), "")
        })
    }

    fn due(&mut self, name: &str, now: Instant) -> Option<String> {
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let (size, why) = self.pending.take()?;
        let from = std::mem::replace(&mut self.size, size);
        self.at = Some(now);
        (size != from).then(|| line(name, &format!("{from} -> {size}"), &why))
    }
}

/// The reason why a write is kept back, other than that pods start or go, which they do after every change.
fn waits_for(status: &LLMScalerStatus) -> Option<String> {
    let able = status.conditions.iter().find(|condition| condition.type_ == "AbleToScale" && condition.status == "False")?;
    (!matches!(able.reason.as_str(), "NotSettled" | "")).then(|| able.reason.clone())
}

fn line(name: &str, what: &str, why: &str) -> String {
    format!("{name:<10} {what:<9} {}", shortened(why)).trim_end().to_owned()
}

/// A decision's message without the sizes, which are told already, and on one line.
fn shortened(why: &str) -> String {
    let sizes = why.starts_with("up from ") || why.starts_with("down from ");
    let why = why.split_once(": ").filter(|_| sizes).map_or(why, |(_, rest)| rest);
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    if why.chars().count() <= LONGEST {
        return why;
    }
    let cut: String = why.chars().take(LONGEST).collect();
    format!("{}…", cut.rsplit_once(' ').map_or(cut.as_str(), |(whole, _)| whole))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(replicas: i32, more: Value) -> LLMScalerStatus {
        let mut status = json!({"replicas": replicas, "metrics": [], "conditions": [],
            "decision": {"reason": "DesiredWithinRange", "message": "because of the load", "stages": []}});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn changes_that_come_fast_are_told_as_one() {
        let (mut commentary, begin) = (Commentary::default(), Instant::now());
        let hear = |commentary: &mut Commentary, replicas, now| commentary.hear("band", &status(replicas, json!({})), now);
        assert!(hear(&mut commentary, 3, begin).is_empty(), "where it begins is no change");
        assert_eq!(hear(&mut commentary, 4, begin), ["band       3 -> 4    because of the load"]);
        assert!(hear(&mut commentary, 5, begin).is_empty() && hear(&mut commentary, 6, begin).is_empty());
        assert!(commentary.overdue(begin).is_empty());
        let later = begin + PAUSE;
        assert_eq!(commentary.overdue(later), ["band       4 -> 6    because of the load"]);
        assert!(hear(&mut commentary, 5, later).is_empty() && hear(&mut commentary, 6, later).is_empty());
        assert!(commentary.overdue(later + PAUSE).is_empty(), "there and back again is nothing");
    }

    #[test]
    fn the_loss_of_all_metrics_is_told_when_it_lasts_and_so_is_their_return() {
        let (mut commentary, mut now) = (Commentary::default(), Instant::now());
        let hear = |commentary: &mut Commentary, state: &str, now| {
            let metric = json!({"name": "kv", "state": state, "message": "it hangs"});
            commentary.hear("kv-cache", &status(4, json!({"metrics": [metric]})), now)
        };
        for state in ["Unknown", "Unknown", "Unknown", "Unknown", "Value", "Unknown", "Value", "Unknown"] {
            assert!(hear(&mut commentary, state, now).is_empty(), "{state}");
            now += SILENCE / 2;
            assert!(commentary.overdue(now).is_empty(), "{state}");
        }
        now += SILENCE;
        assert_eq!(commentary.overdue(now), ["kv-cache   knows nothing any more, and holds 4"]);
        assert!(hear(&mut commentary, "Unknown", now).is_empty() && commentary.overdue(now).is_empty());
        assert_eq!(hear(&mut commentary, "Value", now), ["kv-cache   has numbers again, at 4"]);
    }

    #[test]
    fn what_a_write_waits_for_is_told_once_until_it_is_made() {
        let mut commentary = Commentary::default();
        let mut hear = |replicas: i32, reason: &str| {
            let since = "2026-01-01T00:00:00Z";
            let condition = json!({"type": "AbleToScale", "status": "False", "reason": reason, "message": "", "lastTransitionTime": since});
            commentary.hear("band", &status(replicas, json!({"conditions": [condition]})), Instant::now())
        };
        assert!(hear(4, "NotSettled").is_empty());
        assert_eq!(hear(4, "RolloutInProgress"), ["band       4 waits   because of the load"]);
        assert!(hear(4, "RolloutInProgress").is_empty() && hear(4, "NotSettled").is_empty() && hear(4, "RolloutInProgress").is_empty());
        assert_eq!(hear(5, ""), ["band       4 -> 5    because of the load"]);
        assert_eq!(hear(5, "RolloutInProgress"), ["band       5 waits   because of the load"]);
    }

    #[test]
    fn long_reasons_are_cut_between_words() {
        let long = "word ".repeat(60);
        let cut = shortened(&long);
        assert!(cut.ends_with("word…") && cut.chars().count() <= LONGEST + 1, "{cut}");
        assert_eq!(shortened("a  b\nc"), "a b c");
        assert_eq!(shortened("up from 2 to 3: kv 0.9: high"), "kv 0.9: high");
    }
}
