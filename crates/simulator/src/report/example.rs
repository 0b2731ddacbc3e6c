//! A comparison for tests, whose figures are made up.

use super::{Bound, Comparison, Kind, Point, Setting};
use crate::Promised;
use crate::outcome::{Change, Outcome, Quantiles, Sample};

pub fn setting() -> Setting {
    Setting {
        command: "llmscaler simulate --workload ramp --seeds 2".to_owned(),
        version: "0.1.0".to_owned(),
        workload: "ramp".to_owned(),
        description: "2 to 10 requests per second in steps, then back".to_owned(),
        profile: "qwen3-32b-h100-tp2".to_owned(),
        profile_title: "Qwen3-32B on two H100".to_owned(),
        profile_fit: "within 5 % of what was published".to_owned(),
        gpus_per_replica: 2,
        gpus: None,
        drain_seconds: None,
        start_failures: 0.0,
        prefix_hits: 0.0,
        warmup: "100 s".to_owned(),
        warmup_seconds: 100.0,
        router: "least loaded".to_owned(),
        metrics: "ideal".to_owned(),
        promised: Promised { ttft: 3.0, tpot: 0.1 },
        min: 3,
        max: 8,
        start: 3,
        seeds: vec![1, 2],
        objective: 0.99,
    }
}

pub fn outcome(policy: &str, seed: u64, attainment: f64, gpu_hours: f64) -> Outcome {
    let sample = |at: u32| Sample {
        at: f64::from(at) * 15.0,
        replicas: 3 + at / 4,
        ready: 3 + at.saturating_sub(2) / 4,
        need: 2.5 + f64::from(at) / 4.0,
        arrivals: 2.0 + f64::from(at),
        late: u64::from(at % 5),
        ttft_p90: if at == 7 { f64::INFINITY } else { 0.5 + f64::from(at) / 4.0 },
        tpot_p90: if at == 9 { f64::NAN } else { 0.05 },
        waiting: at,
        kv_usage: f64::from(at) / 20.0,
    };
    Outcome {
        policy: policy.to_owned(),
        seed,
        promised: setting().promised,
        offered: 1000,
        finished: 998,
        killed: 0,
        attainment,
        ttft_attainment: attainment,
        tpot_attainment: 1.0,
        ttft: Quantiles { p50: 0.4, p90: 0.9, p99: 1.2 },
        tpot: Quantiles { p50: 0.03, p90: 0.05, p99: 0.061 },
        worst_five_minutes: attainment - 0.01,
        minutes_over: 1,
        goodput: 5.0,
        gpu_hours,
        warmup_gpu_hours: 0.3,
        drain_gpu_hours: 0.1,
        average_replicas: 4.0,
        average_replicas_under_load: 5.0,
        scale_events: 1,
        reversals: 0,
        pods_started: 1,
        short_lived_pods: 0,
        under: 0.01,
        over: 0.2,
        recomputed_tokens: 0,
        decisions_on_missing: 0,
        timeline: (1..=12).map(sample).collect(),
        decisions: vec![Change { at: 60.0, from: 3, to: 4, why: "8 % growth & <no> room".to_owned() }],
    }
}

pub fn comparison() -> Comparison {
    let two = |name: &str, attainment: f64, cost: f64| {
        vec![outcome(name, 1, attainment - 0.001, cost - 0.2), outcome(name, 2, attainment + 0.001, cost + 0.2)]
    };
    let runs = vec![
        (Kind::Fixed, two("static 6", 0.994, 12.0)),
        (Kind::Peer, two("in-flight 32", 0.993, 9.25)),
        (Kind::Ours, two("headroom 0.99", 0.996, 8.57)),
        (Kind::Peer, two("hpa-kv 0.8", 0.85, 7.5)),
        (Kind::Clairvoyant, two("clairvoyant", 0.998, 7.6)),
    ];
    let points = [(0.95, 6.9), (0.99, 7.2), (0.998, 7.6)].map(|(attainment, gpu_hours)| Point { attainment, gpu_hours });
    Comparison::new(setting(), runs, Bound::new(Some(6.4), points.to_vec()), Vec::new())
}
