//! What is told of the scalers while the demo runs: one line for each change of a size or a state, and not too many of them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llmscaler_api::{LLMScalerStatus, MetricState};
use tokio::time::Instant;

/// The least time between two lines about the size of one fleet; what happens in between is told as one change.
const PAUSE: Duration = Duration::from_secs(3);

/// For how long nothing must be known before that is told: some syncs without numbers are no news.
const SILENCE: Duration = Duration::from_secs(4);

/// The longest reason that is told, in characters.
const LONGEST: usize = 130;

/// So many sizes on the way from one to another are told one by one.
const STATIONS: usize = 3;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// By the machine's, by which people read.
    pub real: Instant,
    /// By the demo's, by which everything happens.
    pub own: Timestamp,
}

/// What is told, and when it happened, which may be before what was told last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// By the demo's clock.
    pub at: Timestamp,
    pub text: String,
}

/// What was told of each scaler.
#[derive(Debug, Default)]
pub(super) struct Commentary(BTreeMap<String, Told>);

#[derive(Debug)]
struct Told {
    size: i32,
    at: Option<Instant>,
    /// Changes of the size that are not told yet.
    steps: Vec<Step>,
    /// When the scaler itself last changed the size.
    scaled: Option<Timestamp>,
    unknown: Unknown,
    /// What the next write waits for, if it was told.
    waits: Option<String>,
}

/// A change of a size.
#[derive(Debug)]
struct Step {
    at: Timestamp,
    from: i32,
    to: i32,
    why: String,
}

/// Whether a scaler knows anything.
#[derive(Debug)]
enum Unknown {
    /// Nothing was known so far, as at the beginning, which is no news.
    Yet,
    No,
    Since(Moment),
    Told,
}

impl Commentary {
    /// Takes in a status, and answers what is to be told.
    pub(super) fn hear(&mut self, name: &str, status: &LLMScalerStatus, now: Moment) -> Vec<Line> {
        let Some(size) = status.replicas else { return vec![] };
        let scaled = status.last_scale_time.as_ref().map(|time| time.0);
        let first = Told { size, at: None, steps: vec![], scaled, unknown: Unknown::Yet, waits: None };
        let told = self.0.entry(name.to_owned()).or_insert(first);
        let why = status.decision.as_ref().map_or("", |decision| decision.message.as_str());
        told.note_size(size, scaled, why, now.own);
        let mut news = vec![];
        let unknown = !status.metrics.is_empty() && status.metrics.iter().all(|metric| metric.state == MetricState::Unknown);
        match (&told.unknown, unknown) {
            (Unknown::No, true) => told.unknown = Unknown::Since(now),
            (Unknown::Yet | Unknown::Since(_), false) => told.unknown = Unknown::No,
            (Unknown::Told, false) => {
                told.unknown = Unknown::No;
                news.push(line(now.own, name, &format!("has numbers again, at {size}"), ""));
            }
            _ => {}
        }
        if let Some(able) = waits_for(status)
            && told.waits.as_ref() != Some(&able.reason)
        {
            // A decision may be one of long ago, when its target was still there.
            news.push(line(now.own, name, &format!("{size} waits"), &able.message));
            told.waits = Some(able.reason.clone());
        }
        // How it got to its size comes before what is told of it at that size.
        let change = if news.is_empty() { told.due(name, now.real) } else { told.change(name, now.real) };
        change.into_iter().chain(news).collect()
    }

    /// What was kept back and may be told now.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Line> {
        self.0.iter_mut().flat_map(|(name, told)| told.silent(name, now).into_iter().chain(told.due(name, now))).collect()
    }
}

