//! From a row to one PromQL query of one value.

use std::collections::BTreeMap;

use super::scope::{Scope, Unscoped, selector};
use super::signal::Signal;
use super::table::{Combine, Kind, Metric, Per, Preset, Row};
use super::{Aggregate, Latency, NoQuery};

/// The range of a rate in seconds, unless somebody asks for another: the last minute. So a target has to be scraped at least twice a
/// minute; the guides' 15 s are good.
const RANGE: u32 = 60;

/// What of a series counts.
#[derive(Clone, Copy)]
pub(super) enum Over {
    /// Its value.
    Now,
    /// Its rate per second over so many seconds.
    Rate(u32),
    /// The difference that so many seconds made, of a gauge.
    Delta(u32),
}

impl Preset {
    /// One PromQL query of one value: a gauge's value, or a counter's rate per second over the last minute.
    ///
    /// # Errors
    /// The signal is not emitted or not one number, or nothing would isolate the pool.
    pub fn query(&'static self, signal: Signal, aggregate: Aggregate, scope: &Scope) -> Result<String, NoQuery> {
        let row = self.emitted(signal)?;
        if !matches!(row.kind, Kind::Gauge | Kind::Counter) {
            return Err(NoQuery::NotOneNumber { preset: &self.name, signal, kind: row.kind });
        }
        let known = self.reduced(row, aggregate, scope)?;
        match row.zero {
            Some(proof) => self.or_zero(known, proof, scope),
            None => Ok(known),
        }
    }

    /// A quantile, 0 to 1, of a latency in seconds, over the requests (predicted: the arrivals) of the last minute.
    ///
    /// Where the software predicts latencies, the prediction counts, unless it is dead: a histogram that is there and gets no
    /// observations has the quantile NaN, which `>= 0` drops, and then the measured latency counts. Without traffic the result is
    /// NaN, or nothing at all, and never 0; whether that is idleness only [`traffic_query`](Self::traffic_query) can tell.
    ///
    /// # Errors
    /// The latency is not emitted, or nothing would isolate the pool.
    pub fn latency_query(&'static self, latency: Latency, quantile: f64, scope: &Scope) -> Result<String, NoQuery> {
        let [predicted, measured] = latency.signals();
        let measured = self.quantile(self.emitted(measured)?, quantile, scope)?;
        match self.row(predicted) {
            Some(row) => Ok(format!("({} >= 0) or {measured}", self.quantile(row, quantile, scope)?)),
            None => Ok(measured),
        }
    }

