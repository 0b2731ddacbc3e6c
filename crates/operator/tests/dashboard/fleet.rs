//! Scalers with made-up loads, decided by the engine, that feed a dashboard as the operator does.

use std::time::Duration;

use llmscaler_api::TargetRef;
use llmscaler_engine::{
    Activation, Bounds, Condition, Law, Memory, Mode, Observation, Reading, Replicas, ScaleDown, Source, Spec, Target, Time, VictimOrder,
    Workload, decide,
};
use llmscaler_operator::dashboard::{History, Lateness, Synced};
use serde_json::json;

const PERIOD: Duration = Duration::from_secs(15);

/// A scaler and its workload, whose pods take two syncs to start.
pub struct Scaler {
    pub namespace: String,
    pub name: String,
    target: TargetRef,
    spec: Spec,
    memory: Memory,
    replicas: Replicas,
    ready: Replicas,
    /// The size of the sync before.
    before: Replicas,
    at: Time,
}

impl Scaler {
    /// Two replicas; `at` is the first sync, in milliseconds since 1970.
    pub fn new(namespace: &str, name: &str, max: u32, at: i64) -> Self {
        let source = |name: &str, law| Source { name: name.to_owned(), law, activation: Activation::ANY_LOAD, required: false };
        let target = |target| Target::new(target).unwrap();
        let spec = Spec {
            bounds: Bounds { min: Replicas::new(1), max: Replicas::new(max) },
            sources: vec![source("queue", Law::Average { target: target(5.0) }), source("kv-cache", Law::Ratio { target: target(0.8) })],
            sync_period: PERIOD,
            scale_down: ScaleDown {
                window: Duration::from_secs(300),
                max_step: Some(1.try_into().unwrap()),
                victims: VictimOrder::ColdestFirst,
            },
            behavior: None,
            cooldown: Duration::ZERO,
            fallback: None,
            mode: Mode::Auto,
        };
        let [replicas, ready, before] = [Replicas::new(2); 3];
        let target = TargetRef { group: "apps".into(), version: "v1".into(), kind: "Deployment".into(), name: name.into() };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { namespace, name, target, spec, memory: Memory::default(), replicas, ready, before, at: Time::from_millis(at) }
    }

    /// The size that was last written.
    pub fn replicas(&self) -> u32 {
        self.replicas.get()
    }

    /// One sync with so many queued requests, `None` being unknown.
    pub fn sync(&mut self, history: &History, queued: Option<f64>, late: Option<f64>) {
        self.at = self.at.after(PERIOD);
        self.ready = self.before.min(self.replicas);
        self.before = self.replicas;
        let queue =
            queued.map_or_else(|| Reading::unknown("http://prometheus:9090 does not answer: connection refused"), Reading::from_number);
        let busy = queued.map_or(0.5, |queued| (queued / f64::from(self.ready.get().max(1)) / 7.0).min(1.0));
        let workload = Workload { replicas: self.replicas, ready: self.ready, ..Workload::default() };
        let seen = Observation { workload, readings: vec![queue, Reading::from_number(busy)], traffic: None };
        let decision = decide(&self.spec, &seen, &self.memory, self.at);
        self.memory = decision.memory.clone();
        if let Some(count) = decision.write {
            self.memory.record_write(&self.spec, self.at, self.replicas, count);
            self.replicas = count;
            history.event(&self.namespace, &self.name, self.at, false, "SuccessfulRescale", &decision.message);
        }
        if queued.is_none() {
            history.event(&self.namespace, &self.name, self.at, true, "FailedGetMetrics", "queue is unknown: connection refused");
        }
        let time = "2026-01-01T00:00:00Z";
        let condition = |condition: &Condition| {
            let status = if condition.status { "True" } else { "False" };
            let (reason, message) = (condition.reason, &condition.message);
            json!({"type": condition.kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
        };
        let conditions: Vec<_> = decision.conditions.iter().map(condition).collect();
        let status = json!({"conditions": conditions, "warmup": {"seconds": 38, "samples": 4}});
        history.status(&self.namespace, &self.name, &serde_json::from_value(status).unwrap());
        let lateness = Lateness { ttft: late, tpot: late.map(|late| late / 3.0) };
        let (target, spec) = (&self.target, &self.spec);
        let synced = Synced { at: self.at, target, spec, decision: &decision, written: decision.write, lateness };
        history.decided(&self.namespace, &self.name, &synced);
    }
}
