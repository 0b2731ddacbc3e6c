//! The `HorizontalPodAutoscaler`, autoscaling/v2.

use llmscaler_api::{Invalid, Metric, MetricType};
use serde_json::Value;

use super::behavior::behavior;
use super::draft::Spec;
use super::ledger::Node;
use super::outcome::{Made, annotations, target};

/// What WVA and its forerunner publish for an HPA to carry out.
const OF_WVA: [&str; 2] = ["wva_desired_replicas", "inferno_desired_replicas"];

/// The scaler that does what an HPA does, asking the Prometheus at `server` itself.
pub fn autoscaler(root: &Node<'_>, server: Option<&str>, namespace: Option<&str>) -> Result<Made, Invalid> {
    annotations(root);
    let spec = root.need("spec")?;
    let target = target(&spec)?;
    let max = spec.need("maxReplicas")?;
    max.carried("maxReplicas");
    let min = spec.get("minReplicas").inspect(|min| min.carried("minReplicas")).map(|min| min.replicas(0)).transpose()?.unwrap_or(1);
    let bounds = (min, max.replicas(1)?);
    if bounds.0 > bounds.1 {
        return Err(max.invalid(&format!("must not be below minReplicas, and is {} where that is {min}", bounds.1)));
    }
    let behavior_node = spec.get("behavior");
    let mut made = Spec::new(target, bounds, behavior(behavior_node.as_ref(), true)?);
    let Some(metrics) = spec.get("metrics") else { return Ok(Made::none(format!("without metrics it scales on CPU, {NOT_CPU}"))) };
    for node in metrics.items() {
        let made_of_it = metric(&node, made.metrics.len(), namespace)?;
        made.metrics.extend(made_of_it);
    }
    if made.metrics.is_empty() {
        return Ok(Made::none("none of its metrics can be carried"));
    }
    let Some(server) = server else {
        return Ok(Made::none("it names a metric of an adapter and no Prometheus: say which one has it with --server-address URL"));
    };
    made.server_address = Some(server.to_owned());
    let mut differences = vec![
        "The HPA asks an adapter for its metrics, and the adapter's rules say which query that is. The queries here are made of names and \
         selectors: compare them with the rules, the namespace and the aggregation above all."
            .to_owned(),
        format!(
            "spec.replicas: 0 pauses an HPA. Here minReplicas {min} is kept up{}.",
            if min == 0 { ", and a metric above its activation wakes the fleet" } else { "" }
        ),
    ];
    if behavior_node.is_none() {
        differences.push(
            "Without a behavior an HPA at most doubles the fleet, or takes it to 4, at each sync. The written behavior doubles it or adds 4 \
             within 15 s; a small fleet may grow a little faster."
                .to_owned(),
        );
    }
    Ok(Made::scaler(made, differences))
}

const NOT_CPU: &str = "which says little of an LLM engine and is not read: scale on requests or on the KV cache";

