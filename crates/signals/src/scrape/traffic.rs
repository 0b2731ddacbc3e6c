//! The inputs of the headroom law, as pages say them; what each means is said in [`crate::traffic`].

use std::collections::BTreeMap;
use std::time::Duration;

use llmscaler_engine::{Bucket, Finished, InterToken, Measurement, Rates, Time, Traffic, share_above};

use super::Scrape;
use super::fleet::{self, Part, Share};
use super::instance::{Instance, Stretch};
use super::signal::value;
use super::wanted::Wanted;
use crate::preset::{Aggregate, Signal};
use crate::traffic::{LONG, Promised, RECENT, WINDOWS, alone, later_than, median, prompt_tokens, variation};

/// Who says something.
struct Source<'a> {
    wanted: &'a Wanted,
    instances: Vec<&'a Instance>,
    of_router: bool,
}

impl Scrape {
    /// The inputs of the headroom law as of the last sync. [`TRAFFIC_SIGNALS`](crate::TRAFFIC_SIGNALS) must be among the signals that
    /// [`new`](Self::new) was given; what was not wanted is not known.
    ///
    /// What comes in, and how it was served, is the router's to say where there is one and it says it, else the engines'. Differences
    /// are between the last page and that of about 15, 30, 60 or 120 s before it, and count for the time that lies between the two.
    /// A pod that has just become ready counts from its first page on. For missing pods the rules of the [module](super) hold: each
    /// counts as the busiest of the others, for a latency as the one that broke the promise most, and where they are half of the ready
    /// pods nothing is known. Ratios (the mean prompt, the time between tokens) are those of the pods that are known.
    #[must_use]
    pub fn traffic(&self, promised: &Promised, now: Time) -> Traffic {
        let [over_15s, over_30s, over_60s] = WINDOWS.map(|seconds| self.arrivals(seconds, now));
        let arrivals = Rates { over_15s, over_30s, over_60s };
        let [_, _, minute] = WINDOWS;
        let most = |buckets: &[Bucket]| buckets.last().map_or(0.0, |last| last.count);
        let lengths = self.observed(Signal::PromptLength, minute, true, now, most);
        let late = |signal, promise: f64| {
            let worst = |buckets: &[Bucket]| share_above(promise, buckets.iter().copied()).unwrap_or_default();
            let recent = RECENT.into_iter().find_map(|seconds| self.observed(signal, seconds, false, now, worst))?;
            later_than(promise, &recent)
        };
        let (kv_capacity, kv_used) = self.kv_tokens(now);
        Traffic {
            arrivals,
            prompt_tokens: prompt_tokens(arrivals, self.mean_prompt(minute, now)),
            prompt_variation: lengths.as_deref().and_then(variation),
            prompt_lengths: lengths.as_deref().map(alone),
            finished: self.finished(now),
            median_output: self.observed(Signal::OutputLength, LONG, true, now, most).as_deref().and_then(median),
            inter_token: RECENT.into_iter().find_map(|seconds| self.inter_token(seconds, now)),
            waiting: self.waiting(now).and_then(Measurement::new),
            kv_capacity,
            kv_used,
            running: self.of_engines(Signal::RunningRequests, now).and_then(Measurement::new),
            late_ttft: late(Signal::Ttft, promised.ttft),
            late_tpot: late(Signal::RequestTpot, promised.tpot),
        }
    }