    /// Requests in the pool, running and queued. A result of 0 comes from live series, and proves that the pool is idle.
    ///
    /// A router without flow control has no queue of its own; then what runs is all there is.
    ///
    /// # Errors
    /// The software does not tell, or nothing would isolate the pool.
    pub fn traffic_query(&'static self, scope: &Scope) -> Result<String, NoQuery> {
        let running = self.emitted(Signal::RunningRequests)?;
        // Of both the proof that running has: whether the queue's own is there depends on whether flow control is on.
        let part = |row: &'static Row| {
            let known = self.reduced(row, Aggregate::Total, scope)?;
            match running.zero {
                Some(proof) => Ok(format!("({})", self.or_zero(known, proof, scope)?)),
                None => Ok::<_, NoQuery>(known),
            }
        };
        Ok(format!("{} + {}", part(running)?, part(self.emitted(Signal::QueuedRequests)?)?))
    }

    fn emitted(&'static self, signal: Signal) -> Result<&'static Row, NoQuery> {
        self.row(signal).ok_or_else(|| NoQuery::NotEmitted { software: &self.software, signal, has: self.signals().collect() })
    }

    /// One value of a gauge or of a counter's rate; nothing where there is no series.
    fn reduced(&'static self, row: &Row, aggregate: Aggregate, scope: &Scope) -> Result<String, NoQuery> {
        let each = self.each(row, scope)?;
        Ok(match (row.per, aggregate, row.combine) {
            (Per::Engine, Aggregate::Total, Combine::Sum) | (Per::Endpoint | Per::Router, Aggregate::Total, _) => format!("sum({each})"),
            (Per::Engine, Aggregate::Total, Combine::Mean) => format!("sum({})", pods(row, &each)),
            (Per::Engine | Per::Endpoint, Aggregate::PerReplica, _) => format!("avg({})", pods(row, &each)),
            (Per::Router, Aggregate::PerReplica, _) => format!("sum({each}) / clamp_min({}, 1)", self.ready(scope)?),
            (Per::Pool, Aggregate::Total, Combine::Sum) | (Per::Pool, Aggregate::PerReplica, Combine::Mean) => format!("max({each})"),
            (Per::Pool, Aggregate::Total, Combine::Mean) => format!("max({each}) * {}", self.ready(scope)?),
            (Per::Pool, Aggregate::PerReplica, Combine::Sum) => format!("max({each}) / clamp_min({}, 1)", self.ready(scope)?),
        })
    }

    /// The endpoints that the router holds ready.
    fn ready(&'static self, scope: &Scope) -> Result<String, NoQuery> {
        Ok(format!("max({})", self.each(self.emitted(Signal::ReadyEndpoints)?, scope)?))
    }

    /// 0 where `known` has no result and `proof` has one: then the process is there, and has nothing to count.
    fn or_zero(&'static self, known: String, proof: Signal, scope: &Scope) -> Result<String, NoQuery> {
        Ok(format!("{known} or 0 * max({})", self.each(self.emitted(proof)?, scope)?))
    }

    /// One value for each scraped target (and endpoint), whatever it calls the metric and however often it is scraped.
    fn each(&self, row: &Row, scope: &Scope) -> Result<String, Unscoped> {
        self.each_over(row, scope, if row.kind == Kind::Counter { Over::Rate(RANGE) } else { Over::Now })
    }

    /// As [`each`](Self::each), of that which `over` says.
    pub(super) fn each_over(&self, row: &Row, scope: &Scope, over: Over) -> Result<String, Unscoped> {
        let scoped = self.scoped(row, scope)?;
        let endpoint = if row.per == Per::Endpoint { ", endpoint_name" } else { "" };
        let inner = match row.combine {
            Combine::Sum => "sum",
            Combine::Mean => "avg",
        };
        let function = match over {
            Over::Now => None,
            Over::Rate(seconds) => Some(("rate", seconds)),
            Over::Delta(seconds) => Some(("delta", seconds)),
        };
        let series = match (function, row.metrics.as_slice()) {
            (Some(function), metrics) => preferred(metrics, |metric| ranged(function, &metric.name, metric, &scoped)),
            (None, [first, ..]) => {
                let names: Vec<&str> = row.metrics.iter().map(|metric| metric.name.as_str()).collect();
                selector(&names, first, &scoped)
            }
            (None, []) => String::new(),
        };
        // Functions take the name away, and a single name tells nothing apart.
        let name = if function.is_some() || row.metrics.len() == 1 { "" } else { "__name__, " };
        let once = match row.repeats.as_slice() {
            [] => series,
            repeats => {
                let kept: String = row.labels.iter().filter(|label| !repeats.contains(label)).map(|label| format!(", {label}")).collect();
                format!("max by ({name}job, instance, pod{kept}) ({series})")
            }
        };
        Ok(format!("max by (instance, pod{endpoint}) ({inner} by ({name}job, instance, pod{endpoint}) ({once}))"))
    }

    /// The observations of `seconds` by `le`, cumulative, each target once.
    pub(super) fn buckets(&self, row: &Row, scope: &Scope, seconds: u32) -> Result<String, Unscoped> {
        let rates = self.bucket_rates(row, scope, seconds)?;
        Ok(format!("sum by (le) (max by (instance, pod, le) (sum by (job, instance, pod, le) ({rates}))) * {seconds}"))
    }

    fn bucket_rates(&self, row: &Row, scope: &Scope, seconds: u32) -> Result<String, Unscoped> {
        let scoped = self.scoped(row, scope)?;
        Ok(preferred(&row.metrics, |metric| ranged(("rate", seconds), &format!("{}_bucket", metric.name), metric, &scoped)))
    }

    fn quantile(&self, row: &Row, quantile: f64, scope: &Scope) -> Result<String, NoQuery> {
        Ok(format!("histogram_quantile({quantile}, sum by (le) ({}))", self.bucket_rates(row, scope, RANGE)?))
    }
}

fn ranged((function, seconds): (&str, u32), name: &str, metric: &Metric, scoped: &BTreeMap<String, String>) -> String {
    let range = if seconds.is_multiple_of(60) { format!("{}m", seconds / 60) } else { format!("{seconds}s") };
    format!("{function}({}[{range}])", selector(&[name], metric, scoped))
}

/// Each name only for the targets that lack all names before it.
fn preferred(metrics: &[Metric], series: impl Fn(&Metric) -> String) -> String {
    metrics.iter().map(series).collect::<Vec<_>>().join(" or on (instance, pod) ")
}

/// One value for each pod.
fn pods(row: &Row, each: &str) -> String {
    let combine = match row.combine {
        Combine::Sum => "sum",
        Combine::Mean => "avg",
    };
    match row.per {
        // A data-parallel pod has an endpoint for each rank, or for each port: pod-0-rank-3, pod-0:8003.
        Per::Endpoint => {
            let pod = r#""pod", "$1", "endpoint_name", "(.+?)(-rank-[0-9]+)?(:[0-9]+)?""#;
            format!("{combine} by (pod) (label_replace({each}, {pod}))")
        }
        // The ports of a pod share its address. Where pods are not labelled, the address is all that names them.
        _ => format!(r#"{combine} by (pod, host) (label_replace({each}, "host", "$1", "instance", "(.+):[^:]*"))"#),
    }
}
