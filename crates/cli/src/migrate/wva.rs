//! The `VariantAutoscaling` of llm-d's Workload Variant Autoscaler.

use std::collections::BTreeMap;

use llmscaler_api::{Invalid, Metric, MetricProvider, MetricType, Preset, PresetName, Signal};

use super::behavior::behavior;
use super::draft::Spec;
use super::ledger::Node;
use super::outcome::{Made, annotations, target};

/// A replica is saturated at a share of 0.80 of its KV cache, and the fleet grows when the mean share left is below 0.10.
const KV_CACHE: &str = "0.7";
/// A replica is saturated with 5 waiting requests, and the fleet grows when the mean number left is below 3.
const QUEUED: &str = "2";
/// The bounds of the last version.
const BOUNDS: (i32, i32) = (1, 2);

const NO_VARIANTS: &str = "each target is scaled by itself: there are no variants that are weighed against each other by cost";
const NO_MODEL: &str =
    "nothing is modelled by these numbers. strategy Headroom of slo learns what a replica can do; slo.profile gives it a start";

/// A scaler in the place of a variant, with the marks of WVA's saturation analyzer.
pub fn variant(root: &Node<'_>, server: Option<&str>) -> Result<Made, Invalid> {
    annotations(root);
    let spec = root.need("spec")?;
    if spec.get("scaleTargetRef").is_none() {
        return Ok(Made::none("it names no scaleTargetRef: add the Deployment that it stands for"));
    }
    let target = target(&spec)?;
    let bound = |name: &str, default: i32, least: i32| match spec.get(name) {
        Some(field) => {
            field.carried(name);
            field.replicas(least)
        }
        None => Ok(default),
    };
    let bounds = (bound("minReplicas", BOUNDS.0, 0)?, bound("maxReplicas", BOUNDS.1, 1)?);
    let mut made = Spec::new(target, bounds, behavior(None, true)?);
    let model = spec.need("modelID")?;
    let mut match_labels = BTreeMap::new();
    match server {
        Some(server) => {
            made.server_address = Some(server.to_owned());
            model.carried("preset.matchLabels.model_name");
            match_labels.insert("model_name".to_owned(), model.text()?);
        }
        None => {
            made.metric_provider = Some(MetricProvider::Scrape);
            model.left("the pods of the target are read, whatever model they serve");
        }
    }
    made.preset = Some(Preset { name: PresetName::Vllm, match_labels });
    made.metrics = [("kv", Signal::KvCacheUsage, KV_CACHE), ("queue", Signal::QueuedRequests, QUEUED)]
        .map(|(name, signal, target)| Metric {
            name: Some(name.to_owned()),
            query: None,
            signal: Some(signal),
            target: target.to_owned(),
            metric_type: MetricType::Value,
            activation: "0".to_owned(),
            required: false,
        })
        .to_vec();
    for (name, why) in [
        ("variantCost", NO_VARIANTS),
        ("variantID", NO_VARIANTS),
        ("accelerator", NO_VARIANTS),
        ("acceleratorCount", NO_VARIANTS),
        ("variantProfile", NO_MODEL),
        ("sloClassRef", "write the promises of that class in slo.ttft and slo.tpot"),
    ] {
        spec.get(name).iter().for_each(|field| field.lost(why));
    }
    let mut differences = vec![
        format!(
            "WVA adds one replica when the mean KV cache left below 0.80 is less than 0.10, or the mean queue left below 5 less than 3. The \
             scaler keeps the same means at {KV_CACHE} and {QUEUED} a replica, and takes as many steps at once as that asks for. Its token \
             and throughput analyzers have no counterpart; slo with strategy Headroom does that work."
        ),
        "WVA publishes a count that an HPA or a ScaledObject carries out, with a behavior of its own: take that behavior over by hand. The \
         one written here has the HPA's defaults."
            .to_owned(),
    ];
    if made.metric_provider.is_some() {
        differences.push(
            "The pods are read directly on port 8000: change scrape.port if vLLM listens elsewhere. With --server-address URL a Prometheus \
             is asked instead."
                .to_owned(),
        );
    }
    Ok(Made::scaler(made, differences))
}
