//! One trigger of a `ScaledObject`.

use std::collections::BTreeMap;

use llmscaler_api::{HeaderSource, Invalid, Metric, MetricType, ServerTls};

use super::authentication::Authentication;
use crate::migrate::ledger::Node;

/// A Prometheus, and how it is spoken to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    /// Its base URL.
    pub address: String,
    /// Headers as they are.
    pub headers: BTreeMap<String, String>,
    /// Headers from Secrets.
    pub headers_from: Vec<HeaderSource>,
    /// Certificates.
    pub tls: Option<ServerTls>,
}

/// A trigger that asks a Prometheus.
pub struct Trigger<'a> {
    /// Its place in the object.
    pub node: Node<'a>,
    /// Who is asked.
    pub connection: Connection,
    /// What is asked, and what it is held against.
    pub metric: Metric,
    /// What the formula calls it.
    pub name: Option<String>,
    /// Whether an empty answer is a 0.
    pub empty_is_zero: bool,
}

/// Fields of a trigger that have no counterpart: what to do.
const WITHOUT: [(&str, &str); 6] = [
    ("namespace", "requests have no parameters but the query: write the namespace into the query, or give the tenant's own address"),
    ("queryParameters", "requests have no parameters but the query: put a proxy in between that adds them"),
    ("timeout", "a query has 5 s, or the sync period if that is shorter"),
    ("awsRegion", "requests are not signed: put a signing proxy in between"),
    ("identityOwner", "requests are not signed: put a signing proxy in between"),
    ("predictHorizon", "it is not a field of this trigger"),
];

/// The trigger at `node`, the one with this index, as the metric at `place`; or `None` if nothing of it can be carried, and then the
/// books say why.
pub fn trigger<'a>(
    node: Node<'a>,
    index: usize,
    place: usize,
    namespace: Option<&str>,
    known: &[Authentication],
) -> Result<Option<Trigger<'a>>, Invalid> {
    let kind = node.need("type")?;
    if kind.text()? != "prometheus" {
        let why = match kind.text()?.as_str() {
            "cpu" | "memory" => {
                "the use of CPU or memory says little of an LLM engine, and is not read; scale on requests or on the KV cache"
            }
            "cron" => "there are no schedules: change minReplicas by a CronJob",
            _ => "only what a Prometheus answers is read: export it there, and write its query",
        };
        node.lost(why);
        return Ok(None);
    }
    kind.carried("metricProvider");
    let metadata = node.need("metadata")?;
    let to = format!("metrics[{place}]");
    let carried = |name: &str, field: &str| metadata.get(name).inspect(|node| node.carried(format!("{to}.{field}")));
    let text = |node: Node<'_>| node.text();
    metadata.need("query")?;
    metadata.need("threshold")?;
    let query = carried("query", "query").map(text).transpose()?;
    let target = carried("threshold", "target").map(text).transpose()?.unwrap_or_default();
    let activation = carried("activationThreshold", "activation").map(text).transpose()?.unwrap_or_else(|| "0".to_owned());
    let empty_is_zero = carried("ignoreNullValues", "required").map(|node| node.truth()).transpose()?.unwrap_or(true);
    for (name, why) in WITHOUT {
        metadata.get(name).iter().for_each(|field| field.lost(why));
    }
    metadata.get("metricName").iter().for_each(|field| field.left("KEDA does not use it any more"));
    node.get("useCachedMetrics").iter().for_each(|field| field.left("each query is asked once a sync anyway"));
    let name = node.get("name").inspect(|name| name.carried(format!("{to}.name"))).map(text).transpose()?;
    let Some(metric_type) = metric_type(&node, &to)? else { return Ok(None) };
    let mut connection = connection(&metadata)?;
    authenticate(&node, &metadata, &mut connection, namespace, known)?;
    let metric = Metric {
        // As the metric of the generated HPA is called.
        name: Some(name.clone().unwrap_or_else(|| format!("s{index}-prometheus"))),
        query,
        signal: None,
        target,
        metric_type,
        activation,
        required: !empty_is_zero,
    };
    Ok(Some(Trigger { node, connection, metric, name, empty_is_zero }))
}

