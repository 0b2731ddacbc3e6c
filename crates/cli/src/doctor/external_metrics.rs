//! Whether an HPA gets its metrics: who serves the cluster's external metrics, and whether the API server reaches them.

use llmscaler_engine::Mode;
use llmscaler_operator::diagnose::{API_SERVICE, ApiServiceState};

use super::finding::{Finding, Severity};
use super::gather::Fact;

const CHECK: &str = "hpa";

/// Of a scaler whose actuation is an HPA. One that only recommends has none yet.
pub fn check(mode: Mode, state: &Fact<ApiServiceState>) -> Finding {
    let severity = match mode {
        Mode::Auto => Severity::Problem,
        Mode::Recommend => Severity::Warning,
    };
    match state {
        Err(why) => Finding::unseen(CHECK, &format!("APIService {API_SERVICE}"), why),
        Ok(ApiServiceState::Available) => {
            Finding::ok(CHECK, "the operator serves the cluster's external metrics, and the API server reaches it")
        }
        Ok(ApiServiceState::Missing) => Finding::new(
            severity,
            CHECK,
            format!("there is no APIService {API_SERVICE}, so an HPA has no metrics"),
            "set externalMetrics.enabled in the chart, or start the operator with --external-metrics-bind-address and \
             --external-metrics-service-name; it makes the APIService itself",
        ),
        Ok(ApiServiceState::Unavailable(why)) => Finding::new(
            severity,
            CHECK,
            format!("the API server does not reach the operator's external metrics: {why}"),
            "see that the operator runs with --external-metrics-bind-address, that the Service leads to that port of its pod, and that no \
             network policy keeps the API server from it",
        ),
        Ok(ApiServiceState::Foreign(leads)) => Finding::new(
            severity,
            CHECK,
            format!("APIService {API_SERVICE} {leads} and is not the operator's: a cluster has one external metrics adapter"),
            "remove the other adapter with its APIService, or use actuation Direct",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_with_what_to_do() {
        let of = |mode, state: ApiServiceState| check(mode, &Ok(state));
        let (foreign, dead) =
            (|| ApiServiceState::Foreign("leads to Service keda".to_owned()), ApiServiceState::Unavailable("refused".to_owned()));
        assert_eq!(of(Mode::Auto, ApiServiceState::Available).severity, Severity::Ok);
        assert_eq!(of(Mode::Auto, foreign()).severity, Severity::Problem);
        assert_eq!(of(Mode::Recommend, foreign()).severity, Severity::Warning);
        for (state, found, advice) in [
            (ApiServiceState::Missing, "there is no APIService", "externalMetrics.enabled"),
            (dead, "does not reach the operator's external metrics: refused", "network policy"),
            (foreign(), "leads to Service keda and is not the operator's", "actuation Direct"),
        ] {
            let finding = of(Mode::Auto, state);
            assert!(finding.found.contains(found) && finding.advice.as_ref().unwrap().contains(advice), "{finding:?}");
        }
        assert_eq!(check(Mode::Auto, &Err("forbidden".to_owned())).severity, Severity::Note);
    }
}