    /// The routers where they say all of `signals`, else the engines. `None` where there should be a router and none is known, or one
    /// cannot be read: what it would have said nobody else knows.
    fn source(&self, signals: &[Signal]) -> Option<Source<'_>> {
        if let Some(wanted) = &self.router {
            let instances: Vec<&Instance> = self.read_routers().collect();
            if instances.is_empty() {
                return None;
            }
            let pages = instances.iter().map(|router| router.page().ok()).collect::<Option<Vec<_>>>()?;
            let says = |signal: &Signal| {
                let family = wanted.signal(*signal).map(|(family, _)| family);
                family.is_some_and(|family| pages.iter().any(|page| page.family(family).next().is_some()))
            };
            if signals.iter().all(says) {
                return Some(Source { wanted, instances, of_router: true });
            }
        }
        self.engines()
    }

    fn engines(&self) -> Option<Source<'_>> {
        let wanted = self.engine.as_ref()?;
        Some(Source { wanted, instances: self.ready_pods().collect(), of_router: false })
    }

    /// What each instance of a source has of something, as `measure` finds it on the pages that there are. Routers must all tell.
    fn parts<'a, T>(&self, source: &Source<'a>, now: Time, measure: impl Fn(&Instance) -> Option<T>) -> Option<Vec<Part<'a, T>>> {
        let share = |instance: &Instance| {
            let stuck = (!source.of_router).then(|| self.stuck(instance, now)).flatten();
            match (stuck, instance.page(), measure(instance)) {
                (Some(why), _, _) => Share::Missing(why, None),
                (None, Err(why), last) => Share::Missing(why.to_owned(), last),
                (None, Ok(_), Some(known)) => Share::Known(known),
                (None, Ok(_), None) if instance.is_new() => Share::New,
                (None, Ok(_), None) => Share::Missing("its pages do not tell".to_owned(), None),
            }
        };
        let parts: Vec<Part<'a, T>> = source.instances.iter().map(|instance| (instance.name.as_str(), share(instance))).collect();
        let all = parts.iter().all(|(_, share)| matches!(share, Share::Known(_)));
        (all || !source.of_router).then_some(parts)
    }

    /// Requests per second.
    fn arrivals(&self, seconds: u32, now: Time) -> Option<Measurement> {
        let source = self.source(&[Signal::Requests])?;
        let parts = self.parts(&source, now, |instance| {
            let stretch = instance.stretch(span(seconds), true)?;
            let counted = source.increase(Signal::Requests, &stretch)?;
            let more = match source.of_router {
                true => 0.0,
                false => source.change(Signal::RunningRequests, &stretch)? + source.change(Signal::QueuedRequests, &stretch)?,
            };
            Some(((counted + more) / stretch.seconds).max(0.0))
        })?;
        Measurement::new(fleet::total(&parts).ok()?)
    }

    /// In tokens, less the cached ones: over the last `seconds`, or, without a prompt in them, since the processes began.
    fn mean_prompt(&self, seconds: u32, now: Time) -> Option<Measurement> {
        let source = self.source(&[Signal::PromptTokens, Signal::Prompts])?;
        let recent = self.parts(&source, now, |instance| {
            let stretch = instance.stretch(span(seconds), true)?;
            let cached = source.increase(Signal::CachedTokens, &stretch).unwrap_or_default();
            Some([source.increase(Signal::PromptTokens, &stretch)? - cached, source.increase(Signal::Prompts, &stretch)?])
        })?;
        let ever = self.parts(&source, now, |instance| {
            let of = |signal| value(source.wanted, signal, instance.last_page()?);
            Some([of(Signal::PromptTokens)? - of(Signal::CachedTokens).unwrap_or_default(), of(Signal::Prompts)?])
        })?;
        let mean = |parts| ratio(parts).map(|[tokens, prompts]| tokens.max(0.0) / prompts);
        Measurement::new(mean(&recent).or_else(|| mean(&ever))?)
    }

    fn finished(&self, now: Time) -> Option<Finished> {
        let source = self.source(&[Signal::FinishedRequests, Signal::FinishedTokens])?;
        let parts = self.parts(&source, now, |instance| {
            let stretch = instance.stretch(span(LONG), true)?;
            let scale = f64::from(LONG) / stretch.seconds;
            let requests = source.increase(Signal::FinishedRequests, &stretch)?;
            Some([requests * scale, source.increase(Signal::FinishedTokens, &stretch)? * scale])
        })?;
        let missing = fleet::missing(&parts).ok()?.len();
        let known = known(&parts);
        let busiest = known.iter().copied().max_by(|a, b| a[0].total_cmp(&b[0]))?;
        let [requests, tokens] = sum(known.iter().copied().chain(std::iter::repeat_n(busiest, missing)));
        if requests == 0.0 && missing > 0 {
            return None;
        }
        Some(Finished { requests: Measurement::new(requests)?, output_tokens: Measurement::new(tokens)? })
    }

    /// By the engines, which state each gap; by the routers where these are all that is read.
    fn inter_token(&self, seconds: u32, now: Time) -> Option<InterToken> {
        let source = self.engines().or_else(|| self.source(&[Signal::InterTokenTime, Signal::InterTokens]))?;
        let parts = self.parts(&source, now, |instance| {
            let stretch = instance.stretch(span(seconds), false)?;
            Some([Signal::InterTokenTime, Signal::InterTokens].map(|signal| source.increase(signal, &stretch))).and_then(both)
        })?;
        let [time, gaps] = ratio(&parts)?;
        Some(InterToken { mean: Measurement::new(time / gaps)?, count: Measurement::new(gaps)? })
    }

    /// A gauge's total over the ready pods.
    fn of_engines(&self, signal: Signal, now: Time) -> Option<f64> {
        let wanted = self.engine.as_ref()?;
        self.total(wanted, wanted.signal(signal)?.1, now).ok()
    }

    /// At the engines, and at the routers. A router without flow control has no queue of its own.
    fn waiting(&self, now: Time) -> Option<f64> {
        let mut held_back = 0.0;
        if let Some(wanted) = &self.router {
            if self.targets.routers.is_empty() {
                return None;
            }
            for router in self.read_routers() {
                let page = router.page().ok()?;
                let queued = value(wanted, Signal::QueuedRequests, page);
                held_back += queued.or_else(|| value(wanted, Signal::RunningRequests, page).map(|_| 0.0))?;
            }
        }
        match (&self.engine, &self.router) {
            (None, Some(wanted)) => {
                let (_, row) = wanted.signal(Signal::EndpointQueue)?;
                Some(held_back + self.routed(wanted, row, Aggregate::Total, now).ok()?)
            }
            // Where no pod is ready none has a queue.
            (Some(_), Some(_)) if self.targets.pods.is_empty() => Some(held_back),
            _ => Some(held_back + self.of_engines(Signal::QueuedRequests, now)?),
        }
    }

    /// The KV tokens of the mean replica, and those in use.
    fn kv_tokens(&self, now: Time) -> (Option<Measurement>, Option<Measurement>) {
        let Some(source) = self.engines() else { return (None, None) };
        let size = |instance: &Instance| {
            let page = instance.last_page()?;
            [Signal::CacheConfig, Signal::KvCacheTokens].into_iter().find_map(|signal| value(source.wanted, signal, page))
        };
        let sizes: Vec<f64> = source.instances.iter().filter_map(|instance| size(instance)).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let used = self.parts(&source, now, |instance| {
            let share = value(source.wanted, Signal::KvCacheUsage, instance.last_page()?)?;
            Some(share * size(instance).unwrap_or(mean)).filter(|tokens| tokens.is_finite() && *tokens >= 0.0)
        });
        (Measurement::new(mean), used.and_then(|parts| fleet::total(&parts).ok()).and_then(Measurement::new))
    }

    /// The observations of the last `seconds`, cumulative, lowest bound first. Each missing pod counts as the one of which `like` says
    /// the most.
    fn observed(&self, signal: Signal, seconds: u32, lasting: bool, now: Time, like: impl Fn(&[Bucket]) -> f64) -> Option<Vec<Bucket>> {
        let source = self.source(&[signal])?;
        let (family, _) = source.wanted.signal(signal)?;
        let parts = self.parts(&source, now, |instance| {
            let stretch = instance.stretch(span(seconds), lasting)?;
            let scale = f64::from(seconds) / stretch.seconds;
            let mut buckets = BTreeMap::new();
            for (series, more) in stretch.increases(family) {
                *buckets.entry(series.upper().to_bits()).or_insert(0.0) += more * scale;
            }
            (source.of_router || !buckets.is_empty()).then(|| sorted(&buckets))
        })?;
        let missing = fleet::missing(&parts).ok()?.len();
        let known = known(&parts);
        let worst = known.iter().copied().max_by(|a, b| like(a).total_cmp(&like(b)))?;
        let mut added = BTreeMap::new();
        for bucket in known.iter().copied().chain(std::iter::repeat_n(worst, missing)).flatten() {
            *added.entry(bucket.upper.to_bits()).or_insert(0.0) += bucket.count;
        }
        // Pods that say nothing do not prove that nothing was observed.
        let proved = |last: &Bucket| last.upper == f64::INFINITY && (missing == 0 || last.count > 0.0);
        Some(sorted(&added)).filter(|buckets| buckets.last().is_some_and(proved))
    }
}

