//! Tables as `kubectl get` asks for them.

use jiff::Timestamp;
use jsonpath_rust::JsonPath as _;
use serde_json::{Value, json};

use crate::object::{self, list, number, text};
use crate::resources::Resource;

/// The columns of every resource.
pub(crate) struct Tables {
    /// Those of the custom resource: name, type, JSON path.
    custom: Vec<(String, String, String)>,
}

/// A column of a built-in kind. One of priority 1 is for `-o wide`.
struct Column {
    name: &'static str,
    priority: u8,
    cell: fn(&Value, Timestamp) -> Value,
}

fn column(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column { name, priority: 0, cell }
}

fn wide(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column { name, priority: 1, cell }
}

impl Tables {
    pub(crate) fn of(definition: &Value) -> Self {
        let columns = list(definition, "/spec/versions/0/additionalPrinterColumns");
        let text = |column: &Value, name: &str| column[name].as_str().unwrap_or_default().to_owned();
        Self { custom: columns.iter().map(|c| (text(c, "name"), text(c, "type"), format!("${}", text(c, "jsonPath")))).collect() }
    }

    /// What the columns are called.
    pub(crate) fn columns(&self, resource: &Resource) -> Value {
        let one = |name: &str, kind: &str, priority: u8| {
            let format = if name == "Name" { "name" } else { "" };
            json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
        };
        if resource.custom {
            let rest = self.custom.iter().map(|(name, kind, _)| one(name, kind, 0));
            return std::iter::once(one("Name", "string", 0)).chain(rest).collect();
        }
        columns(&resource.kind).iter().map(|column| one(column.name, "string", column.priority)).collect()
    }

    /// The row of an object.
    pub(crate) fn cells(&self, resource: &Resource, object: &Value, now: Timestamp) -> Value {
        if resource.custom {
            let name = std::iter::once(json!(object::name(object)));
            return name.chain(self.custom.iter().map(|(_, kind, path)| custom_cell(object, kind, path, now))).collect();
        }
        columns(&resource.kind).iter().map(|column| (column.cell)(object, now)).collect()
    }
}

fn custom_cell(object: &Value, kind: &str, path: &str, now: Timestamp) -> Value {
    let found = object.query(path).ok().and_then(|found| found.first().map(|value| (*value).clone()));
    match (kind, found) {
        ("date", Some(Value::String(at))) => at.parse().map_or(json!("<invalid>"), |at| json!(age(at, now))),
        (_, Some(value)) => value,
        (_, None) => Value::Null,
    }
}

fn columns(kind: &str) -> Vec<Column> {
    match kind {
        "Pod" => vec![
            column("Name", name),
            column("Ready", |pod, _| {
                let containers = list(pod, "/status/containerStatuses");
                let ready = containers.iter().filter(|container| container["ready"] == true).count();
                json!(format!("{ready}/{}", list(pod, "/spec/containers").len()))
            }),
            column("Status", |pod, _| json!(if object::is_terminating(pod) { "Terminating" } else { text(pod, "/status/phase") })),
            column("Restarts", |_, _| json!("0")),
            column("Age", age_of),
            wide("IP", |pod, _| or_none(text(pod, "/status/podIP"))),
            wide("Node", |pod, _| or_none(text(pod, "/spec/nodeName"))),
        ],
        "Deployment" => vec![
            column("Name", name),
            column("Ready", ready_of_wanted),
            column("Up-to-date", |object, _| json!(number(object, "/status/updatedReplicas").unwrap_or(0))),
            column("Available", |object, _| json!(number(object, "/status/availableReplicas").unwrap_or(0))),
            column("Age", age_of),
            wide("Containers", |object, _| json!(joined(object, "name"))),
            wide("Images", |object, _| json!(joined(object, "image"))),
        ],
        "StatefulSet" => vec![column("Name", name), column("Ready", ready_of_wanted), column("Age", age_of)],
        "ReplicaSet" => vec![
            column("Name", name),
            column("Desired", |object, _| json!(number(object, "/spec/replicas").unwrap_or(0))),
            column("Current", |object, _| json!(number(object, "/status/replicas").unwrap_or(0))),
            column("Ready", |object, _| json!(number(object, "/status/readyReplicas").unwrap_or(0))),
            column("Age", age_of),
        ],
        "Service" => vec![
            column("Name", name),
            column("Type", |object, _| json!(text(object, "/spec/type"))),
            column("Cluster-IP", |object, _| or_none(text(object, "/spec/clusterIP"))),
            column("External-IP", |object, _| or_none(text(object, "/spec/externalName"))),
            column("Port(s)", ports),
            column("Age", age_of),
        ],
        "Event" => vec![
            column("Last Seen", last_seen),
            column("Type", |event, _| json!(text(event, "/type"))),
            column("Reason", |event, _| json!(text(event, "/reason"))),
            column("Object", |event, _| {
                let about = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
                json!(format!("{}/{}", text(about, "/kind").to_lowercase(), text(about, "/name")))
            }),
            wide("Source", |event, _| json!(text(event, "/reportingComponent"))),
            column("Message", |event, _| {
                let message = if event["note"].is_string() { text(event, "/note") } else { text(event, "/message") };
                json!(message.trim())
            }),
            wide("Name", name),
        ],
        "Lease" => {
            vec![column("Name", name), column("Holder", |lease, _| json!(text(lease, "/spec/holderIdentity"))), column("Age", age_of)]
        }
        "Namespace" => {
            vec![column("Name", name), column("Status", |object, _| json!(text(object, "/status/phase"))), column("Age", age_of)]
        }
        "Secret" => vec![
            column("Name", name),
            column("Type", |object, _| json!(text(object, "/type"))),
            column("Data", data),
            column("Age", age_of),
        ],
        "ConfigMap" => vec![column("Name", name), column("Data", data), column("Age", age_of)],
        "CustomResourceDefinition" => {
            vec![column("Name", name), column("Created At", |object, _| json!(text(object, "/metadata/creationTimestamp")))]
        }
        _ => vec![column("Name", name), column("Age", age_of)],
    }
}

