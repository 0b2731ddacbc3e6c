//! Signals that are one number: gauges, and rates of counters.

use std::collections::BTreeMap;

use llmscaler_engine::{Reading, Time};

use super::fleet::{self, Part, Share};
use super::instance::Instance;
use super::page::{Page, hash_of};
use super::wanted::Wanted;
use super::{Scrape, Targets};
use crate::preset::{Aggregate, Combine, Kind, Per, Row, Signal};

impl Scrape {
    /// A gauge's value, or a counter's rate per second, as of the last sync. The rules for missing pods are those of the
    /// [module](super).
    #[must_use]
    pub fn signal(&self, signal: Signal, aggregate: Aggregate, now: Time) -> Reading {
        match self.number(signal, aggregate, now).map(Reading::from_number) {
            Ok(Reading::Unknown(why)) | Err(why) => Reading::unknown(format!("signal {signal}: {why}")),
            Ok(known) => known,
        }
    }

    /// The value of a gauge for each pod of which it is known, by name: of engines and endpoints, not of a router's totals. For the
    /// choice of pods to remove, with [`Signal::KvCacheUsage`] say.
    #[must_use]
    pub fn pods_with(&self, signal: Signal, now: Time) -> BTreeMap<String, f64> {
        if let Some((wanted, row)) = self.engine.as_ref().and_then(|wanted| Some((wanted, wanted.signal(signal)?.1))) {
            let known = self.ready_pods().filter_map(|pod| match self.share(pod, wanted, row, now) {
                Share::Known(value) => Some((pod.name.clone(), value)),
                Share::New | Share::Missing(..) => None,
            });
            return known.collect();
        }
        let Some((family, _)) = self.router.as_ref().and_then(|wanted| wanted.signal(signal)) else {
            return BTreeMap::new();
        };
        let mut pods = BTreeMap::new();
        for page in self.read_routers().filter_map(|router| router.page().ok()) {
            for (_, name) in &self.targets.pods {
                let hash = hash_of(name.as_str());
                for (_, value) in page.family(family).filter(|(series, value)| series.pod == hash && value.is_finite()) {
                    *pods.entry(name.clone()).or_insert(0.0) += value;
                }
            }
        }
        pods
    }

    fn number(&self, signal: Signal, aggregate: Aggregate, now: Time) -> Result<f64, String> {
        let Targets { synced: true, pods, .. } = &self.targets else { return Err("nothing has been read yet".to_owned()) };
        let engine = self.engine.as_ref().and_then(|wanted| Some((wanted, wanted.signal(signal)?.1)));
        let router = self.router.as_ref().and_then(|wanted| Some((wanted, wanted.signal(signal)?.1)));
        match (engine, router) {
            (Some((wanted, row)), router) if !pods.is_empty() => {
                one_number(row)?;
                let own = self.total(wanted, row, now)?;
                // A request waits either at the router or at an engine.
                let held_back = match router.filter(|_| signal == Signal::QueuedRequests) {
                    Some((wanted, row)) => self.routed(wanted, row, Aggregate::Total, now)?,
                    None => 0.0,
                };
                Ok(match aggregate {
                    Aggregate::Total => own + held_back,
                    Aggregate::PerReplica => (own + held_back) / pods.len() as f64,
                })
            }
            (_, Some((wanted, row))) => {
                one_number(row)?;
                self.routed(wanted, row, aggregate, now)
            }
            (Some(_), None) => Err("no pod of the target is ready, so nobody can tell".to_owned()),
            (None, None) => Err("it is not read; check that the preset has it".to_owned()),
        }
    }

    /// The sum over the pods.
    pub(super) fn total(&self, wanted: &Wanted, row: &Row, now: Time) -> Result<f64, String> {
        let parts: Vec<Part<'_, f64>> = self.ready_pods().map(|pod| (pod.name.as_str(), self.share(pod, wanted, row, now))).collect();
        fleet::total(&parts)
    }