fn metric(node: &Node<'_>, index: usize, namespace: Option<&str>) -> Result<Option<Metric>, Invalid> {
    let kind = node.need("type")?;
    let (source, object) = match kind.text()?.as_str() {
        "External" => (node.need("external")?, None),
        "Object" => {
            let source = node.need("object")?;
            let described = source.need("describedObject")?;
            (source, Some(described))
        }
        "Pods" => {
            node.lost("a metric is one number for the fleet: write a query of the mean over the pods, with metricType: Value");
            return Ok(None);
        }
        "Resource" | "ContainerResource" => {
            node.lost(format!("it is the use of a resource, {NOT_CPU}"));
            return Ok(None);
        }
        _ => return Err(kind.invalid("must be External, Object, Pods, Resource or ContainerResource")),
    };
    let metric = source.need("metric")?;
    let name = metric.need("name")?;
    if name.text()?.is_empty() {
        return Err(name.invalid("must not be empty"));
    }
    if OF_WVA.contains(&name.text()?.as_str()) {
        node.lost("it carries out what WVA decides: migrate the VariantAutoscaling, and delete both");
        return Ok(None);
    }
    let to = format!("metrics[{index}]");
    kind.left("a metric is what its query says");
    name.carried(format!("{to}.query"));
    let mut matchers: Vec<Matcher> = vec![];
    if let Some(object) = object {
        let (kind, object_name) = (object.need("kind")?, object.need("name")?);
        matchers.extend(namespace.map(|namespace| ("namespace".to_owned(), format!("={}", quoted(namespace)))));
        matchers.push((kind.text()?.to_lowercase(), format!("={}", quoted(&object_name.text()?))));
        [&kind, &object_name].iter().for_each(|field| field.carried(format!("{to}.query")));
        object.get("apiVersion").iter().for_each(|version| version.left("an adapter's labels name the kind alone"));
    }
    matchers.extend(metric.get("selector").map(|selector| selected(&selector, &to)).transpose()?.unwrap_or_default());
    if let Some((label, _)) = matchers.iter().find(|(label, _)| !is_label(label)) {
        // Without the matcher the query would be about more than the metric is.
        node.lost(format!(
            "no series of Prometheus 2 has a label {label:?}, and what the adapter makes of it is in its rules: write the query, with the \
             label as the series have it, such as {}",
            label.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
        ));
        return Ok(None);
    }
    let (metric_type, target) = aim(&source.need("target")?, &to)?;
    Ok(Some(Metric {
        name: Some(name.text()?),
        query: Some(query(&name.text()?, &matchers)),
        signal: None,
        target,
        metric_type,
        activation: "0".to_owned(),
        // One metric that fails stops every scale-down of an HPA.
        required: true,
    }))
}

/// A label, and what its value must be, as PromQL.
type Matcher = (String, String);

/// Whether every Prometheus takes this for a label where it stands unquoted.
fn is_label(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The sum of all series, as the HPA makes it.
fn query(name: &str, matchers: &[Matcher]) -> String {
    let plain =
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':')) && !name.starts_with(|c: char| c.is_ascii_digit());
    let named = (!plain).then(|| ("__name__".to_owned(), format!("={}", quoted(name))));
    let matchers: Vec<String> = named.iter().chain(matchers).map(|(label, value)| format!("{label}{value}")).collect();
    let braces = if matchers.is_empty() { String::new() } else { format!("{{{}}}", matchers.join(",")) };
    format!("sum({}{braces})", if plain { name } else { "" })
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The matchers of a label selector.
fn selected(selector: &Node<'_>, to: &str) -> Result<Vec<Matcher>, Invalid> {
    let mut matchers = vec![];
    for (label, value) in selector.get("matchLabels").map(|labels| labels.members()).unwrap_or_default() {
        value.carried(format!("{to}.query"));
        matchers.push((label.to_owned(), format!("={}", quoted(&value.text()?))));
    }
    for expression in selector.get("matchExpressions").map(|list| list.items()).unwrap_or_default() {
        let (key, operator) = (expression.need("key")?, expression.need("operator")?);
        let values = expression.get("values").map(|values| values.items()).unwrap_or_default();
        let any = values.iter().map(|value| value.text().map(|value| literal(&value))).collect::<Result<Vec<_>, _>>()?.join("|");
        let matcher = match operator.text()?.as_str() {
            "In" => format!("=~{}", quoted(&any)),
            "NotIn" => format!("!~{}", quoted(&any)),
            "Exists" => "!=\"\"".to_owned(),
            "DoesNotExist" => "=\"\"".to_owned(),
            _ => return Err(operator.invalid("must be In, NotIn, Exists or DoesNotExist")),
        };
        matchers.push((key.text()?, matcher));
        [key, operator].iter().chain(&values).for_each(|field| field.carried(format!("{to}.query")));
    }
    Ok(matchers)
}

/// A text that means itself in a regular expression.
fn literal(text: &str) -> String {
    text.chars()
        .flat_map(|c| c.is_ascii_punctuation().then_some('\\').filter(|_| !matches!(c, '-' | '_' | '/')).into_iter().chain([c]))
        .collect()
}

