//! The tokens that KV caches hold, from series by target.

use std::collections::BTreeMap;

use llmscaler_engine::Measurement;

use crate::prometheus::{Series, number};

/// The label that states the number of KV blocks of an engine.
pub(crate) const BLOCKS: &str = "num_gpu_blocks";

/// The label that states the tokens of a block.
pub(crate) const BLOCK_SIZE: &str = "block_size";

/// Blocks × block size, as labels have them.
pub(crate) fn tokens_of(blocks: &str, size: &str) -> Option<f64> {
    Some(number::parse(blocks)? * number::parse(size)?).filter(|tokens| tokens.is_finite() && *tokens > 0.0)
}

/// The tokens of the mean replica, and those in use, from the shares in use and the sizes of targets. A target whose size is not
/// known is taken to be like the mean one.
pub(super) fn tokens(usage: &[Series], sizes: &[Series]) -> (Option<Measurement>, Option<Measurement>) {
    let (mut replicas, mut targets) = (BTreeMap::new(), BTreeMap::new());
    for series in sizes {
        let Some(tokens) = size_of(series) else { continue };
        *replicas.entry(replica_of(series)).or_insert(0.0) += tokens;
        *targets.entry(target_of(series)).or_insert(0.0) += tokens;
    }
    let mean_target = mean(&targets);
    let used = usage.iter().map(|series| series.value * targets.get(&target_of(series)).copied().unwrap_or(mean_target));
    (Measurement::new(mean(&replicas)), used.reduce(|sum, tokens| sum + tokens).and_then(Measurement::new))
}

/// NaN of none, which is no measurement.
fn mean<K>(of: &BTreeMap<K, f64>) -> f64 {
    of.values().sum::<f64>() / of.len() as f64
}

/// What is scraped as one.
fn target_of(series: &Series) -> [Option<&str>; 2] {
    ["instance", "pod"].map(|label| series.labels.get(label).map(String::as_str))
}

/// The pod, or the host of the target where pods are not labelled.
fn replica_of(series: &Series) -> &str {
    match target_of(series) {
        [_, Some(pod)] if !pod.is_empty() => pod,
        [instance, _] => instance.map(|instance| instance.rsplit_once(':').map_or(instance, |(host, _)| host)).unwrap_or_default(),
    }
}

/// Blocks × block size where the labels say so, else the value.
fn size_of(series: &Series) -> Option<f64> {
    let label = |name| series.labels.get(name).map(String::as_str);
    match (label(BLOCKS), label(BLOCK_SIZE)) {
        (None, None) => Some(series.value).filter(|tokens| tokens.is_finite() && *tokens > 0.0),
        (blocks, size) => tokens_of(blocks?, size?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)], value: f64) -> Series {
        Series { labels: labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(), value }
    }

    fn measured(value: f64) -> Option<Measurement> {
        Measurement::new(value)
    }

    #[test]
    fn replicas_are_sized_by_their_engines_and_used_by_their_targets() {
        let config = |pod, instance, engine, blocks| {
            series(&[("pod", pod), ("instance", instance), ("engine", engine), (BLOCKS, blocks), (BLOCK_SIZE, "16")], 1.0)
        };
        // a has two engines on one port, b one on each of two ports, c one; of d nothing is known but its use.
        let sizes = [
            config("a", "1:80", "0", "100"),
            config("a", "1:80", "1", "100"),
            config("b", "2:80", "0", "100"),
            config("b", "2:81", "0", "50"),
            config("c", "3:80", "0", "250"),
            config("d", "4:80", "0", "None"),
        ];
        let use_of = |pod, instance, share| series(&[("pod", pod), ("instance", instance)], share);
        let usage = [
            use_of("a", "1:80", 0.5),
            use_of("b", "2:80", 0.5),
            use_of("b", "2:81", 1.0),
            use_of("c", "3:80", 0.1),
            use_of("d", "4:80", 0.2),
        ];
        // (3200 + 2400 + 4000) ÷ 3; 1600 + 800 + 800 + 400, and a fifth of the mean target, (3200 + 1600 + 800 + 4000) ÷ 4.
        assert_eq!(tokens(&usage, &sizes), (measured(3200.0), measured(1600.0 + 800.0 + 800.0 + 400.0 + 480.0)));
    }

    #[test]
    fn without_sizes_nothing_is_known() {
        let usage = [series(&[("pod", "a")], 0.5)];
        assert_eq!(tokens(&usage, &[]), (None, None));
        assert_eq!(tokens(&[], &[series(&[("pod", "a")], 1000.0)]), (measured(1000.0), None));
        for bad in [f64::NAN, f64::INFINITY, 0.0, -5.0] {
            assert_eq!(tokens(&usage, &[series(&[("pod", "a")], bad)]), (None, None), "{bad}");
        }
        assert_eq!(tokens(&[series(&[("pod", "a")], f64::NAN)], &[series(&[("pod", "a")], 1000.0)]), (measured(1000.0), None));
        assert_eq!(tokens(&usage, &[series(&[("pod", "a"), (BLOCKS, "10")], 1.0)]), (None, None), "half of the labels is none");
    }

    #[test]
    fn a_target_without_a_pod_is_told_by_its_host() {
        let sizes = [series(&[("instance", "10.0.0.1:8000")], 1000.0), series(&[("instance", "10.0.0.1:8001")], 1000.0)];
        let usage = [series(&[("instance", "10.0.0.1:8000")], 0.5), series(&[("instance", "10.0.0.1:8001")], 0.25)];
        assert_eq!(tokens(&usage, &sizes), (measured(2000.0), measured(750.0)));
    }
}