impl Told {
    /// Keeps a change of the size to be told. One that the scaler did not make has no reason of the scaler's.
    fn note_size(&mut self, size: i32, scaled: Option<Timestamp>, why: &str, now: Timestamp) {
        let own = scaled.filter(|_| scaled != self.scaled);
        self.scaled = scaled;
        let from = self.steps.last().map_or(self.size, |step| step.to);
        if size != from {
            let why = if own.is_some() { why } else { "it was set by somebody else" };
            self.steps.push(Step { at: own.unwrap_or(now), from, to: size, why: why.to_owned() });
            self.waits = None;
        }
    }

    /// That nothing is known any more, once that has lasted.
    fn silent(&mut self, name: &str, now: Instant) -> Vec<Line> {
        let Unknown::Since(since) = self.unknown else { return vec![] };
        if now.duration_since(since.real) < SILENCE {
            return vec![];
        }
        self.unknown = Unknown::Told;
        let change = self.change(name, now);
        let silence = line(since.own, name, &format!("knows nothing any more, and holds {}", self.size), "");
        change.into_iter().chain([silence]).collect()
    }

    fn due(&mut self, name: &str, now: Instant) -> Option<Line> {
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        self.change(name, now)
    }

    /// All changes that are kept as one, with the time and the reason of the greatest step that led there.
    fn change(&mut self, name: &str, now: Instant) -> Option<Line> {
        let steps = std::mem::take(&mut self.steps);
        let (last, before) = steps.split_last()?;
        let from = std::mem::replace(&mut self.size, last.to);
        self.at = Some(now);
        let direction = (last.to - from).signum();
        // Of several as great the first, which is the last in this order.
        let greatest = steps.iter().rev().max_by_key(|step| (step.to - step.from) * direction)?;
        let stations: Vec<String> = before.iter().map(|step| step.to.to_string()).collect();
        let way = match stations.len() {
            0 => String::new(),
            count if count <= STATIONS => format!("by way of {}: ", stations.join(", ")),
            count => format!("in {} steps: ", count + 1),
        };
        let why = format!("{way}{}", without_sizes(&greatest.why));
        (direction != 0).then(|| line(greatest.at, name, &format!("{from} -> {}", last.to), &why))
    }
}

/// What says why a write is kept back, other than that pods start or go, which they do after every change.
fn waits_for(status: &LLMScalerStatus) -> Option<&Condition> {
    let able = status.conditions.iter().find(|condition| condition.type_ == "AbleToScale" && condition.status == "False")?;
    (!matches!(able.reason.as_str(), "NotSettled" | "")).then_some(able)
}

fn line(at: Timestamp, name: &str, what: &str, why: &str) -> Line {
    Line { at, text: format!("{name:<10} {what:<9} {}", shortened(without_sizes(why))).trim_end().to_owned() }
}

/// A decision's message without the sizes, which are told already.
fn without_sizes(why: &str) -> &str {
    let sizes = why.starts_with("up from ") || why.starts_with("down from ");
    why.split_once(": ").filter(|_| sizes).map_or(why, |(_, rest)| rest)
}

