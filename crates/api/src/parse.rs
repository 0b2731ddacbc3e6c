//! From the resource as written to what the engine decides on.

use std::num::NonZeroU32;
use std::time::Duration;

use llmscaler_engine as engine;

use crate::actuation;
use crate::address::address;
use crate::ask::Ask;
use crate::behavior::Behavior;
use crate::invalid::{Invalid, count, not_blank, seconds};
use crate::preset::PresetName;
use crate::resource::{CustomProvider, Fallback, LLMScaler, LLMScalerSpec, MetricProvider, Mode, ScaleDownBehavior, default_path};
use crate::rules;
use crate::scaler::{Provider, Scaler};
use crate::scrape::ScrapeSettings;
use crate::server::{Access, Server, access};
use crate::sources::{decision_source, sources};
use crate::target::TargetRef;

const DEFAULT_SYNC_PERIOD: Duration = Duration::from_secs(15);
/// The constants of the headroom law are per step of this length.
const HEADROOM_PERIOD: Duration = Duration::from_secs(15);
const DEFAULT_RETRY_PERIOD: Duration = Duration::from_secs(10);

impl LLMScaler {
    /// The scaler that this resource describes, defaulted.
    ///
    /// # Errors
    ///
    /// The first field that cannot be used, in the words of the schema's own rule.
    pub fn parse(&self) -> Result<Scaler, Invalid> {
        self.spec.parse()
    }
}

impl LLMScalerSpec {
    fn parse(&self) -> Result<Scaler, Invalid> {
        let target = self.target_ref.parse()?;
        let access = access(&self.server_headers, &self.server_headers_from, self.server_tls.as_ref())?;
        let bounds = self.bounds()?;
        let provider = self.provider(access)?;
        let (sources, asks): (Vec<_>, Vec<_>) = self.sources()?.into_iter().unzip();
        let scale_down = self.scale_down(&target)?;
        let consults_query = scale_down.victims == engine::VictimOrder::ColdestFirst && self.metric_provider == MetricProvider::Prometheus;
        let deletion_cost_query =
            self.scale_down.as_ref().and_then(|s| s.deletion_cost_query.clone()).filter(|query| consults_query && !query.trim().is_empty());
        let sync_period = period("spec.syncPeriodSeconds", self.sync_period_seconds, DEFAULT_SYNC_PERIOD, rules::SYNC_PERIOD.message)?;
        let steps_of_15s = sources.iter().any(|source| matches!(source.law, engine::Law::Headroom(_)));
        if steps_of_15s && sync_period != HEADROOM_PERIOD {
            return Err(Invalid::new("spec.syncPeriodSeconds", rules::HEADROOM_PERIOD.message));
        }
        let retry_period = period("spec.retryPeriodSeconds", self.retry_period_seconds, DEFAULT_RETRY_PERIOD, rules::RETRY_PERIOD.message)?;
        let cooldown = self.idle.as_ref().map_or(0, |idle| idle.cooldown_seconds);
        let spec = engine::Spec {
            bounds,
            sources,
            sync_period,
            scale_down,
            behavior: self.behavior.as_ref().map(Behavior::parse).transpose()?,
            cooldown: seconds("spec.idle.cooldownSeconds", cooldown, rules::COOLDOWN.message)?,
            fallback: self.fallback.as_ref().map(fallback).transpose()?,
            mode: match self.mode {
                Mode::Auto => engine::Mode::Auto,
                Mode::Recommend => engine::Mode::Recommend,
            },
        };
        actuation::check(self)?;
        let (preset, actuation) = (self.preset.clone(), self.actuation);
        Ok(Scaler { target, spec, asks, provider, preset, retry_period, deletion_cost_query, actuation })
    }

    fn provider(&self, access: Access) -> Result<Provider, Invalid> {
        let server = |access| match &self.server_address {
            Some(text) => address(text).map(|address| Server { address, access }),
            None => Err(Invalid::new("spec.serverAddress", rules::SERVER_ADDRESS.message)),
        };
        match self.metric_provider {
            MetricProvider::Prometheus => server(access).map(Provider::Prometheus),
            MetricProvider::Custom => server(access).map(Provider::DecisionServer),
            MetricProvider::Scrape => {
                self.needs_no_prometheus()?;
                let scrape = self.scrape.as_ref().map_or_else(|| ScrapeSettings::default().parse(), ScrapeSettings::parse)?;
                Ok(Provider::Scrape { scrape, access })
            }
        }
    }

