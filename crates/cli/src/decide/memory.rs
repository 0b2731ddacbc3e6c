//! What is remembered before the first tick.

use llmscaler_api::Invalid;
use llmscaler_engine::{HeadroomState, Measurement, Memory, Recommendation, SaturationSample, ScaleEvent};
use serde::Deserialize;

use super::node::Node;

/// Reads a memory, as the answer to an earlier document has it or written by hand. Lists may come in any order.
pub fn read(node: &Node<'_>) -> Result<Memory, Invalid> {
    let fields = node.fields(&["workload", "recommendations", "scaleEvents", "lastActiveAt", "failures", "saturation", "headroom"])?;
    let recommendations = fields.get("recommendations").map(|node| node.list()?.map(|node| recommendation(&node)).collect());
    let scale_events: Option<Result<_, _>> = fields.get("scaleEvents").map(|node| node.list()?.map(|node| scale_event(&node)).collect());
    let failures: Option<Result<_, _>> = fields.get("failures").map(|node| {
        node.entries()?.map(|(name, node)| Ok((name.to_owned(), u32::try_from(node.integer(0, u32::MAX.into())?).unwrap_or(0)))).collect()
    });
    let saturation: Option<Result<Vec<_>, _>> = fields.get("saturation").map(|node| node.list()?.map(|node| sample(&node)).collect());
    let mut saturation = saturation.transpose()?.unwrap_or_default();
    saturation.sort_by_key(|sample| sample.at);
    Ok(Memory {
        workload: fields.get("workload").map(|node| node.text().map(str::to_owned)).transpose()?,
        recommendations: recommendations.transpose()?,
        scale_events: scale_events.transpose()?.unwrap_or_default(),
        last_active_at: fields.get("lastActiveAt").map(|node| node.time()).transpose()?,
        failures: failures.transpose()?.unwrap_or_default(),
        saturation,
        headroom: fields.get("headroom").map(|node| learned(&node)).transpose()?,
    })
}

/// What the headroom law has learned. Nobody writes it by hand.
fn learned(node: &Node<'_>) -> Result<Box<HeadroomState>, Invalid> {
    HeadroomState::deserialize(node.value()).map(Box::new).map_err(|error| {
        node.invalid(format!("is not what an answer has there: {error}; copy memory.headroom of an answer as a whole, or leave it out"))
    })
}

fn recommendation(node: &Node<'_>) -> Result<Recommendation, Invalid> {
    let fields = node.fields(&["at", "replicas"])?;
    Ok(Recommendation {
        at: fields.need("at", "write the time of the sync in seconds")?.time()?,
        replicas: fields.need("replicas", "write the count of that sync")?.count()?,
    })
}

fn scale_event(node: &Node<'_>) -> Result<ScaleEvent, Invalid> {
    let fields = node.fields(&["at", "change"])?;
    let most = i64::from(i32::MAX);
    let change = fields.need("change", "write the new count less the old one")?.integer(-most, most)?;
    Ok(ScaleEvent { at: fields.need("at", "write the time of the write in seconds")?.time()?, change: i32::try_from(change).unwrap_or(0) })
}

fn sample(node: &Node<'_>) -> Result<SaturationSample, Invalid> {
    let fields = node.fields(&["at", "value"])?;
    let value = fields.need("value", "write the saturation of that sync, as a multiple of what was promised")?;
    Ok(SaturationSample {
        at: fields.need("at", "write the time of the sync in seconds")?.time()?,
        value: Measurement::new(value.number()?).ok_or_else(|| value.invalid("must be a finite number of at least 0"))?,
    })
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::{Replicas, Time};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_answer_has_is_accepted() {
        let memory = Memory {
            workload: Some("uid".to_owned()),
            recommendations: Some(vec![Recommendation { at: Time::from_millis(-1500), replicas: Replicas::new(3) }]),
            scale_events: vec![ScaleEvent { at: Time::default(), change: -2 }],
            last_active_at: Some(Time::from_millis(5000)),
            failures: [("kv".to_owned(), 2)].into(),
            saturation: vec![SaturationSample { at: Time::from_millis(-15_000), value: Measurement::new(0.5).unwrap() }],
            headroom: None,
        };
        for memory in [memory, Memory::default()] {
            let written = serde_json::to_value(&memory).unwrap();
            assert_eq!(read(&Node::root(&written)).unwrap(), memory);
        }
        assert_eq!(read(&Node::root(&json!({}))).unwrap(), Memory::default());
        assert_eq!(read(&Node::root(&json!({"recommendations": []}))).unwrap().recommendations, Some(vec![]), "known to be empty");
    }
}