fn name(object: &Value, _: Timestamp) -> Value {
    json!(object::name(object))
}

fn data(object: &Value, _: Timestamp) -> Value {
    json!(object["data"].as_object().map_or(0, serde_json::Map::len))
}

fn ready_of_wanted(object: &Value, _: Timestamp) -> Value {
    let ready = number(object, "/status/readyReplicas").unwrap_or(0);
    json!(format!("{ready}/{}", number(object, "/spec/replicas").unwrap_or(0)))
}

fn ports(service: &Value, _: Timestamp) -> Value {
    let one = |port: &Value| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP"));
    let ports: Vec<String> = list(service, "/spec/ports").iter().map(one).collect();
    or_none(&ports.join(","))
}

fn joined(workload: &Value, member: &str) -> String {
    let containers = list(workload, "/spec/template/spec/containers");
    containers.iter().filter_map(|container| container[member].as_str()).collect::<Vec<_>>().join(",")
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn age_of(object: &Value, now: Timestamp) -> Value {
    json!(object::time(object, "/metadata/creationTimestamp").map_or("<unknown>".to_owned(), |at| age(at, now)))
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    let places = ["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    json!(places.iter().find_map(|place| object::time(event, place)).map_or("<unknown>".to_owned(), |at| age(at, now)))
}

/// A length of time as kubectl writes it: two units at most, and the second only while it matters.
fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let both = |big: i64, unit: &str, small: i64, part: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{part}") }
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => both(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => both(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => both(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => both(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (700, "11m"),
            (11_000, "3h3m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (900_000, "10d"),
        ] {
            assert_eq!(age(now - jiff::SignedDuration::from_secs(seconds), now), expected);
        }
    }

    #[test]
    fn the_custom_resource_has_the_columns_of_its_definition() {
        let tables = Tables::of(&llmscaler_api::definition().unwrap());
        let resource = Resource::of_kind("LLMScaler").unwrap();
        let columns = tables.columns(resource);
        let names: Vec<&str> = columns.as_array().unwrap().iter().filter_map(|column| column["name"].as_str()).collect();
        assert_eq!(names, ["Name", "MinReplicas", "MaxReplicas", "CurrentReplicas", "DesiredReplicas", "Ready", "Age"]);
        let object = json!({"metadata": {"name": "vllm", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"minReplicas": 1, "maxReplicas": 8},
            "status": {"currentReplicas": 2, "conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        let cells = tables.cells(resource, &object, "2026-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(cells, json!(["vllm", 1, 8, 2, null, "True", "60s"]));
    }
}