    /// The metrics in their order and the SLO after them, or the decision server alone, and what each is asked for.
    fn sources(&self) -> Result<Vec<(engine::Source, Ask)>, Invalid> {
        if self.metric_provider == MetricProvider::Custom {
            if self.slo.is_some() {
                return Err(Invalid::new("spec.slo", rules::SLO_PROVIDER.message));
            }
            return Ok(vec![(decision_source(), decision(self.custom_provider.as_ref())?)]);
        }
        if self.metrics.is_empty() && self.slo.is_none() {
            return Err(Invalid::new("spec.metrics", rules::METRICS.message));
        }
        if self.preset.as_ref().is_some_and(|preset| preset.match_labels.contains_key("")) {
            return Err(Invalid::new("spec.preset.matchLabels", rules::MATCH_LABELS.message));
        }
        let preset = self.preset.as_ref().map(|preset| preset.name);
        let mut sources = sources(&self.metrics, preset)?;
        if let Some(slo) = &self.slo {
            sources.push(slo.parse(preset.is_some())?);
        }
        Ok(sources)
    }

    /// Refuses under Scrape what only a Prometheus could answer, and what would leave nothing to read.
    fn needs_no_prometheus(&self) -> Result<(), Invalid> {
        let query = |field: String| Err(Invalid::new(field, rules::SCRAPE_QUERIES.message));
        if let Some(index) = self.metrics.iter().position(|metric| metric.query.is_some()) {
            return query(format!("spec.metrics[{index}].query"));
        }
        if self.slo.as_ref().is_some_and(|slo| slo.ttft_query.is_some() || slo.tpot_query.is_some() || slo.saturation_query.is_some()) {
            return query("spec.slo".into());
        }
        if self.scale_down.as_ref().is_some_and(|scale_down| scale_down.deletion_cost_query.is_some()) {
            return Err(Invalid::new("spec.scaleDown.deletionCostQuery", rules::SCRAPE_COST.message));
        }
        let router = self.scrape.as_ref().and_then(|scrape| scrape.epp_service.as_ref());
        match &self.preset {
            None => Err(Invalid::new("spec.preset", rules::SCRAPE_PRESET.message)),
            Some(preset) if preset.name == PresetName::LlmdEpp && router.is_none() => {
                Err(Invalid::new("spec.scrape.eppService", rules::SCRAPE_EPP.message))
            }
            Some(_) => Ok(()),
        }
    }

    fn bounds(&self) -> Result<engine::Bounds, Invalid> {
        let min = engine::Replicas::new(count("spec.minReplicas", self.min_replicas, rules::MIN_REPLICAS)?);
        let max = engine::Replicas::new(count("spec.maxReplicas", self.max_replicas, rules::MAX_REPLICAS)?);
        if min > max { Err(Invalid::new("spec.minReplicas", rules::BOUNDS.message)) } else { Ok(engine::Bounds { min, max }) }
    }

    fn scale_down(&self, target: &TargetRef) -> Result<engine::ScaleDown, Invalid> {
        let given = self.scale_down.clone().unwrap_or_default();
        let window = given.stabilization_window_seconds.unwrap_or(0);
        let max_step = given.max_step_replicas.unwrap_or(0);
        // Only a ReplicaSet heeds a pod's deletion cost; the others delete by ordinal, and nobody knows what a Deployment of another
        // group does.
        let replica_sets = target.group == "apps" && target.kind == "Deployment";
        let coldest_first = given.behavior == ScaleDownBehavior::CacheAware && replica_sets;
        Ok(engine::ScaleDown {
            window: seconds("spec.scaleDown.stabilizationWindowSeconds", window, rules::WINDOW.message)?,
            max_step: NonZeroU32::new(count("spec.scaleDown.maxStepReplicas", max_step, rules::MAX_STEP)?),
            victims: if coldest_first { engine::VictimOrder::ColdestFirst } else { engine::VictimOrder::Workload },
        })
    }
}

/// A period; 0 stands for its default.
fn period(field: &str, value: i32, default: Duration, message: &str) -> Result<Duration, Invalid> {
    seconds(field, value, message).map(|period| if period.is_zero() { default } else { period })
}