/// A reason on one line, and no longer than one reads in passing.
fn shortened(why: &str) -> String {
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

    /// The beginning, and so many seconds later, of which the demo makes twenty each.
    fn after(begin: Instant, seconds: f64) -> Moment {
        let own = "2026-01-01T09:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs_f64(seconds * 20.0);
        Moment { real: begin + Duration::from_secs_f64(seconds), own }
    }

    fn status(replicas: i32, more: Value) -> LLMScalerStatus {
        let mut status = json!({"replicas": replicas, "metrics": [], "conditions": [],
            "decision": {"reason": "DesiredWithinRange", "message": "because of the load", "stages": []}});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(status).unwrap()
    }

    /// A status just after the scaler wrote this size, for this reason.
    fn written(replicas: i32, why: &str, at: Moment) -> LLMScalerStatus {
        let decision = json!({"reason": "DesiredWithinRange", "message": why, "stages": []});
        status(replicas, json!({"lastScaleTime": at.own.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "decision": decision}))
    }

    fn told(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| format!("{}  {}", line.at.strftime("%H:%M:%S"), line.text)).collect()
    }

    #[test]
    fn changes_that_come_fast_are_told_as_one_with_the_time_and_the_reason_of_the_greatest() {
        let (mut commentary, begin) = (Commentary::default(), Instant::now());
        let at = |seconds| after(begin, seconds);
        let write = |commentary: &mut Commentary, replicas, why, at| told(&commentary.hear("band", &written(replicas, why, at), at));
        assert!(write(&mut commentary, 2, "", at(0.0)).is_empty(), "where it begins is no change");
        assert_eq!(write(&mut commentary, 3, "a", at(1.0)), ["09:00:20  band       2 -> 3    a"]);
        for (replicas, why, seconds) in [(4, "b", 1.5), (11, "up from 4 to 11: the burst", 2.0), (12, "c", 2.5)] {
            assert!(write(&mut commentary, replicas, why, at(seconds)).is_empty());
        }
        assert!(commentary.overdue(at(3.9).real).is_empty());
        assert_eq!(told(&commentary.overdue(at(4.0).real)), ["09:00:40  band       3 -> 12   by way of 4, 11: the burst"]);
        for (replicas, seconds) in [(11, 4.5), (10, 5.0), (9, 5.5), (8, 6.0), (9, 6.5)] {
            assert!(write(&mut commentary, replicas, "d", at(seconds)).is_empty());
        }
        assert_eq!(told(&commentary.overdue(at(7.0).real)), ["09:01:30  band       12 -> 9   in 5 steps: d"]);
        assert!(write(&mut commentary, 8, "e", at(7.5)).is_empty() && write(&mut commentary, 9, "f", at(8.0)).is_empty());
        assert!(commentary.overdue(at(20.0).real).is_empty(), "there and back again is nothing");
    }

    #[test]
    fn a_size_that_somebody_else_has_set_is_not_given_a_reason_of_the_scaler() {
        let (mut commentary, begin) = (Commentary::default(), Instant::now());
        let at = |seconds| after(begin, seconds);
        commentary.hear("band", &status(3, json!({})), at(0.0));
        let by_hand =
            status(3000, json!({"decision": {"reason": "x", "message": "slo is unknown, so the fleet keeps its 3000", "stages": []}}));
        assert_eq!(told(&commentary.hear("band", &by_hand, at(1.0))), ["09:00:20  band       3 -> 3000 it was set by somebody else"]);
        assert!(commentary.hear("band", &written(8, "the bounds allow 8", at(2.0)), at(2.1)).is_empty());
        assert_eq!(told(&commentary.overdue(at(4.0).real)), ["09:00:40  band       3000 -> 8 the bounds allow 8"]);
    }

    #[test]
    fn the_loss_of_all_metrics_is_told_when_it_lasts_and_so_is_their_return() {
        let (mut commentary, begin) = (Commentary::default(), Instant::now());
        let mut seconds = 0.0;
        let hear = |commentary: &mut Commentary, state: &str, seconds| {
            let metric = json!({"name": "kv", "state": state, "message": "it hangs"});
            told(&commentary.hear("kv-cache", &status(4, json!({"metrics": [metric]})), after(begin, seconds)))
        };
        for state in ["Unknown", "Unknown", "Unknown", "Unknown", "Value", "Unknown", "Value", "Unknown"] {
            assert!(hear(&mut commentary, state, seconds).is_empty(), "{state}");
            seconds += SILENCE.as_secs_f64() / 2.0;
            assert!(commentary.overdue(after(begin, seconds).real).is_empty(), "{state}");
        }
        seconds += SILENCE.as_secs_f64();
        let silence = told(&commentary.overdue(after(begin, seconds).real));
        assert_eq!(silence, ["09:04:40  kv-cache   knows nothing any more, and holds 4"], "since then, not at 09:06:40");
        assert!(hear(&mut commentary, "Unknown", seconds).is_empty() && commentary.overdue(after(begin, seconds).real).is_empty());
        assert_eq!(hear(&mut commentary, "Value", seconds), ["09:06:40  kv-cache   has numbers again, at 4"]);
    }

    #[test]
    fn a_change_that_is_kept_is_told_before_what_is_told_of_its_size() {
        let (mut commentary, begin) = (Commentary::default(), Instant::now());
        let at = |seconds| after(begin, seconds);
        let with = |replicas: i32, wrote: Moment, state: &str, able: &str| {
            let mut status = written(replicas, "because of the load", wrote);
            let since = "2026-01-01T00:00:00Z";
            status.metrics = serde_json::from_value(json!([{"name": "kv", "state": state}])).unwrap();
            let condition = json!({"type": "AbleToScale", "status": "False", "reason": able, "message": "a rollout is going on", "lastTransitionTime": since});
            status.conditions = serde_json::from_value(json!([condition])).unwrap();
            status
        };
        for (replicas, seconds) in [(3, 0.0), (4, 1.0), (6, 1.5)] {
            commentary.hear("band", &with(replicas, at(seconds), "Value", ""), at(seconds));
        }
        let waits = told(&commentary.hear("band", &with(6, at(1.5), "Value", "RolloutInProgress"), at(2.0)));
        assert_eq!(waits, ["09:00:30  band       4 -> 6    because of the load", "09:00:40  band       6 waits   a rollout is going on"]);
        commentary.hear("band", &with(5, at(2.5), "Unknown", ""), at(2.5));
        let silence = told(&commentary.overdue(at(6.5).real));
        assert_eq!(
            silence,
            ["09:00:50  band       6 -> 5    because of the load", "09:00:50  band       knows nothing any more, and holds 5"]
        );
        let again = told(&commentary.hear("band", &with(4, at(7.0), "Value", ""), at(7.0)));
        assert_eq!(again, ["09:02:20  band       5 -> 4    because of the load", "09:02:20  band       has numbers again, at 4"]);
    }

    #[test]
    fn what_a_write_waits_for_is_told_once_until_it_is_made() {
        let (mut commentary, now) = (Commentary::default(), after(Instant::now(), 0.0));
        let mut hear = |replicas: i32, reason: &str| {
            let since = "2026-01-01T00:00:00Z";
            let message = if reason.is_empty() { String::new() } else { format!("it is {reason}") };
            let condition =
                json!({"type": "AbleToScale", "status": "False", "reason": reason, "message": message, "lastTransitionTime": since});
            let scaled = format!("2026-01-01T00:00:0{replicas}Z");
            told(&commentary.hear("band", &status(replicas, json!({"conditions": [condition], "lastScaleTime": scaled})), now))
        };
        assert!(hear(4, "NotSettled").is_empty());
        assert_eq!(hear(4, "RolloutInProgress"), ["09:00:00  band       4 waits   it is RolloutInProgress"]);
        assert!(hear(4, "RolloutInProgress").is_empty() && hear(4, "NotSettled").is_empty() && hear(4, "RolloutInProgress").is_empty());
        assert_eq!(hear(5, ""), ["00:00:05  band       4 -> 5    because of the load"]);
        assert_eq!(hear(5, "RolloutInProgress"), ["09:00:00  band       5 waits   it is RolloutInProgress"]);
        assert_eq!(
            hear(5, "FailedGetScale"),
            ["09:00:00  band       5 waits   it is FailedGetScale"],
            "not for the reason of the last decision"
        );
    }

    #[test]
    fn long_reasons_are_cut_between_words() {
        let long = "word ".repeat(60);
        let cut = shortened(&long);
        assert!(cut.ends_with("word…") && cut.chars().count() <= LONGEST + 1, "{cut}");
        assert_eq!(shortened("a  b\nc"), "a b c");
        assert_eq!(without_sizes("up from 2 to 3: kv 0.9: high"), "kv 0.9: high");
    }
}
