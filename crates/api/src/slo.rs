//! `spec.slo`: the latency that users are promised, as a source of recommendations.

use std::time::Duration;

use kube::KubeSchema;
use llmscaler_engine as engine;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, LatencyAsk, SloAsk};
use crate::duration::duration;
use crate::invalid::{Invalid, not_blank};
use crate::likeness::{listed, nearest};
use crate::number::decimal;
use crate::rules::{self, Rule};
use crate::schema::profile_names;

/// The source of the SLO, by name.
pub(crate) const SLO: &str = "slo";
/// The longest window of the mean; the API has the same bound on every other window.
const LONGEST_SMOOTHING: Duration = Duration::from_secs(3600);
/// The share of requests that must be in time where none is given.
const DEFAULT_OBJECTIVE: &str = "0.99";

/// The latency that users are promised. The pool's saturation is its latency as a share of that, the larger one of the two.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::SLO_SIGNAL,
    validation = rules::SLO_OVERRIDES,
    validation = rules::SLO_PROMISED,
    validation = rules::SLO_ORDER,
    validation = rules::HEADROOM_PROMISES,
    validation = rules::HEADROOM_ALONE
)]
pub struct Slo {
    /// Promised time to first token, such as 3s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::LATENCY)]
    pub ttft: Option<String>,

    /// Promised time per output token after the first, such as 100ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::LATENCY)]
    pub tpot: Option<String>,

    /// The quantile of each latency that has to keep the promise, between 0 and 1 in quotes: "0.9" is nine requests of ten.
    #[serde(default = "default_quantile")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::QUANTILE)]
    pub quantile: String,

    /// How the promise becomes a number of replicas. Band: above scaleUpAt the target grows in proportion, less what is already starting;
    /// below scaleDownAt it shrinks in proportion; in between it stays. Headroom: as many replicas as the arriving requests take, with
    /// room for noise and for growth while replicas start; it needs ttft, tpot, spec.preset and a sync period of 15 s, and falls back
    /// to saturation while arrivals are unknown.
    #[serde(default)]
    pub strategy: Strategy,

    /// What the steps of one replica cost, by model and hardware, for Headroom: the nearest of the built-in profiles. Measured step times
    /// correct it. Without it a stand-in is corrected sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = profile_names)]
    pub profile: Option<String>,

    /// The share of requests that must keep both promises, for Headroom: at least 0.5 and below 1, in quotes; "0.99" unless set. The
    /// higher, the more replicas are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::OBJECTIVE)]
    pub objective: Option<String>,

    /// Saturation above which the target grows, in quotes; for Band, as the next three are. Raise it, and scaleDownAt, where the latency of an idle pool is already close
    /// to the promise.
    #[serde(default = "default_scale_up_at")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::SATURATION)]
    pub scale_up_at: String,

    /// Saturation below which the target shrinks, in quotes; below scaleUpAt.
    #[serde(default = "default_scale_down_at")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::SATURATION)]
    pub scale_down_at: String,

    /// Saturation counts for no more than this, in quotes; scaleUpAt or more. It keeps one spike from lasting.
    #[serde(default = "default_clamp")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::SATURATION)]
    pub clamp: String,

    /// The window over which saturation is averaged, such as 45s; 0s takes each reading by itself. Times when it is unknown do not
    /// count. Not used with saturationQuery.
    #[serde(default = "default_smoothing")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::SMOOTHING)]
    pub smoothing: String,

    /// PromQL for the quantile of the time to first token, in seconds, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    #[x_kube(validation = rules::QUERY)]
    pub ttft_query: Option<String>,

    /// PromQL for the quantile of the time per output token, in seconds, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    #[x_kube(validation = rules::QUERY)]
    pub tpot_query: Option<String>,

    /// PromQL for the saturation itself: a recording rule, for example. ttft and tpot are then not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    #[x_kube(validation = rules::QUERY)]
    pub saturation_query: Option<String>,
}

/// How the promise becomes a number of replicas.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// In proportion outside of a band, not at all within it.
    #[default]
    Band,
    /// In proportion to the arriving requests, with room for noise and growth.
    Headroom,
}

fn default_quantile() -> String {
    "0.9".into()
}

fn default_scale_up_at() -> String {
    "0.55".into()
}

fn default_scale_down_at() -> String {
    "0.40".into()
}

fn default_clamp() -> String {
    "2".into()
}

fn default_smoothing() -> String {
    "45s".into()
}

fn invalid(name: &str, rule: Rule) -> Invalid {
    let dot = if name.is_empty() { "" } else { "." };
    Invalid::new(format!("spec.slo{dot}{name}"), rule.message)
}

