//! What is read of the pages of the pods themselves, and of the router in front of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use llmscaler_api::{self as api, Port, Provider, Scaler, Scheme};
use llmscaler_engine::{Reading, Time, VictimOrder};
use llmscaler_signals::TRAFFIC_SIGNALS;
use llmscaler_signals::preset::{Latency, Preset, Signal};
use llmscaler_signals::scrape::{Access, PodAddress, Problem, Scrape, ScrapeTargets};

use super::Observed;
use super::answer::{Answer, saturation};
use crate::clock::Clock;
use crate::pods::KeptPod;
use crate::questions::{LatencyQuestion, Question, preset_of};
use crate::services::Services;

/// The pages of one scaler, and what was read of them so far.
pub(super) struct Pages {
    plan: Plan,
    scrape: Scrape,
}

/// What is read of pages. While it stays the same, an edit of the scaler keeps what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    scrape: api::Scrape,
    preset: api::Preset,
    signals: Vec<Signal>,
    period: Duration,
}

/// How pages are reached.
#[derive(Clone)]
pub(super) struct PageAccess {
    pub pods: Access,
    pub router: Access,
}

impl Pages {
    /// Those of a scaler, dated by `clock`; `None` for other providers, and without a preset. What was read `before` is kept while the
    /// plan is the same.
    pub(super) fn of(scaler: &Scaler, questions: &[Question], clock: Clock, before: Option<Self>) -> Option<Self> {
        let (plan, preset) = plan(scaler, questions)?;
        if let Some(kept) = before.filter(|before| before.plan == plan) {
            return Some(kept);
        }
        let (router, labels, window) = (plan.scrape.router.is_some(), &plan.preset.match_labels, Scrape::window(plan.period));
        let scrape = Scrape::new(preset, router, plan.signals.clone(), labels, window).at_speed(clock.speed());
        Some(Self { plan, scrape })
    }

    /// Reads every page once, and answers the questions by what has been read by now.
    pub(super) async fn read(
        &mut self,
        questions: &[Question],
        services: &Services,
        namespace: &str,
        pods: &[Arc<KeptPod>],
        access: PageAccess,
        now: Time,
    ) -> Observed {
        let Self { plan, scrape } = self;
        let (mut problems, mut routers) = (vec![], vec![]);
        if let Some(router) = &plan.scrape.router {
            match services.host(namespace, &router.service).await {
                Ok(host) => routers.push(format!("{}://{host}:{}", scheme(router.scheme), router.port)),
                Err(why) => problems.push(Problem { name: router.service.clone(), why }),
            }
        }
        let (pods, strangers) = addresses(&plan.scrape, pods);
        problems.extend(strangers);
        let targets = ScrapeTargets { pods, pod_access: access.pods, routers, router_access: access.router };
        scrape.sync(&targets, Scrape::deadline(plan.period), now).await;
        problems.extend(scrape.problems(now));
        Observed::of(questions.iter().map(|question| answer(scrape, question, now)).collect(), problems)
    }

    /// How full the cache of each pod is: the fuller, the warmer the pod.
    pub(super) fn warmth(&self, now: Time) -> BTreeMap<String, f64> {
        self.scrape.pods_with(Signal::KvCacheUsage, now)
    }
}

/// What to read of pages, and with which preset's names; `None` for other providers.
fn plan(scaler: &Scaler, questions: &[Question]) -> Option<(Plan, &'static Preset)> {
    let Provider::Scrape { scrape, .. } = &scaler.provider else { return None };
    let mut signals: Vec<Signal> = questions
        .iter()
        .flat_map(|question| match question {
            Question::Signal(signal, _) => vec![*signal],
            Question::Slo(slo) => {
                let latencies = [Signal::PredictedTtft, Signal::Ttft, Signal::PredictedTpot, Signal::Tpot];
                latencies.into_iter().chain(TRAFFIC_SIGNALS.into_iter().filter(|_| slo.traffic.is_some())).collect()
            }
            _ => vec![],
        })
        .collect();
    if scaler.spec.scale_down.victims == VictimOrder::ColdestFirst {
        signals.push(Signal::KvCacheUsage);
    }
    let plan = Plan { scrape: scrape.clone(), preset: scaler.preset.clone()?, signals, period: scaler.spec.sync_period };
    Some((plan, preset_of(scaler)?))
}

fn scheme(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

/// Where the pages of the ready pods are, and the pods of which nobody knows where.
fn addresses(scrape: &api::Scrape, pods: &[Arc<KeptPod>]) -> (Vec<PodAddress>, Vec<Problem>) {
    let (mut known, mut strange) = (vec![], vec![]);
    for pod in pods.iter().filter(|pod| pod.ready && !pod.terminating && pod.serves_metrics()) {
        let port = match &scrape.port {
            Port::Number(port) => Some(*port),
            Port::Named(name) => pod.ports.get(name).copied(),
        };
        match (pod.ip, port) {
            (Some(ip), Some(port)) => {
                known.push(PodAddress::new(&pod.name, &pod.uid, scrape.scheme == Scheme::Https, SocketAddr::new(ip, port)));
            }
            (None, _) => strange.push(Problem { name: pod.name.clone(), why: "is ready and has no IP address".to_owned() }),
            (_, None) => {
                let why = format!("has no container port named as in spec.scrape.port ({:?}); name it, or give its number", scrape.port);
                strange.push(Problem { name: pod.name.clone(), why });
            }
        }
    }
    (known, strange)
}

fn answer(scrape: &Scrape, question: &Question, now: Time) -> Answer {
    match question {
        Question::Signal(signal, aggregate) => scrape.signal(*signal, *aggregate, now).into(),
        Question::Slo(slo) => {
            let latency = |asked: &Option<LatencyQuestion>, which| asked.as_ref().map(|_| scrape.latency(which, slo.quantile, now));
            let (ttft, tpot) = (latency(&slo.ttft, Latency::Ttft), latency(&slo.tpot, Latency::Tpot));
            let traffic = slo.traffic.as_ref().map(|traffic| Box::new(scrape.traffic(&traffic.promised, now)));
            Answer { reading: saturation(slo, ttft.as_ref(), tpot.as_ref()), traffic }
        }
        Question::Unanswerable(why) => Reading::unknown(why.clone()).into(),
        Question::Query(_) | Question::Decision { .. } => Reading::unknown("pages answer no queries").into(),
    }
}

#[cfg(test)]
mod tests {
    use llmscaler_api::parse_json;
    use serde_json::json;

    use super::*;
    use crate::questions::questions;

    #[test]
    fn pages_are_kept_for_what_the_strategy_measures_and_no_more() {
        let signals = |strategy: &str| {
            let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x"}, "minReplicas": 1, "maxReplicas": 8,
                "metricProvider": "Scrape", "preset": {"name": "vLLM"}, "slo": {"strategy": strategy, "ttft": "3s", "tpot": "100ms"}});
            let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
                "metadata": {"name": "x", "namespace": "serving"}, "spec": spec});
            let scaler = parse_json(object).unwrap().parse().unwrap();
            plan(&scaler, &questions(&scaler, "serving")).unwrap().0.signals
        };
        let latencies = [Signal::PredictedTtft, Signal::Ttft, Signal::PredictedTpot, Signal::Tpot];
        assert_eq!(signals("Band"), latencies);
        assert_eq!(signals("Headroom"), [&latencies[..], &TRAFFIC_SIGNALS].concat());
    }
}
