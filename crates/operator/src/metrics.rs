//! The operator's own metrics, in the Prometheus text format.
//!
//! docs/metrics.md tells of every series: its labels, its unit, and when it is absent.
//!
//! Series of a scaler have the labels `namespace` and `name`. Prometheus has a `namespace` of its own for what it scrapes in a cluster,
//! so scrape with `honor_labels: true`. They are counters and gauges only, and go when the scaler goes or another process leads.

#[cfg(test)]
mod page;
mod process;
mod scalers;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use llmscaler_engine::{Decision, Spec};
use prometheus_client::{
    encoding::{EncodeLabelSet, prometheus_text},
    metrics::{family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};

use self::{process::Process, scalers::Scalers};

/// How an attempt to write `spec.replicas` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It was written.
    Ok,
    /// Somebody else wrote the target at the same time, or owns the field.
    Conflict,
    /// The API server refused or did not answer.
    Error,
    /// It was dropped, because this process was not the leader any more.
    NotLeader,
}

impl WriteOutcome {
    /// All of them.
    const ALL: [Self; 4] = [Self::Ok, Self::Conflict, Self::Error, Self::NotLeader];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Error => "error",
            Self::NotLeader => "not_leader",
        }
    }
}

/// What a watch is on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Watched {
    resource: String,
    namespace: String,
}

impl Watched {
    /// The objects of `resource`, such as `pods`, in a namespace; an empty one is all of them.
    #[must_use]
    pub fn new(resource: &str, namespace: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned() }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} in all namespaces", self.resource),
            namespace => write!(f, "{} in {namespace}", self.resource),
        }
    }
}

/// The metrics of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    scalers: Arc<Scalers>,
    source_seconds: Histogram,
    sync_lateness: Histogram,
    sync_seconds: Histogram,
    watch_failing: Family<Watched, Gauge<i64, AtomicI64>>,
    external_metrics: Gauge<i64, AtomicI64>,
    leader: Gauge<i64, AtomicI64>,
    scaler_count: Gauge<i64, AtomicI64>,
}

impl Metrics {
    /// The content type of [`Metrics::encode`].
    pub const CONTENT_TYPE: &'static str = prometheus_text::CONTENT_TYPE;