impl Slo {
    /// The source and what it asks for. `has_preset` says whether latencies may go without a query.
    pub(crate) fn parse(&self, has_preset: bool) -> Result<(engine::Source, Ask), Invalid> {
        let query = |name: &str, query: &Option<String>| {
            query.as_ref().map(|query| not_blank(format!("spec.slo.{name}"), query, rules::QUERY.message)).transpose()
        };
        let saturation = query("saturationQuery", &self.saturation_query)?;
        let ttft = latency("ttft", self.ttft.as_ref(), query("ttftQuery", &self.ttft_query)?)?;
        let tpot = latency("tpot", self.tpot.as_ref(), query("tpotQuery", &self.tpot_query)?)?;
        if saturation.is_some() && (self.ttft_query.is_some() || self.tpot_query.is_some()) {
            return Err(invalid("", rules::SLO_OVERRIDES));
        }
        if saturation.is_none() && ttft.is_none() && tpot.is_none() {
            return Err(invalid("", rules::SLO_SIGNAL));
        }
        let unreadable = |latency: &Option<LatencyAsk>| latency.as_ref().is_some_and(|latency| latency.query.is_none());
        if saturation.is_none() && !has_preset && (unreadable(&ttft) || unreadable(&tpot)) {
            return Err(invalid("", rules::SLO_QUERIES));
        }
        let quantile = decimal(&self.quantile).filter(|quantile| *quantile > 0.0 && *quantile < 1.0);
        let quantile = quantile.ok_or_else(|| invalid("quantile", rules::QUANTILE))?;
        let band = self.band(saturation.is_some())?;
        let law = match self.strategy {
            Strategy::Band => match self.profile.as_ref().or(self.objective.as_ref()) {
                Some(_) => return Err(invalid("", rules::HEADROOM_ALONE)),
                None => engine::Law::Band(band),
            },
            Strategy::Headroom => self.headroom(ttft.as_ref(), tpot.as_ref(), has_preset)?,
        };
        let source = engine::Source { name: SLO.into(), law, activation: engine::Activation::ANY_LOAD, required: false };
        Ok((source, Ask::Slo(SloAsk { quantile, ttft, tpot, saturation, up_at: band.up_at() })))
    }

    fn headroom(&self, ttft: Option<&LatencyAsk>, tpot: Option<&LatencyAsk>, has_preset: bool) -> Result<engine::Law, Invalid> {
        let (Some(ttft), Some(tpot)) = (ttft, tpot) else { return Err(invalid("", rules::HEADROOM_PROMISES)) };
        if !has_preset {
            return Err(Invalid::new("spec.preset", rules::HEADROOM_PRESET.message));
        }
        let objective = decimal(self.objective.as_deref().unwrap_or(DEFAULT_OBJECTIVE)).and_then(engine::Objective::new);
        let objective = objective.ok_or_else(|| invalid("objective", rules::OBJECTIVE))?;
        let profile = self.profile.as_deref();
        let costs = engine::Profile::named(profile.unwrap_or(engine::Profile::DEFAULT)).map(|profile| profile.costs);
        let costs = costs.ok_or_else(|| Invalid::new("spec.slo.profile", no_such_profile(profile.unwrap_or_default())))?;
        let (ttft, tpot) = (ttft.promised, tpot.promised);
        Ok(engine::Law::Headroom(engine::Headroom { ttft, tpot, objective, costs, profile_is_given: profile.is_some() }))
    }

    /// A saturation that comes as it is has been averaged already.
    fn band(&self, averaged: bool) -> Result<engine::Band, Invalid> {
        let mark = |name: &str, text: &str| decimal(text).and_then(engine::Target::new).ok_or_else(|| invalid(name, rules::SATURATION));
        let (up, down) = (mark("scaleUpAt", &self.scale_up_at)?, mark("scaleDownAt", &self.scale_down_at)?);
        let smoothing = duration(&self.smoothing).filter(|window| *window <= LONGEST_SMOOTHING);
        let smoothing = smoothing.ok_or_else(|| invalid("smoothing", rules::SMOOTHING))?;
        engine::Band::new(up, down, mark("clamp", &self.clamp)?, Some(smoothing).filter(|_| !averaged))
            .ok_or_else(|| invalid("", rules::SLO_ORDER))
    }
}

fn no_such_profile(given: &str) -> String {
    let names: Vec<&str> = engine::Profile::all().iter().map(|profile| profile.name.as_str()).collect();
    let meant = nearest(given, names.iter().copied()).map_or_else(String::new, |name| format!("; did you mean {name}?"));
    format!("must be {}, not {given:?}{meant}", listed(&names, "or"))
}