/// How a metric is read, and what it is held against. With both given the HPA takes the average.
fn aim(node: &Node<'_>, to: &str) -> Result<(MetricType, String), Invalid> {
    node.get("type").iter().for_each(|kind| kind.carried(format!("{to}.metricType")));
    let (average, value) = (node.get("averageValue"), node.get("value"));
    let (metric_type, chosen) = match (&average, &value) {
        (Some(average), value) => {
            value.iter().for_each(|value| value.left("averageValue goes before it"));
            (MetricType::AverageValue, average)
        }
        (None, Some(value)) => (MetricType::Value, value),
        (None, None) => return Err(node.invalid("must have value or averageValue")),
    };
    chosen.carried(format!("{to}.target"));
    let text = chosen.text()?;
    let number = quantity(&text).ok_or_else(|| chosen.invalid("must be a quantity, such as 16 or 500m"))?;
    Ok((metric_type, number.to_string()))
}

/// A Kubernetes quantity as a number.
fn quantity(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 12] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let (digits, factor) = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor))).unwrap_or((text, 1.0));
    let number: f64 = digits.parse().ok()?;
    // Division is exact where the factor itself has no exact double.
    let number = if factor < 1.0 { number / (1.0 / factor).round() } else { number * factor };
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use llmscaler_signals::lint::{Finding, lint};
    use serde_json::json;

    use super::*;
    use crate::migrate::ledger::{Fate, Ledger};

    /// What becomes of an external metric with this selector: its query, and whether it is lost.
    fn selecting(selector: &Value) -> (Option<String>, bool) {
        let node = json!({"type": "External", "external": {
            "metric": {"name": "queue", "selector": selector}, "target": {"type": "Value", "value": "5"}}});
        let ledger = Ledger::default();
        let made = metric(&Node::root(&node, &ledger), 0, None).unwrap();
        let lost = ledger.close(&node).iter().any(|entry| matches!(&entry.fate, Fate::Lost(why) if why.contains("write the query")));
        (made.and_then(|metric| metric.query), lost)
    }

    #[test]
    fn a_query_is_made_only_of_labels_that_every_prometheus_has() {
        for name in ["pool", "_pool", "model_name", "a1"] {
            for selector in [
                json!({"matchLabels": {name: "a.b\"\\\n{}é"}}),
                json!({"matchExpressions": [{"key": name, "operator": "In", "values": ["a.b|c", "d\"\\"]}]}),
                json!({"matchExpressions": [{"key": name, "operator": "Exists"}]}),
            ] {
                let (query, lost) = selecting(&selector);
                let query = query.unwrap();
                assert!(!lost && !lint(&query).iter().any(Finding::unreadable), "{query}");
            }
        }
        for name in ["app.kubernetes.io/name", "pod-hash", "1a", "", "é", "a=\"\"}) or vector(1) #"] {
            for selector in [json!({"matchLabels": {name: "v"}}), json!({"matchExpressions": [{"key": name, "operator": "Exists"}]})] {
                assert_eq!(selecting(&selector), (None, true), "{name}");
            }
        }
    }

    #[test]
    fn quantities_are_numbers() {
        for (text, number) in
            [("16", 16.0), ("500m", 0.5), ("1500m", 1.5), ("700m", 0.7), ("2k", 2000.0), ("1Ki", 1024.0), ("1e3", 1000.0), ("0.7", 0.7)]
        {
            assert_eq!(quantity(text), Some(number), "{text}");
        }
        for text in ["", "m", "10%", "1 m", "x"] {
            assert_eq!(quantity(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_query_is_the_sum_of_the_series() {
        assert_eq!(query("queue", &[]), "sum(queue)");
        let matchers = [("a".to_owned(), "=\"b\"".to_owned())];
        assert_eq!(query("queue", &matchers), "sum(queue{a=\"b\"})");
        assert_eq!(query("s0-queue", &matchers), "sum({__name__=\"s0-queue\",a=\"b\"})");
        assert_eq!(literal("a.b-c/d|e"), "a\\.b-c/d\\|e");
    }
}
