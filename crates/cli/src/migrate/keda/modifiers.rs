//! KEDA's scaling modifiers: the SLO law is known, another formula is not.

use llmscaler_api::{Invalid, TargetReference};

use super::trigger::Trigger;
use crate::migrate::draft::Band;
use crate::migrate::formula;
use crate::migrate::ledger::Node;

/// How the triggers become a count.
pub enum Law {
    /// Each by itself, the largest wins.
    Metrics,
    /// A band of saturation.
    Band(Band),
    /// In a way that has no counterpart, and why.
    Unknown(String),
}

/// What the signal of the law is capped at where the rules that record it do so.
const CLAMP: &str = "2";

const ANOTHER: &str = "its scalingModifiers.formula has no counterpart: write it as PromQL, as the query of one metric with the target and the \
                       metricType of the formula";

/// The law of a `ScaledObject`; accounts for its scaling modifiers.
pub fn law(spec: &Node<'_>, target: &TargetReference, triggers: &[Trigger<'_>]) -> Result<Law, Invalid> {
    let Some(modifiers) = spec.at(&["advanced", "scalingModifiers"]) else { return Ok(Law::Metrics) };
    let Some(formula) = modifiers.get("formula") else { return Ok(Law::Metrics) };
    let passes = modifiers.get("target").map(|target| target.text()).transpose()?.and_then(|target| target.parse().ok()) == Some(1.0);
    let average = modifiers.get("metricType").map(|kind| kind.text()).transpose()?.is_none_or(|kind| kind == "AverageValue");
    let named = |name: &str| triggers.iter().find(|trigger| trigger.name.as_deref() == Some(name));
    let band = formula::band(&formula.text()?).filter(|_| passes && average);
    let Some((band, saturation)) = band.and_then(|band| named(&band.saturation).map(|trigger| (band.clone(), trigger))) else {
        modifiers.lost(ANOTHER);
        return Ok(Law::Unknown(ANOTHER.to_owned()));
    };
    formula.carried("slo.scaleUpAt, slo.scaleDownAt");
    for field in ["target", "metricType"].iter().filter_map(|name| modifiers.get(name)) {
        field.left("the formula is the count itself, as the SLO law's is");
    }
    if let Some(activation) = modifiers.get("activationTarget") {
        activation.lost("an SLO is active unless its pool is idle");
    }
    for trigger in triggers {
        trigger.node.get("name").iter().for_each(|name| name.left("the formula's name for it"));
        trigger.node.get("metricType").iter().for_each(|kind| kind.left("of no effect beside a formula"));
        // The field by which a trigger alone would scale is without effect beside a formula.
        for field in ["threshold", "activationThreshold", "ignoreNullValues"].iter().filter_map(|name| trigger.node.at(&["metadata", name]))
        {
            field.left("of no effect beside a formula");
        }
    }
    saturation.node.at(&["metadata", "query"]).iter().for_each(|query| query.carried("slo.saturationQuery"));
    for (name, series) in [(&band.replicas, "status_replicas{"), (&band.ready, "status_replicas_ready{")] {
        for query in named(name).iter().filter_map(|trigger| trigger.node.at(&["metadata", "query"])) {
            let counts_target = query.text()?.contains(series) && query.text()?.contains(&format!("\"{}\"", target.name));
            if counts_target {
                query.left("the operator reads the size of the target from the target itself");
            } else {
                query.lost("the operator reads the size of the target from the target itself, and this is another number");
            }
        }
    }
    Ok(Law::Band(Band {
        saturation_query: saturation.metric.query.clone().unwrap_or_default(),
        scale_up_at: band.up_at.to_string(),
        scale_down_at: band.down_at.to_string(),
        clamp: if band.up_at > 2.0 { band.up_at.to_string() } else { CLAMP.to_owned() },
    }))
}

/// What the law does differently here.
pub fn differences(band: &Band, max: i32) -> Vec<String> {
    let mut all = vec![
        format!(
            "The formula may shrink a fleet in the middle of a scale-up: with saturation × ready ÷ replicas below {} it gives less than \
             there are. Here a saturation above {0} never asks for less.",
            band.scale_up_at
        ),
        format!("A saturation counts for at most {}, in slo.clamp; raise it if the rule that records the signal allows more.", band.clamp),
        "A recording rule that ends in `or vector(0)` turns a scrape that failed into an idle pool, for KEDA and here. With a preset and \
         slo.ttft and slo.tpot instead of slo.saturationQuery, missing data is unknown and shrinks nothing, and there is no rule to keep."
            .to_owned(),
    ];
    if max > 10 {
        all.push(
            "The HPA applies its tolerance to the formula's count, so that above 10 replicas it ignores a change by one. Here the band alone \
             decides."
                .to_owned(),
        );
    }
    all
}
