//! From the rows of a preset to the queries of the headroom law's inputs.

use super::promql::Over;
use super::scope::{Scope, Unscoped, selector};
use super::signal::Signal;
use super::table::{Per, Preset, Row};
use crate::traffic::{LONG, RECENT, TrafficQueries, WINDOWS};

impl Preset {
    /// One query for each input that the software can give; see [`crate::traffic`] for what they mean.
    ///
    /// # Errors
    /// Nothing would isolate the pool among the series of one of them.
    pub fn traffic_queries(&self, scope: &Scope) -> Result<TrafficQueries, Unscoped> {
        let [over_15s, over_30s, over_60s] = WINDOWS;
        let buckets = |signal, seconds| self.row(signal).map(|row| self.buckets(row, scope, seconds)).transpose();
        let late = |signal| self.row(signal).map(|row| self.recent_buckets(row, scope)).transpose();
        let count =
            |signal, seconds| Ok::<_, Unscoped>(self.added(signal, scope, Over::Rate(seconds))?.map(|rate| format!("{rate} * {seconds}")));
        Ok(TrafficQueries {
            arrivals_15s: self.arrivals(scope, over_15s)?,
            arrivals_30s: self.arrivals(scope, over_30s)?,
            arrivals_60s: self.arrivals(scope, over_60s)?,
            mean_prompt: self.mean_prompt(scope)?,
            prompt_lengths: buckets(Signal::PromptLength, over_60s)?,
            finished: count(Signal::FinishedRequests, LONG)?,
            output_tokens: count(Signal::FinishedTokens, LONG)?,
            output_lengths: buckets(Signal::OutputLength, LONG)?,
            inter_token: self.inter_token(scope)?,
            inter_tokens: match RECENT.map(|seconds| count(Signal::InterTokens, seconds)) {
                [Ok(Some(first)), Ok(Some(second))] => Some(format!("{first} or {second}")),
                [first, _] => first?,
            },
            waiting: self.waiting(scope)?,
            running: self.of_engines(Signal::RunningRequests).map(|row| self.now(row, scope)).transpose()?,
            kv_usage: self.of_engines(Signal::KvCacheUsage).map(|row| self.each_over(row, scope, Over::Now)).transpose()?,
            kv_capacity: self.kv_capacity(scope)?,
            ttft: late(Signal::Ttft)?,
            tpot: late(Signal::RequestTpot)?,
        })
    }

    fn of_engines(&self, signal: Signal) -> Option<&Row> {
        self.row(signal).filter(|row| row.per == Per::Engine)
    }

    /// The sum over all targets; `None` without a row.
    fn added(&self, signal: Signal, scope: &Scope, over: Over) -> Result<Option<String>, Unscoped> {
        self.row(signal).map(|row| Ok(format!("sum({})", self.each_over(row, scope, over)?))).transpose()
    }

    /// A gauge's total, 0 where its proof says so.
    fn now(&self, row: &Row, scope: &Scope) -> Result<String, Unscoped> {
        self.proved(format!("sum({})", self.each_over(row, scope, Over::Now)?), row, scope)
    }

    /// `known`, or 0 where the row's proof has a result.
    fn proved(&self, known: String, row: &Row, scope: &Scope) -> Result<String, Unscoped> {
        match row.zero.and_then(|proof| self.row(proof)) {
            Some(proof) => Ok(format!("({known} or 0 * max({}))", self.each_over(proof, scope, Over::Now)?)),
            None => Ok(known),
        }
    }

    /// What a router counts arrives. Engines count what ends: that, and what is under way now and was not before, is what arrived.
    fn arrivals(&self, scope: &Scope, seconds: u32) -> Result<Option<String>, Unscoped> {
        let (Some(requests), Some(counted)) = (self.row(Signal::Requests), self.added(Signal::Requests, scope, Over::Rate(seconds))?)
        else {
            return Ok(None);
        };
        let (Some(running), Some(queued)) = (self.row(Signal::RunningRequests), self.row(Signal::QueuedRequests)) else { return Ok(None) };
        if requests.per != Per::Engine {
            return Ok(Some(counted));
        }
        let more = |row: &Row| self.proved(format!("sum({})", self.each_over(row, scope, Over::Delta(seconds))?), row, scope);
        Ok(Some(format!("clamp_min({counted} + ({} + {}) / {seconds}, 0)", more(running)?, more(queued)?)))
    }