fn metric_type(node: &Node<'_>, to: &str) -> Result<Option<MetricType>, Invalid> {
    let Some(field) = node.get("metricType") else { return Ok(Some(MetricType::AverageValue)) };
    Ok(match field.text()?.as_str() {
        "AverageValue" => {
            field.carried(format!("{to}.metricType"));
            Some(MetricType::AverageValue)
        }
        "Value" => {
            field.carried(format!("{to}.metricType"));
            Some(MetricType::Value)
        }
        _ => {
            node.lost("metricType is neither AverageValue nor Value, the only two that a query can have");
            None
        }
    })
}

fn connection(metadata: &Node<'_>) -> Result<Connection, Invalid> {
    let address = metadata.need("serverAddress")?;
    address.carried("serverAddress");
    let mut connection = Connection { address: address.text()?.trim_end_matches('/').to_owned(), ..Connection::default() };
    if let Some(headers) = metadata.get("customHeaders") {
        let text = headers.text()?;
        let pairs: Option<BTreeMap<String, String>> = text
            .split(',')
            .map(|pair| pair.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())))
            .collect();
        connection.headers = pairs.ok_or_else(|| headers.invalid("must be a list of name=value, with commas in between"))?;
        headers.carried("serverHeaders");
    }
    if let Some(tenant) = metadata.get("cortexOrgID") {
        connection.headers.insert("X-Scope-OrgID".to_owned(), tenant.text()?);
        tenant.carried("serverHeaders.X-Scope-OrgID");
    }
    if let Some(any) = metadata.get("unsafeSsl") {
        any.carried("serverTLS.insecureSkipVerify");
        if any.truth()? {
            connection.tls = Some(ServerTls { insecure_skip_verify: true, ..ServerTls::default() });
        }
    }
    Ok(connection)
}

fn authenticate(
    node: &Node<'_>,
    metadata: &Node<'_>,
    connection: &mut Connection,
    namespace: Option<&str>,
    known: &[Authentication],
) -> Result<(), Invalid> {
    let modes_field = metadata.get("authModes");
    let modes = modes_field.as_ref().map(Node::text).transpose()?.unwrap_or_default();
    let modes: Vec<String> = modes.split(',').map(|mode| mode.trim().to_owned()).filter(|mode| !mode.is_empty()).collect();
    let Some(reference) = node.get("authenticationRef") else {
        modes_field.iter().for_each(|field| field.lost("there is no authenticationRef to take the credentials from"));
        return Ok(());
    };
    let name = reference.need("name")?.text()?;
    let kind = reference.get("kind").map(|kind| kind.text()).transpose()?.unwrap_or_else(|| "TriggerAuthentication".to_owned());
    let found = known.iter().find(|authentication| authentication.is(&kind, &name, namespace));
    let Some(found) = found else {
        let why = format!("{kind} {name} is not in the input, so its credentials are not carried: add the file that has it");
        reference.lost(&why);
        modes_field.iter().for_each(|field| field.lost(&why));
        return Ok(());
    };
    if modes.is_empty() {
        if found.is_pod_identity() {
            reference.lost("requests are not signed with a pod's identity: put a proxy in between that does");
        } else {
            reference.left("KEDA does not use it without authModes, its CA included");
        }
        return Ok(());
    }
    if kind == "ClusterTriggerAuthentication" {
        let why =
            "its Secrets are in KEDA's namespace: copy them into that of the scaler, and name them in serverHeadersFrom and serverTLS";
        reference.lost(why);
        modes_field.iter().for_each(|field| field.lost(why));
        return Ok(());
    }
    let lost = found.add_to(connection, &modes)?;
    let to = if connection.headers_from.is_empty() { "serverTLS" } else { "serverHeadersFrom" };
    for field in ["name", "kind"].iter().filter_map(|name| reference.get(name)) {
        field.carried(to);
    }
    match modes_field {
        Some(field) if lost.is_empty() => field.carried(to),
        Some(field) => field.lost(format!("{} is not carried: see {kind} {name} below", lost.join(", "))),
        None => {}
    }
    Ok(())
}
