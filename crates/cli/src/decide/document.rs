//! The document that `decide` reads: a scaler, what is remembered, and what is seen at each tick.

use std::time::Duration;

use llmscaler_api::{Invalid, Scaler, parse_json};
use llmscaler_engine::{Memory, Pod, Replicas, Time, Warmth, Workload};
use serde_json::Value;

use super::fleet::Fleet;
use super::memory;
use super::node::Node;
use super::readings::{Readings, Said};
use super::target;

/// A document without faults.
#[derive(Debug)]
pub struct Document {
    pub scaler: Scaler,
    pub memory: Memory,
    /// The fleet for ticks without a target; they all have one when this is absent.
    pub fleet: Option<Fleet>,
    pub ticks: Vec<Tick>,
}

/// What is seen at one sync.
#[derive(Debug)]
pub struct Tick {
    pub at: Time,
    /// The target as shown, or `None` for the fleet that follows what is written.
    pub target: Option<Workload>,
    pub said: Said,
    pub warmth: Warmth,
}

/// A document from YAML or JSON text.
pub fn parse(text: &str) -> Result<Document, Invalid> {
    read(&value(text)?)
}

/// What YAML or JSON text says.
pub fn value(text: &str) -> Result<Value, Invalid> {
    serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|error| unreadable(&error))
}

/// What the documents of a YAML stream say.
pub fn values(text: &str) -> Result<Vec<Value>, Invalid> {
    serde_saphyr::from_multiple_with_options(text, yaml_options()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_saphyr::Error) -> Invalid {
    Invalid {
        field: String::new(),
        message: format!("cannot be read as YAML or JSON: {}", error.render_with_formatter(&serde_saphyr::UserMessageFormatter)),
    }
}

/// YAML 1.2 without the old readings of `on`, `0755` and `1_000`, which stay texts and are refused where a number is needed.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString,
        // Room for a day of ticks at one a second.
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_total_scalar_bytes: 512 * 1024 * 1024,
        },
    }
}

fn read(document: &Value) -> Result<Document, Invalid> {
    let fields = Node::root(document).fields(&["scaler", "workload", "memory", "ticks"])?;
    let scaler = fields.need("scaler", "write the LLMScaler there, with apiVersion, kind, metadata and spec")?;
    let scaler = parse_json(scaler.value().clone()).and_then(|resource| resource.parse()).map_err(|invalid| match invalid {
        Invalid { field, message } if field.is_empty() => scaler.invalid(message),
        invalid => invalid,
    })?;
    let memory = fields.get("memory").map(|node| memory::read(&node)).transpose()?.unwrap_or_default();
    let fleet = fields.get("workload").map(|node| fleet(&node)).transpose()?;

    let list = fields.need("ticks", "write what is seen at each sync, at least once")?;
    let readings = Readings::of(&scaler);
    let mut ticks: Vec<Tick> = Vec::new();
    for node in list.list()? {
        ticks.push(tick(&node, &readings, fleet.is_some(), ticks.last())?);
    }
    if matches!(scaler.target.kind.as_str(), "StatefulSet" | "LeaderWorkerSet") {
        // These remove the highest ordinal first.
        for pod in ticks.iter_mut().filter_map(|tick| tick.target.as_mut()).flat_map(|target| &mut target.pods) {
            pod.ordinal = Pod::ordinal_in(&pod.name);
        }
    }
    if ticks.is_empty() {
        return Err(list.invalid("is empty; write what is seen at a sync, such as - {at: 0, target: {replicas: 4}, readings: {…}}"));
    }
    Ok(Document { scaler, memory, fleet, ticks })
}

fn fleet(node: &Node<'_>) -> Result<Fleet, Invalid> {
    let fields = node.fields(&["replicas", "warmupSeconds"])?;
    let replicas: Replicas = fields.need("replicas", "write the size of the fleet at the first tick")?.count()?;
    let warmup = fields.get("warmupSeconds").map(|node| node.duration()).transpose()?.unwrap_or(Duration::ZERO);
    Ok(Fleet::ready(replicas, warmup))
}

fn tick(node: &Node<'_>, readings: &Readings<'_>, followed: bool, before: Option<&Tick>) -> Result<Tick, Invalid> {
    let fields = node.fields(&["at", "target", "readings", "deletionCosts"])?;
    let at_node = fields.need("at", "write the time of the sync in seconds")?;
    let at = at_node.time()?;
    if let Some(before) = before.filter(|before| before.at > at) {
        return Err(at_node.invalid(format!(
            "is {}, before the {} of the tick above; write ticks in the order of time",
            at.as_seconds(),
            before.at.as_seconds()
        )));
    }
    let target = fields.get("target").map(|node| target::read(&node)).transpose()?;
    if target.is_none() && !followed {
        let why = "there is no fleet to decide about: write target: {replicas: …} here, or workload: {replicas: …} beside ticks for a \
                   fleet that follows what is written";
        return Err(node.invalid(why));
    }
    let warmth = warmth(fields.get("deletionCosts"))?;
    Ok(Tick {
        at,
        target,
        said: readings.read(fields.get("readings"))?,
        warmth: if readings.ranks_pods() { warmth } else { Warmth::NotAsked },
    })
}

/// Samples that are not finite rank nothing and are left out, as the operator does.
fn warmth(node: Option<Node<'_>>) -> Result<Warmth, Invalid> {
    let Some(node) = node else { return Ok(Warmth::NotAsked) };
    let samples: Result<Vec<_>, _> = node.entries()?.map(|(pod, sample)| Ok((pod.to_owned(), sample.number()?))).collect();
    Ok(Warmth::Samples(samples?.into_iter().filter(|(_, sample)| sample.is_finite()).collect()))
}