fn decision(given: Option<&CustomProvider>) -> Result<Ask, Invalid> {
    let given = given.ok_or_else(|| Invalid::new("spec.customProvider", rules::CUSTOM_PROVIDER.message))?;
    if given.path.contains(['?', '#']) {
        return Err(Invalid::new("spec.customProvider.path", rules::PATH.message));
    }
    Ok(Ask::Decision {
        service_id: not_blank("spec.customProvider.serviceId", &given.service_id, rules::SERVICE_ID.message)?,
        namespace: given.namespace.clone().filter(|namespace| !namespace.is_empty()),
        path: if given.path.is_empty() { default_path() } else { given.path.clone() },
    })
}

fn fallback(given: &Fallback) -> Result<engine::Fallback, Invalid> {
    Ok(engine::Fallback {
        failure_threshold: count("spec.fallback.failureThreshold", given.failure_threshold, rules::FAILURE_THRESHOLD.message)?,
        replicas: engine::Replicas::new(count("spec.fallback.replicas", given.replicas, rules::FALLBACK_REPLICAS.message)?),
    })
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::{Law, Mode, VictimOrder};
    use serde_json::{Value, json};

    use super::*;
    use crate::preset::Signal;
    use crate::scrape::Port;

    fn scaler(more: Value) -> LLMScaler {
        let mut spec = json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
            "serverAddress": "http://prometheus:9090",
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{"query": "avg(kv)", "target": "0.8"}],
        });
        for (name, value) in more.as_object().unwrap() {
            spec[name] = value.clone();
        }
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    }

    fn parsed(more: Value) -> Scaler {
        scaler(more).parse().unwrap()
    }

    #[test]
    fn what_is_left_out_has_the_documented_defaults() {
        let scaler = parsed(json!({}));
        assert_eq!(scaler.target.api_version(), "apps/v1");
        assert_eq!(scaler.retry_period, Duration::from_secs(10));
        assert_eq!(scaler.deletion_cost_query, None);
        let spec = scaler.spec;
        assert_eq!((spec.bounds.min.get(), spec.bounds.max.get()), (1, 5));
        assert_eq!(spec.sync_period, Duration::from_secs(15));
        assert_eq!(spec.scale_down, engine::ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst });
        assert_eq!((spec.behavior, spec.cooldown, spec.fallback, spec.mode), (None, Duration::ZERO, None, Mode::Auto));
        assert_eq!(spec.sources.len(), 1);
    }

    #[test]
    fn periods_of_zero_are_the_defaults() {
        let scaler = parsed(json!({"syncPeriodSeconds": 0, "retryPeriodSeconds": 0}));
        assert_eq!((scaler.spec.sync_period, scaler.retry_period), (Duration::from_secs(15), Duration::from_secs(10)));
    }

    #[test]
    fn a_maximum_of_zero_pins_at_zero() {
        assert_eq!(parsed(json!({"minReplicas": 0, "maxReplicas": 0})).spec.bounds.max.get(), 0);
    }

    #[test]
    fn the_decision_server_is_the_only_source_and_needs_no_metrics() {
        let custom = json!({"metricProvider": "Custom", "customProvider": {"serviceId": "svc", "path": ""}, "metrics": [],
            "scaleDown": {"deletionCostQuery": "kv"}});
        let scaler = parsed(custom);
        assert_eq!(
            scaler.spec.sources.iter().map(|source| (source.name.as_str(), source.law)).collect::<Vec<_>>(),
            [("decision", Law::Absolute)]
        );
        assert_eq!(scaler.deletion_cost_query, None, "there is no query API to run it against");
        assert_eq!(scaler.asks, [Ask::Decision { service_id: "svc".into(), namespace: None, path: "/decisions".into() }]);
        assert!(matches!(scaler.provider, Provider::DecisionServer(_)));
    }

    #[test]
    fn what_is_asked_stands_beside_its_source_and_the_slo_comes_last() {
        let scaler = parsed(json!({
            "metrics": [{"query": "a", "target": "1"}, {"signal": "queuedRequests", "target": "1", "metricType": "AverageValue"}],
            "slo": {"ttft": "3s"},
            "preset": {"name": "vLLM", "matchLabels": {"model_name": "qwen"}},
        }));
        assert_eq!(scaler.asks[0], Ask::Query("a".into()));
        assert_eq!(scaler.asks[1], Ask::Signal { signal: Signal::QueuedRequests, total: true });
        assert!(matches!(scaler.asks[2], Ask::Slo(_)));
        assert_eq!(scaler.spec.sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>(), ["0", "1", "slo"]);
        assert_eq!(scaler.preset.unwrap().name, PresetName::Vllm);
        let Provider::Prometheus(server) = scaler.provider else { panic!("{:?}", scaler.provider) };
        assert_eq!(server.address.as_str(), "http://prometheus:9090/");
    }

    #[test]
    fn an_slo_needs_no_metrics() {
        let scaler = parsed(json!({"metrics": [], "slo": {"saturationQuery": "s"}}));
        assert_eq!((scaler.spec.sources.len(), scaler.asks.len()), (1, 1));
    }

    #[test]
    fn pods_are_read_without_a_server() {
        let scrape = |more: Value| {
            let mut spec = json!({"metricProvider": "Scrape", "serverAddress": null, "preset": {"name": "vLLM"},
                "metrics": [{"signal": "kvCacheUsage", "target": "0.8"}]});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            scaler(spec).parse()
        };
        let given = json!({"scrape": {"port": "http", "eppService": {"name": "epp"}}, "serverHeaders": {"X-Token": "a"}});
        let Provider::Scrape { scrape: found, access } = scrape(given).unwrap().provider else { panic!() };
        assert_eq!((found.port, found.router.unwrap().service.as_str()), (Port::Named("http".into()), "epp"));
        assert_eq!(access.headers.expose().len(), 1);
        for (more, field) in [
            (json!({"preset": null}), "spec.preset"),
            (json!({"metrics": [{"query": "q", "target": "1"}]}), "spec.metrics[0].query"),
            (json!({"slo": {"saturationQuery": "q"}}), "spec.slo"),
            (json!({"scaleDown": {"deletionCostQuery": "q"}}), "spec.scaleDown.deletionCostQuery"),
            (json!({"preset": {"name": "llm-d-EPP"}}), "spec.scrape.eppService"),
            (json!({"metrics": []}), "spec.metrics"),
        ] {
            assert_eq!(scrape(more.clone()).unwrap_err().field, field, "{more}");
        }
    }

    #[test]
    fn the_coldest_pods_are_chosen_only_where_the_cluster_heeds_it() {
        let down = |kind: &str, behavior: &str| {
            let (group, kind) = kind.split_once('/').unwrap();
            let scaler = parsed(json!({
                "targetRef": {"apiVersion": format!("{group}/v1"), "kind": kind, "name": "vllm"},
                "scaleDown": {"behavior": behavior, "deletionCostQuery": "kv", "maxStepReplicas": 2, "stabilizationWindowSeconds": 180},
            }));
            assert_eq!(scaler.spec.scale_down.max_step, NonZeroU32::new(2));
            assert_eq!(scaler.spec.scale_down.window, Duration::from_secs(180));
            (scaler.spec.scale_down.victims, scaler.deletion_cost_query)
        };
        assert_eq!(down("apps/Deployment", "CacheAware"), (VictimOrder::ColdestFirst, Some("kv".into())));
        assert_eq!(down("apps/Deployment", "None"), (VictimOrder::Workload, None));
        assert_eq!(down("apps/StatefulSet", "CacheAware"), (VictimOrder::Workload, None));
        assert_eq!(down("example.com/Deployment", "CacheAware"), (VictimOrder::Workload, None));
    }

    #[test]
    fn additions_are_carried_over() {
        let spec = parsed(json!({"idle": {"cooldownSeconds": 300}, "fallback": {"replicas": 6}, "mode": "Recommend"})).spec;
        assert_eq!(spec.cooldown, Duration::from_secs(300));
        assert_eq!(spec.fallback, Some(engine::Fallback { failure_threshold: 3, replicas: engine::Replicas::new(6) }));
        assert_eq!(spec.mode, Mode::Recommend);
    }

    #[test]
    fn a_refusal_names_the_field() {
        let refusal = scaler(json!({"metrics": [{"query": "q", "target": "80%"}]})).parse().unwrap_err();
        assert!(refusal.to_string().starts_with("spec.metrics[0].target: must be a finite number above 0 in quotes"), "{refusal}");
        let refusal = scaler(json!({"serverHeaders": {"X-Token": "a\n"}})).parse().unwrap_err();
        assert_eq!(refusal.field, "spec.serverHeaders.X-Token");
    }
}
