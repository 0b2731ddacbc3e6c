//! What the status tells of a decision and of the readings that it rests on.

use llmscaler_api::{DecisionStatus, LLMScalerStatus, MetricState, MetricStatus, StageStatus};
use llmscaler_engine::{Decision, ReadingState, ReadingTrace, Replicas};

use crate::words;

/// Longest message in a status, in bytes; enough for a query and what came back.
const LONGEST: usize = 4000;

/// By how many seconds the last activity has to move to be worth a write of its own.
pub(super) const ACTIVITY_NEWS: i64 = 30;

/// Whether a status is worth a write. While a fleet is active its last activity is always now, which is not news each time.
pub(super) fn differs(new: &LLMScalerStatus, written: &LLMScalerStatus) -> bool {
    let active = |status: &LLMScalerStatus| status.last_active_time.as_ref().map_or(0, |time| time.0.as_second());
    let news = active(new).saturating_sub(active(written)) >= ACTIVITY_NEWS;
    news || new != &LLMScalerStatus { last_active_time: new.last_active_time.clone(), ..written.clone() }
}

/// What is told of one source.
pub(super) fn metric(reading: &ReadingTrace) -> MetricStatus {
    let (state, value, message) = match &reading.state {
        ReadingState::Value(value) => (MetricState::Value, Some(rounded(value.get()).to_string()), reading.account.clone()),
        ReadingState::Idle => (MetricState::Idle, None, reading.account.clone()),
        ReadingState::Unknown(why) => (MetricState::Unknown, None, Some(shortened(why))),
    };
    MetricStatus {
        name: reading.name.clone(),
        state,
        value,
        target: reading.target.map(|target| target.to_string()),
        replicas: reading.replicas.map(Replicas::as_i32),
        message,
    }
}

/// To six digits, so that noise in the last ones does not rewrite the status.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// What is told of the decision, stage by stage.
pub(super) fn decision(decision: &Decision) -> DecisionStatus {
    let stages = decision.stages.iter().map(|trace| StageStatus {
        stage: trace.stage.as_str().to_owned(),
        count_in: trace.count_in.as_i32(),
        out: trace.out.as_i32(),
        reason: trace.reason.to_string(),
        message: shortened(&trace.message),
    });
    DecisionStatus { reason: decision.reason.to_string(), message: shortened(&decision.message), stages: stages.collect() }
}

/// A message as a status takes it.
pub(super) fn shortened(message: &str) -> String {
    words::shortened(message, LONGEST)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn an_idle_metric_tells_what_keeps_its_size() {
        let reading = ReadingTrace {
            name: "slo".to_owned(),
            state: ReadingState::Idle,
            target: None,
            replicas: Some(Replicas::new(8)),
            account: Some("held at 8".to_owned()),
        };
        let status = metric(&reading);
        assert_eq!((status.state, status.replicas, status.message.as_deref()), (MetricState::Idle, Some(8), Some("held at 8")));
    }

    #[test]
    fn activity_alone_is_news_now_and_then() {
        let at = |seconds: i64, replicas| LLMScalerStatus {
            last_active_time: Some(Time(Timestamp::from_second(seconds).unwrap())),
            replicas: Some(replicas),
            ..LLMScalerStatus::default()
        };
        assert!(!differs(&at(1000, 3), &at(1000, 3)));
        assert!(!differs(&at(1029, 3), &at(1000, 3)));
        assert!(differs(&at(1030, 3), &at(1000, 3)));
        assert!(differs(&at(1000, 4), &at(1000, 3)));
        assert!(differs(&at(1000, 3), &LLMScalerStatus { replicas: Some(3), ..LLMScalerStatus::default() }));
    }

    #[test]
    fn values_have_six_digits() {
        for (value, shown) in [(0.380_000_000_000_000_1, "0.38"), (0.0, "0"), (1_234_567.8, "1234570"), (2.0, "2"), (1e-9, "0.000000001")] {
            assert_eq!(rounded(value).to_string(), shown);
        }
    }
}
