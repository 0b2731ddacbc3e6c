//! Takes down what happens in a run.

use std::fmt;

use super::fleet::{Asked, Bill};
use super::latencies::Latencies;
use super::traffic::{Interval, Minute, at, worst_five};
use super::{Change, Outcome, Quantiles, Sample};
use crate::{Promised, Request, Served};

/// What is billed goes on for so many seconds after the last arrival.
const AFTERMATH: f64 = 600.0;

/// Runs of up to so many seconds have the finer timeline.
const SHORT_RUN: f64 = 4.0 * 3600.0;

/// Takes down what happens in a run, in bounded memory, and makes an [`Outcome`] of it.
pub struct Recorder {
    promised: Promised,
    span: f64,
    gpus: f64,
    need: Need,
    intervals: Vec<Interval>,
    minutes: Vec<Minute>,
    ttft: Latencies,
    tpot: Latencies,
    arrivals: Option<(f64, f64)>,
    sums: Sums,
    bill: Bill,
    asked: Asked,
    samples: Vec<Seen>,
}

/// Replicas that a load takes: of requests per second, mean prompt and mean output length in tokens.
type Need = Box<dyn Fn(f64, f64, f64) -> f64 + Send>;

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    offered: u64,
    finished: u64,
    killed: u64,
    kept: u64,
    kept_ttft: u64,
    kept_tpot: u64,
    recomputed: u64,
    on_missing: u32,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: f64,
    replicas: u32,
    ready: u32,
    waiting: u32,
    kv_usage: f64,
}

impl Recorder {
    /// For a run in which nothing arrives after `span` seconds, with `gpus` GPUs to a replica. `need` is the number of replicas, a
    /// fraction too, for so many requests per second of a mean prompt and a mean output length in tokens.
    #[must_use]
    pub fn new(promised: Promised, span: f64, gpus: u32, need: impl Fn(f64, f64, f64) -> f64 + Send + 'static) -> Self {
        Self {
            promised,
            span,
            gpus: f64::from(gpus),
            need: Box::new(need),
            intervals: Vec::new(),
            minutes: Vec::new(),
            ttft: Latencies::fine(),
            tpot: Latencies::fine(),
            arrivals: None,
            sums: Sums::default(),
            bill: Bill::default(),
            asked: Asked::default(),
            samples: Vec::new(),
        }
    }

    /// Seconds between two samples of the timeline: 15, or 60 in runs of more than four hours.
    #[must_use]
    pub fn interval(&self) -> f64 {
        if self.span <= SHORT_RUN { 15.0 } else { 60.0 }
    }

    /// The end of what is billed: ten minutes after the last arrival.
    #[must_use]
    pub fn billed_until(&self) -> f64 {
        self.span + AFTERMATH
    }

    /// A request arrives; in the order of time. It counts as unfinished until it is served.
    pub fn arrived(&mut self, request: &Request) {
        self.sums.offered += 1;
        let (first, _) = *self.arrivals.get_or_insert((request.at, request.at));
        self.arrivals = Some((first, request.at));
        let (interval, minute) = (self.interval_of(request.at), minute_of(request.at));
        at(&mut self.intervals, interval).arrived(request);
        at(&mut self.minutes, minute).arrived();
    }

    /// A request was answered to its end.
    pub fn served(&mut self, served: &Served) {
        let promised = self.promised;
        self.sums.finished += 1;
        self.sums.kept += u64::from(promised.kept_by(served));
        self.sums.kept_ttft += u64::from(served.ttft <= promised.ttft);
        self.sums.kept_tpot += u64::from(served.tpot.is_none_or(|tpot| tpot <= promised.tpot));
        self.ttft.add(served.ttft);
        served.tpot.iter().for_each(|tpot| self.tpot.add(*tpot));
        let (interval, minute) = (self.interval_of(served.arrived), minute_of(served.arrived));
        at(&mut self.intervals, interval).served(served, promised);
        at(&mut self.minutes, minute).served(served, promised);
    }

    /// A request was cut off when its replica went; it stays unfinished.
    pub fn lost(&mut self) {
        self.sums.killed += 1;
    }

    /// So many tokens were processed again: what was cached of them went with its replica, or for lack of KV cache.
    pub fn recomputed(&mut self, tokens: u64) {
        self.sums.recomputed += tokens;
    }

    /// A decision was taken without some metric.
    pub fn decided_on_missing(&mut self) {
        self.sums.on_missing += 1;
    }

    /// The number of replicas asked for changed.
    pub fn resized(&mut self, at: f64, from: u32, to: u32, why: &str) {
        if from != to {
            self.asked.changes.push(Change { at, from, to, why: why.to_owned() });
        }
    }