    /// Over the last minute, or, when no prompt was counted in it, since the processes began.
    fn mean_prompt(&self, scope: &Scope) -> Result<Option<String>, Unscoped> {
        let over = |over| -> Result<Option<String>, Unscoped> {
            let (Some(tokens), Some(prompts)) = (self.added(Signal::PromptTokens, scope, over)?, self.added(Signal::Prompts, scope, over)?)
            else {
                return Ok(None);
            };
            let cached = self.added(Signal::CachedTokens, scope, over)?.map(|cached| format!(" - ({cached} or 0 * {prompts})"));
            Ok(Some(format!("clamp_min({tokens}{}, 0) / {prompts}", cached.unwrap_or_default())))
        };
        let [_, _, minute] = WINDOWS;
        let (Some(recent), Some(ever)) = (over(Over::Rate(minute))?, over(Over::Now)?) else { return Ok(None) };
        // NaN, of no prompts, is not at least 0.
        Ok(Some(format!("({recent} >= 0) or {ever}")))
    }

    fn inter_token(&self, scope: &Scope) -> Result<Option<String>, Unscoped> {
        let mut means = Vec::new();
        for seconds in RECENT {
            let over = Over::Rate(seconds);
            let (Some(time), Some(gaps)) =
                (self.added(Signal::InterTokenTime, scope, over)?, self.added(Signal::InterTokens, scope, over)?)
            else {
                return Ok(None);
            };
            means.push(format!("{time} / {gaps}"));
        }
        Ok(Some(means.join(" or ")))
    }

    fn recent_buckets(&self, row: &Row, scope: &Scope) -> Result<String, Unscoped> {
        let [short, long] = RECENT;
        // All of one or all of the other: no histogram of buckets from both.
        Ok(format!("{} or on () {}", self.buckets(row, scope, short)?, self.buckets(row, scope, long)?))
    }

    /// What waits at the engines, and, as a router says it, what it holds back; without flow control that is nothing.
    fn waiting(&self, scope: &Scope) -> Result<Option<String>, Unscoped> {
        let Some(queued) = self.row(Signal::QueuedRequests) else { return Ok(None) };
        let (Some(at_endpoints), Some(ready)) = (self.row(Signal::EndpointQueue), self.row(Signal::ReadyEndpoints)) else {
            return self.now(queued, scope).map(Some);
        };
        let held_back = format!("sum({})", self.each_over(queued, scope, Over::Now)?);
        let mean = self.each_over(at_endpoints, scope, Over::Now)?;
        let ready = self.each_over(ready, scope, Over::Now)?;
        Ok(Some(format!("({held_back} or 0 * max({ready})) + max({mean}) * max({ready})")))
    }

    /// A series for each engine, which states the tokens of its cache as its value or in its labels.
    fn kv_capacity(&self, scope: &Scope) -> Result<Option<String>, Unscoped> {
        if let Some(row) = self.of_engines(Signal::KvCacheTokens) {
            return self.each_over(row, scope, Over::Now).map(Some);
        }
        let (Some(config), Some(running)) = (self.of_engines(Signal::CacheConfig), self.of_engines(Signal::RunningRequests)) else {
            return Ok(None);
        };
        let ([of_config], [of_running]) = (config.metrics.as_slice(), running.metrics.as_slice()) else { return Ok(None) };
        // These series do not name their model, but those of what runs on the same target do.
        let facts = selector(&[&of_config.name], of_config, &scope.namespaced());
        let pool = selector(&[&of_running.name], of_running, &self.scoped(running, scope)?);
        Ok(Some(format!("max by (instance, pod, {}) ({facts} and on (instance, pod) {pool})", config.labels.join(", "))))
    }
}