impl Source<'_> {
    /// What a counter went up by. A router that has counted nothing yet has no series; an engine without series does not tell.
    fn increase(&self, signal: Signal, stretch: &Stretch<'_>) -> Option<f64> {
        let increases = stretch.increases(self.wanted.signal(signal)?.0);
        (self.of_router || !increases.is_empty()).then(|| increases.iter().map(|(_, increase)| increase).sum())
    }

    /// The difference between the ends of a gauge.
    fn change(&self, signal: Signal, stretch: &Stretch<'_>) -> Option<f64> {
        let [first, last] = stretch.ends()?.map(|page| value(self.wanted, signal, page));
        Some(last? - first?)
    }
}

fn span(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}

fn known<'a, T>(parts: &'a [Part<'_, T>]) -> Vec<&'a T> {
    parts.iter().filter_map(|(_, share)| if let Share::Known(known) = share { Some(known) } else { None }).collect()
}

fn sum<'a>(pairs: impl IntoIterator<Item = &'a [f64; 2]>) -> [f64; 2] {
    pairs.into_iter().fold([0.0; 2], |[a, b], [more_a, more_b]| [a + more_a, b + more_b])
}

/// Both parts of a ratio, added over those that are known; `None` when they are too few, or nothing was counted.
fn ratio(parts: &[Part<'_, [f64; 2]>]) -> Option<[f64; 2]> {
    fleet::missing(parts).ok()?;
    Some(sum(known(parts))).filter(|[_, count]| *count > 0.0)
}

fn both([a, b]: [Option<f64>; 2]) -> Option<[f64; 2]> {
    Some([a?, b?])
}

fn sorted(buckets: &BTreeMap<u64, f64>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = buckets.iter().map(|(&upper, &count)| Bucket { upper: f64::from_bits(upper), count }).collect();
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    buckets
}

#[cfg(test)]
mod tests;