    /// Metrics of a process that has done nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner {
            registry: Registry::default(),
            scalers: Arc::default(),
            source_seconds: Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
            sync_lateness: Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0]),
            sync_seconds: Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0]),
            watch_failing: Family::default(),
            external_metrics: Gauge::default(),
            leader: Gauge::default(),
            scaler_count: Gauge::default(),
        };
        Self(Arc::new(inner.registered()))
    }

    /// Takes the gauges from a decision by `spec`, and counts it.
    pub fn decision(&self, namespace: &str, name: &str, spec: &Spec, decision: &Decision) {
        self.0.scalers.of(namespace, name, |scaler| scaler.decided(spec, decision));
    }

    /// Takes all conditions of the status in the place of those before, each with whether it holds; `None` where nobody knows, which has
    /// no series.
    pub fn conditions(&self, namespace: &str, name: &str, all: impl IntoIterator<Item = (&'static str, Option<bool>)>) {
        self.0.scalers.of(namespace, name, |scaler| {
            scaler.conditions.clear();
            scaler.conditions.extend(all.into_iter().filter_map(|(kind, holds)| Some((kind, holds?))));
        });
    }

    /// Takes conditions that do not hold any more; the others stay.
    pub fn broken(&self, namespace: &str, name: &str, conditions: &[&'static str]) {
        self.0.scalers.of(namespace, name, |scaler| conditions.iter().for_each(|kind| scaler.set(kind, false)));
    }

    /// Counts an attempt to write `spec.replicas`.
    pub fn write(&self, namespace: &str, name: &str, outcome: WriteOutcome) {
        self.0.scalers.of(namespace, name, |scaler| scaler.writes.add(outcome.as_str()));
    }

    /// Counts the query of one source, which took `seconds`; `ok` when it gave a reading.
    pub fn source(&self, namespace: &str, name: &str, seconds: f64, ok: bool) {
        self.0.source_seconds.observe(seconds);
        self.0.scalers.of(namespace, name, |scaler| scaler.source_failures += u64::from(!ok));
    }

    /// Counts a sync that began `lateness` after its time.
    pub fn sync(&self, lateness: Duration, took: Duration) {
        self.0.sync_lateness.observe(lateness.as_secs_f64());
        self.0.sync_seconds.observe(took.as_secs_f64());
    }

    /// Counts a sync that failed. The `kind` becomes a label: one of a few words, never a text that varies.
    pub fn sync_error(&self, namespace: &str, name: &str, kind: &'static str) {
        self.0.scalers.of(namespace, name, |scaler| scaler.errors.add(kind));
    }

    /// Sets whether a watch keeps failing.
    pub fn watch(&self, watched: &Watched, failing: bool) {
        self.0.watch_failing.get_or_create(watched).set(i64::from(failing));
    }

    /// Drops the series of a watch that has ended.
    pub fn forget_watch(&self, watched: &Watched) {
        self.0.watch_failing.remove(watched);
    }

    /// Sets whether this process serves the cluster's External Metrics API.
    pub fn external_metrics_served(&self, served: bool) {
        self.0.external_metrics.set(i64::from(served));
    }

    /// Sets whether this process scales. What it knew of scalers goes when it no longer does: another process tells it now.
    pub fn leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
        if !leads {
            self.0.scalers.clear();
            self.scalers(0);
        }
    }

    /// Sets how many scalers this process looks after.
    pub fn scalers(&self, count: usize) {
        self.0.scaler_count.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Drops every series of a scaler that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.0.scalers.forget(namespace, name);
    }

    /// All metrics, as [`Metrics::CONTENT_TYPE`].
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail; were it to, a scrape that is cut short is better than none.
        let _ = prometheus_text::encode(&mut text, &self.0.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register_collector(Box::new(Arc::clone(&self.scalers)));
        registry.register("llmscaler_source_seconds", "How long the queries of sources took", self.source_seconds.clone());
        registry.register("llmscaler_sync_lateness_seconds", "How long after their time syncs began", self.sync_lateness.clone());
        registry.register("llmscaler_sync_seconds", "How long syncs took", self.sync_seconds.clone());
        let help = "1 while the API server has been refusing the watch for a minute";
        registry.register("llmscaler_watch_failing", help, self.watch_failing.clone());
        let help = "1 while the cluster's External Metrics API is served by this process";
        registry.register("llmscaler_external_metrics_served", help, self.external_metrics.clone());
        registry.register("llmscaler_leader", "1 while this process scales, else 0", self.leader.clone());
        registry.register("llmscaler_scalers", "Scalers that this process looks after", self.scaler_count.clone());
        registry.register("llmscaler_build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register_collector(Box::new(Process));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use llmscaler_engine::{
        Activation, Bounds, Law, Memory, Mode, Observation, Reading, Replicas, ScaleDown, Source, Spec, Target, Time, VictimOrder,
        Workload, decide,
    };

    use super::*;

    const BOUNDS: Bounds = Bounds { min: Replicas::ONE, max: Replicas::new(10) };

    pub(super) fn spec() -> Spec {
        let source = |name: &str| Source {
            name: name.to_owned(),
            law: Law::Ratio { target: Target::new(0.8).unwrap() },
            activation: Activation::ANY_LOAD,
            required: false,
        };
        Spec {
            bounds: BOUNDS,
            sources: vec![source("kv"), source("queue \"a\"")],
            sync_period: Duration::from_secs(15),
            scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst },
            behavior: None,
            cooldown: Duration::ZERO,
            fallback: None,
            mode: Mode::Auto,
        }
    }

    pub(super) fn decision(kv: Reading) -> Decision {
        let workload = Workload { replicas: Replicas::new(4), ready: Replicas::new(4), ..Workload::default() };
        let seen = Observation { workload, readings: vec![kv, Reading::Idle], traffic: None };
        decide(&spec(), &seen, &Memory::default(), Time::default())
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|found| found == line)
    }

    #[test]
    fn a_decision_sets_the_gauges_and_is_counted() {
        let metrics = Metrics::new();
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
        let text = metrics.encode();
        for line in [
            "# TYPE llmscaler_spec_replicas gauge",
            r#"llmscaler_spec_replicas{namespace="serving",name="pool-a"} 4"#,
            r#"llmscaler_ready_replicas{namespace="serving",name="pool-a"} 4"#,
            r#"llmscaler_recommended_replicas{namespace="serving",name="pool-a"} 5"#,
            r#"llmscaler_desired_replicas{namespace="serving",name="pool-a"} 5"#,
            r#"llmscaler_replicas_difference{namespace="serving",name="pool-a"} 1"#,
            r#"llmscaler_min_replicas{namespace="serving",name="pool-a"} 1"#,
            r#"llmscaler_max_replicas{namespace="serving",name="pool-a"} 10"#,
            r#"llmscaler_recommend_only{namespace="serving",name="pool-a"} 0"#,
            r#"llmscaler_reading{namespace="serving",name="pool-a",metric="kv"} 0.9"#,
            r#"llmscaler_reading_target{namespace="serving",name="pool-a",metric="kv"} 0.8"#,
            r#"llmscaler_reading_replicas{namespace="serving",name="pool-a",metric="kv"} 5"#,
            r#"llmscaler_reading_known{namespace="serving",name="pool-a",metric="kv"} 1"#,
            r#"llmscaler_reading_known{namespace="serving",name="pool-a",metric="queue \"a\""} 1"#,
            r#"llmscaler_condition{namespace="serving",name="pool-a",type="ScalingActive"} 1"#,
            r#"llmscaler_condition{namespace="serving",name="pool-a",type="ScalingLimited"} 0"#,
            "# TYPE llmscaler_decisions_total counter",
            r#"llmscaler_decisions_total{namespace="serving",name="pool-a",reason="SuccessfulRescale"} 2"#,
        ] {
            assert!(has(&text, line), "{line}\n{text}");
        }
        assert!(text.contains(r#"llmscaler_reading{namespace="serving",name="pool-a",metric="queue \"a\""} 0.0"#), "{text}");
    }

    #[test]
    fn who_only_recommends_says_so() {
        let metrics = Metrics::new();
        let spec = Spec { mode: Mode::Recommend, ..spec() };
        metrics.decision("serving", "pool-a", &spec, &decision(Reading::from_number(0.9)));
        assert!(has(&metrics.encode(), r#"llmscaler_recommend_only{namespace="serving",name="pool-a"} 1"#));
    }

    #[test]
    fn conditions_are_those_of_the_status() {
        let metrics = Metrics::new();
        let told = || {
            let text = metrics.encode();
            let of_condition =
                text.lines().filter_map(|line| line.strip_prefix(r#"llmscaler_condition{namespace="serving",name="pool-a",type=""#));
            of_condition.map(|rest| rest.replace("\"}", "")).collect::<Vec<_>>()
        };
        let all = [("ScalingActive", Some(false)), ("HPAInStep", Some(true)), ("QueriesScoped", None), ("Ready", Some(false))];
        metrics.conditions("serving", "pool-a", all);
        assert_eq!(told(), ["ScalingActive 0", "HPAInStep 1", "Ready 0"]);
        // Until the status follows, what the decision says is news, and the rest goes on to hold.
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
        assert!(["ScalingActive 1", "HPAInStep 1", "Ready 0"].iter().all(|line| told().iter().any(|told| told == line)), "{:?}", told());
        metrics.conditions("serving", "pool-a", [("ScalingActive", Some(true)), ("Ready", Some(true))]);
        metrics.broken("serving", "pool-a", &["AbleToScale", "Ready"]);
        assert_eq!(told(), ["ScalingActive 1", "Ready 0", "AbleToScale 0"]);
    }

    #[test]
    fn a_first_write_is_an_increase() {
        let metrics = Metrics::new();
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
        let text = metrics.encode();
        for outcome in WriteOutcome::ALL {
            let line = format!(r#"llmscaler_writes_total{{namespace="serving",name="pool-a",outcome="{}"}} 0"#, outcome.as_str());
            assert!(has(&text, &line), "{line}\n{text}");
        }
    }

    #[test]
    fn an_unknown_reading_has_no_value() {
        let metrics = Metrics::new();
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::unknown("connection refused")));
        let text = metrics.encode();
        for series in ["llmscaler_reading", "llmscaler_reading_replicas"] {
            assert!(!text.contains(&format!(r#"{series}{{namespace="serving",name="pool-a",metric="kv"}}"#)), "{text}");
        }
        assert!(has(&text, r#"llmscaler_reading_known{namespace="serving",name="pool-a",metric="kv"} 0"#), "{text}");
    }

    #[test]
    fn forget_removes_every_series_of_one_scaler_and_no_other() {
        let metrics = Metrics::new();
        for name in ["pool-a", "pool-b"] {
            metrics.decision("serving", name, &spec(), &decision(Reading::from_number(0.9)));
            metrics.write("serving", name, WriteOutcome::NotLeader);
            metrics.write("serving", name, WriteOutcome::Ok);
            metrics.source("serving", name, 0.2, false);
            metrics.sync_error("serving", name, "target_unreadable");
        }
        let both = metrics.encode();
        for line in [
            r#"llmscaler_writes_total{namespace="serving",name="pool-a",outcome="not_leader"} 1"#,
            r#"llmscaler_writes_total{namespace="serving",name="pool-a",outcome="ok"} 1"#,
            r#"llmscaler_source_failures_total{namespace="serving",name="pool-a"} 1"#,
            r#"llmscaler_sync_errors_total{namespace="serving",name="pool-a",kind="target_unreadable"} 1"#,
        ] {
            assert!(has(&both, line), "{line}\n{both}");
        }
        metrics.forget("serving", "pool-a");
        metrics.forget("serving", "never-seen");
        let one = metrics.encode();
        assert!(!one.contains("pool-a"), "{one}");
        let series = |text: &str, name: &str| text.lines().filter(|line| line.contains(name)).count();
        assert_eq!(series(&one, "pool-b"), series(&both, "pool-a"));
    }

    #[test]
    fn who_no_longer_leads_tells_of_no_scaler() {
        let metrics = Metrics::new();
        metrics.leader(true);
        metrics.scalers(1);
        metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
        assert!(metrics.encode().contains("pool-a"));
        metrics.leader(false);
        let text = metrics.encode();
        assert!(!text.contains("pool-a"), "{text}");
        assert!(has(&text, "llmscaler_leader 0") && has(&text, "llmscaler_scalers 0"), "{text}");
    }

    #[test]
    fn a_watch_that_fails_is_told_until_it_ends() {
        let metrics = Metrics::new();
        let (pods, fleets) = (Watched::new("pods", "serving"), Watched::new("deployments", "serving"));
        metrics.watch(&pods, true);
        metrics.watch(&fleets, false);
        let text = metrics.encode();
        assert!(has(&text, r#"llmscaler_watch_failing{resource="pods",namespace="serving"} 1"#), "{text}");
        assert!(has(&text, r#"llmscaler_watch_failing{resource="deployments",namespace="serving"} 0"#), "{text}");
        metrics.forget_watch(&pods);
        assert!(!metrics.encode().contains("pods"));
    }

    #[test]
    fn the_process_tells_of_itself() {
        let metrics = Metrics::new();
        metrics.sync(Duration::from_millis(20), Duration::from_millis(300));
        metrics.source("serving", "pool-a", 0.03, true);
        metrics.leader(true);
        metrics.scalers(3);
        let text = metrics.encode();
        for line in [
            r#"llmscaler_sync_lateness_seconds_bucket{le="0.05"} 1"#,
            "llmscaler_sync_seconds_count 1",
            "llmscaler_source_seconds_count 1",
            r#"llmscaler_source_failures_total{namespace="serving",name="pool-a"} 0"#,
            "llmscaler_leader 1",
            "llmscaler_scalers 3",
        ] {
            assert!(has(&text, line), "{line}\n{text}");
        }
        assert!(text.contains("llmscaler_build_info{version=\""), "{text}");
        if cfg!(target_os = "linux") {
            let resident = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
            assert!(resident.parse::<f64>().unwrap() > 1e6, "{resident}");
            assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
        }
    }

    #[test]
    fn many_scalers_are_counted_at_once_without_loss() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let metrics = metrics.clone();
                scope.spawn(move || {
                    for i in 0..1000 {
                        metrics.write("serving", "shared", WriteOutcome::Ok);
                        metrics.write(&format!("ns-{thread}"), &format!("pool-{i}"), WriteOutcome::Ok);
                    }
                });
            }
        });
        let text = metrics.encode();
        assert!(has(&text, r#"llmscaler_writes_total{namespace="serving",name="shared",outcome="ok"} 4000"#));
        assert_eq!(text.lines().filter(|line| line.starts_with("llmscaler_writes_total{")).count(), 4001 * WriteOutcome::ALL.len());
    }
}