    /// What one pod has.
    pub(super) fn share(&self, pod: &Instance, wanted: &Wanted, row: &Row, now: Time) -> Share<f64> {
        if let Some(why) = self.stuck(pod, now) {
            // What it had is what it keeps saying, so that is no evidence.
            return Share::Missing(why, None);
        }
        let counted = |value: Option<f64>, last: Option<f64>| match value {
            Some(value) if value.is_finite() && value >= 0.0 => Share::Known(value),
            Some(value) => Share::Missing(format!("its value is {value}"), last),
            None => Share::Missing(no_series(row), last),
        };
        if row.kind == Kind::Counter {
            return match self.rate(pod, wanted, row, now) {
                None if pod.is_new() => Share::New,
                None => Share::Missing(few_pages(pod), None),
                Some(rate) => counted(rate, None),
            };
        }
        let last = pod.last_page().and_then(|page| value(wanted, row.signal, page));
        match pod.page() {
            Ok(page) => counted(value(wanted, row.signal, page), None),
            Err(why) => Share::Missing(why.to_owned(), last),
        }
    }

    /// The rate of one process's counter; `None` without two pages, `Some(None)` without series.
    fn rate(&self, instance: &Instance, wanted: &Wanted, row: &Row, now: Time) -> Option<Option<f64>> {
        let (family, _) = wanted.signal(row.signal)?;
        let rates = instance.rates(family, self.window, now)?;
        Some(combined(row, rates.into_iter().map(|(_, rate)| rate)))
    }

    /// What the routers say. All must be read: what one of them holds, the others know nothing of.
    pub(super) fn routed(&self, wanted: &Wanted, row: &Row, aggregate: Aggregate, now: Time) -> Result<f64, String> {
        let mut each = Vec::new();
        for router in self.read_routers() {
            let found = if row.kind == Kind::Counter {
                let rate = self.rate(router, wanted, row, now);
                rate.ok_or_else(|| few_pages(router)).and_then(|rate| rate.ok_or_else(|| no_series(row)))
            } else {
                let page = router.page().map_err(str::to_owned);
                page.and_then(|page| value(wanted, row.signal, page).ok_or_else(|| no_series(row)))
            };
            each.push(found.map_err(|why| format!("router {}: {why}", router.name))?);
        }
        if each.is_empty() {
            return Err(
                "no address of the router is known; set scrape.eppService, and check that the Service has ready endpoints".to_owned()
            );
        }
        let pods = self.targets.pods.len() as f64;
        let (sum, highest) = (each.iter().sum::<f64>(), each.iter().copied().fold(f64::MIN, f64::max));
        Ok(match (row.per, aggregate, row.combine) {
            (Per::Engine | Per::Endpoint | Per::Router, Aggregate::Total, _) => sum,
            (Per::Engine | Per::Endpoint | Per::Router, Aggregate::PerReplica, _) => sum / pods.max(1.0),
            (Per::Pool, Aggregate::Total, Combine::Sum) | (Per::Pool, Aggregate::PerReplica, Combine::Mean) => highest,
            (Per::Pool, Aggregate::Total, Combine::Mean) => highest * pods,
            (Per::Pool, Aggregate::PerReplica, Combine::Sum) => highest / pods.max(1.0),
        })
    }
}

/// What one page says of a gauge (or the state of a counter). An absent series is 0 only where the row's proof has one.
pub(super) fn value(wanted: &Wanted, signal: Signal, page: &Page) -> Option<f64> {
    let (family, row) = wanted.signal(signal)?;
    let found = combined(row, page.family(family).map(|(_, value)| value));
    found.or_else(|| {
        let (proof, _) = wanted.signal(row.zero?)?;
        page.family(proof).next().map(|_| 0.0)
    })
}

fn combined(row: &Row, values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    match row.combine {
        _ if count == 0 => None,
        Combine::Sum => Some(sum),
        Combine::Mean => Some(sum / f64::from(count)),
    }
}

fn one_number(row: &Row) -> Result<(), String> {
    match row.kind {
        Kind::Gauge | Kind::Counter => Ok(()),
        Kind::Histogram | Kind::Info => Err(format!("it is {}, not one number", row.kind)),
    }
}

fn few_pages(instance: &Instance) -> String {
    match instance.page() {
        Ok(_) => "it has been read once only, and a rate needs two readings".to_owned(),
        Err(why) => why.to_owned(),
    }
}

pub(super) fn no_series(row: &Row) -> String {
    let names: Vec<&str> = row.metrics.iter().map(|metric| metric.name.as_str()).collect();
    let needs = row.needs.as_ref().map(|needs| format!(", which needs {needs}")).unwrap_or_default();
    format!("its page has no {}{needs}", names.join(" or "))
}