fn latency(name: &str, promised: Option<&String>, query: Option<String>) -> Result<Option<LatencyAsk>, Invalid> {
    let Some(promised) = promised else {
        return if query.is_some() { Err(invalid("", rules::SLO_PROMISED)) } else { Ok(None) };
    };
    let promised = duration(promised).and_then(|promised| engine::Target::new(promised.as_secs_f64()));
    Ok(Some(LatencyAsk { promised: promised.ok_or_else(|| invalid(name, rules::LATENCY))?, query }))
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::{Band, Headroom, Law, Profile, Target};
    use serde_json::{Value, json};

    use super::*;

    fn slo(slo: Value) -> Slo {
        serde_json::from_value(slo).unwrap()
    }

    fn parsed(given: Value) -> (Band, SloAsk) {
        let (source, ask) = slo(given).parse(true).unwrap();
        match (source.law, ask) {
            (Law::Band(band), Ask::Slo(ask)) => (band, ask),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_left_out_is_the_guides() {
        let (band, ask) = parsed(json!({"ttft": "3s", "tpot": "100ms"}));
        assert_eq!((band.up_at().get(), band.down_at().get(), band.clamp().get()), (0.55, 0.40, 2.0));
        assert_eq!(band.smoothing(), Some(Duration::from_secs(45)));
        let promised = |x| Some(LatencyAsk { promised: Target::new(x).unwrap(), query: None });
        let up_at = Target::new(0.55).unwrap();
        assert_eq!(ask, SloAsk { quantile: 0.9, ttft: promised(3.0), tpot: promised(0.1), saturation: None, up_at });
    }

    #[test]
    fn one_latency_is_enough() {
        assert_eq!(parsed(json!({"ttft": "3s"})).1.tpot, None);
        assert_eq!(parsed(json!({"tpot": "62.5ms"})).1.tpot.map(|tpot| tpot.promised.get()), Some(0.0625));
    }

    #[test]
    fn a_saturation_that_is_queried_is_not_averaged_again() {
        let (band, ask) = parsed(json!({"saturationQuery": "epp:saturation:smoothed"}));
        assert_eq!((band.smoothing(), ask.saturation.as_deref()), (None, Some("epp:saturation:smoothed")));
        assert_eq!(parsed(json!({"ttft": "3s", "smoothing": "0s"})).0.smoothing(), None);
    }

    #[test]
    fn without_a_preset_each_latency_needs_its_query() {
        for (given, has_preset, valid) in [
            (json!({"ttft": "3s", "tpot": "100ms", "ttftQuery": "q"}), false, false),
            (json!({"ttft": "3s", "tpot": "100ms", "ttftQuery": "q"}), true, true),
            (json!({"ttft": "3s", "ttftQuery": "q"}), false, true),
            (json!({"ttft": "3s", "saturationQuery": "q"}), false, true),
        ] {
            assert_eq!(slo(given.clone()).parse(has_preset).is_ok(), valid, "{given}");
        }
    }

    fn headroom(more: Value) -> Result<(Headroom, Ask), Invalid> {
        let mut given = json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (source, ask) = slo(given).parse(true)?;
        match source.law {
            Law::Headroom(headroom) => Ok((headroom, ask)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn headroom_takes_the_promises_and_stands_in_for_what_is_left_out() {
        let (law, ask) = headroom(json!({})).unwrap();
        assert_eq!((law.ttft.get(), law.tpot.get(), law.objective.get()), (3.0, 0.1, 0.99));
        assert_eq!((law.costs, law.profile_is_given), (Profile::named(Profile::DEFAULT).unwrap().costs, false));
        assert!(matches!(ask, Ask::Slo(SloAsk { saturation: None, .. })), "the latencies are asked for, to fall back to");
        for profile in Profile::all() {
            let (law, _) = headroom(json!({"profile": profile.name, "objective": " 0.995 "})).unwrap();
            assert_eq!((law.costs, law.profile_is_given, law.objective.get()), (profile.costs, true, 0.995));
        }
        let (_, ask) = headroom(json!({"saturationQuery": "s"})).unwrap();
        assert!(matches!(ask, Ask::Slo(SloAsk { saturation: Some(_), ttft: Some(_), .. })), "{ask:?}");
    }

    #[test]
    fn a_profile_of_another_version_is_named_with_its_likeness() {
        let refusal = headroom(json!({"profile": "qwen3-32b-h100"})).unwrap_err();
        assert_eq!(refusal.field, "spec.slo.profile");
        assert!(refusal.message.starts_with("must be qwen3-32b-h100-tp2, llama-3.1-8b-h100, "), "{refusal}");
        assert!(refusal.message.ends_with("not \"qwen3-32b-h100\"; did you mean qwen3-32b-h100-tp2?"), "{refusal}");
        assert!(headroom(json!({"profile": "mixtral"})).unwrap_err().message.ends_with("not \"mixtral\""));
    }
}