    /// A pod is gone, or the run is over and it is still there: then `gone` is the end of the run. One that was ready before time 0 is
    /// not one that was started.
    pub fn pod(&mut self, created: f64, ready: Option<f64>, leaving: Option<f64>, gone: f64) {
        let until = self.billed_until();
        self.bill.add(created, ready, leaving, gone, until);
    }

    /// The state at the end of an [`interval`](Self::interval): replicas asked for and serving, requests waiting at the gateway and at
    /// replicas, and the share of the KV cache of the ready ones that is in use.
    pub fn sample(&mut self, at: f64, replicas: u32, ready: u32, waiting: u32, kv_usage: f64) {
        self.samples.push(Seen { at, replicas, ready, waiting, kv_usage });
    }

    /// What came of it. `end` is when the run was over, should that be before the end of what is billed.
    #[must_use]
    pub fn finish(self, policy: String, seed: u64, end: f64) -> Outcome {
        let Sums { offered, finished, killed, kept, kept_ttft, kept_tpot, recomputed, on_missing } = self.sums;
        let share = |count: u64| if offered == 0 { f64::NAN } else { count as f64 / offered as f64 };
        let unfinished = offered.saturating_sub(finished);
        let gpu_hours = |seconds: f64| seconds * self.gpus / 3600.0;
        let timeline = self.timeline();
        let (under, over) = elasticity(&timeline);
        let start = timeline.first().map_or(0, |sample| sample.replicas);
        let (first, last) = self.arrivals.unwrap_or_default();
        Outcome {
            policy,
            seed,
            promised: self.promised,
            offered,
            finished,
            killed,
            attainment: share(kept),
            ttft_attainment: share(kept_ttft),
            tpot_attainment: share(kept_tpot),
            ttft: quantiles(&self.ttft, unfinished),
            tpot: quantiles(&self.tpot, unfinished),
            worst_five_minutes: worst_five(&self.minutes),
            minutes_over: self.minutes.iter().filter(|minute| minute.is_over()).count() as u32,
            goodput: if self.span > 0.0 { kept as f64 / self.span } else { 0.0 },
            gpu_hours: gpu_hours(self.bill.seconds),
            warmup_gpu_hours: gpu_hours(self.bill.warmup),
            drain_gpu_hours: gpu_hours(self.bill.drain),
            average_replicas: self.asked.mean(0.0, end.min(self.billed_until()), start),
            average_replicas_under_load: self.asked.mean(first, last, start),
            scale_events: self.asked.changes.len() as u32,
            reversals: self.asked.reversals(),
            pods_started: self.bill.started,
            short_lived_pods: self.bill.short_lived,
            under,
            over,
            recomputed_tokens: recomputed,
            decisions_on_missing: on_missing,
            timeline,
            decisions: self.asked.changes,
        }
    }

    fn timeline(&self) -> Vec<Sample> {
        let (width, none) = (self.interval(), Interval::default());
        let samples = self.samples.iter().map(|seen| {
            let interval = if seen.at > 0.0 { self.intervals.get(self.interval_of(seen.at)).unwrap_or(&none) } else { &none };
            let (count, rate) = (interval.arrived as f64, interval.arrived as f64 / width);
            let need =
                if interval.arrived == 0 { 0.0 } else { (self.need)(rate, interval.prompt as f64 / count, interval.output as f64 / count) };
            Sample {
                at: seen.at,
                replicas: seen.replicas,
                ready: seen.ready,
                need,
                arrivals: rate,
                late: interval.late(),
                ttft_p90: interval.ttft_p90(),
                tpot_p90: interval.tpot_p90(),
                waiting: seen.waiting,
                kv_usage: seen.kv_usage,
            }
        });
        samples.collect()
    }

    /// The interval that `at` lies in, its end included.
    fn interval_of(&self, at: f64) -> usize {
        (at / self.interval()).ceil() as usize - usize::from(at > 0.0)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("sums", &self.sums).finish_non_exhaustive()
    }
}

fn minute_of(at: f64) -> usize {
    (at / 60.0) as usize
}

/// Those that never finished took for ever.
fn quantiles(latencies: &Latencies, unfinished: u64) -> Quantiles {
    let quantile = |q| latencies.quantile(q, unfinished);
    Quantiles { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }
}

/// Mean share of the need, in whole replicas, that was missing, and that was too much, over the samples with any need.
fn elasticity(timeline: &[Sample]) -> (f64, f64) {
    let (mut under, mut over, mut of) = (0.0, 0.0, 0.0_f64);
    for sample in timeline.iter().filter(|sample| sample.need > 0.0) {
        let (need, ready) = (sample.need.ceil(), f64::from(sample.ready));
        under += (need - ready).max(0.0) / need;
        over += (ready - need).max(0.0) / need;
        of += 1.0;
    }
    (under / of.max(1.0), over / of.max(1.0))
}
