//! Asks a scaler's source what the operator asks it, with the scaler's own credentials.

use futures::future::join_all;
use futures::join;
use k8s_openapi::api::core::v1::Pod;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, ResourceExt};
use llmscaler_api::{Access, Port, Provider, Scaler, Scheme, Scrape, Server};
use llmscaler_engine::{Bucket, Law};
use llmscaler_operator::diagnose::{Asked, CallError, What, asked, endpoint, preset_of, within};
use llmscaler_signals::preset::{Per, Preset};
use llmscaler_signals::prometheus::Series;
use llmscaler_signals::{DecisionClient, PrometheusClient};
use url::{Host, Url};

use super::drain::Budget;
use super::inputs;
use super::names::{self, Names};
use super::pages::{Missed, Page, names_on};
use super::source::{Answer, Answered, Answers, NoAnswer, Source};

/// Of so many pods the page is read.
const MOST_PAGES: usize = 3;

/// Asks for everything that is read at a sync. `prometheus` is asked in place of the address of the spec.
pub async fn source(client: &Client, namespace: &str, scaler: &Scaler, pods: &[Pod], prometheus: Option<&Url>) -> Source {
    match &scaler.provider {
        Provider::Prometheus(server) => {
            let (address, (access, withheld)) = match prometheus {
                Some(given) => (given, sent_to(given, &server.access)),
                None => (&server.address, (server.access.clone(), vec![])),
            };
            match endpoint(client.clone(), namespace, &access, address.as_str()).await {
                Ok(endpoint) => {
                    let answers = answers(PrometheusClient::new(endpoint), namespace, scaler, address).await;
                    Source::Prometheus(Box::new(Answers { withheld, ..answers }))
                }
                Err(why) => Source::Unusable(why),
            }
        }
        Provider::DecisionServer(server) => decision(client, namespace, scaler, server).await,
        Provider::Scrape { scrape, .. } => Source::Pages(pages(client, namespace, scaler, scrape, pods).await),
    }
}

/// What may go to an address that is not the scaler's own, and the names of the headers that may not: over http everybody on the way reads
/// them, unless the way ends on this machine, as that to a port-forward does.
fn sent_to(given: &Url, access: &Access) -> (Access, Vec<String>) {
    let stays_here = match given.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if given.scheme() == "https" || stays_here {
        return (access.clone(), vec![]);
    }
    let withheld = access.secret_headers.iter().map(|header| header.name.clone()).collect();
    (Access { secret_headers: vec![], ..access.clone() }, withheld)
}

async fn answers(client: PrometheusClient, namespace: &str, scaler: &Scaler, address: &Url) -> Answers {
    let asked = asked(scaler, namespace);
    let inputs = asked.iter().find_map(|asked| match &asked.what {
        What::Inputs(queries) => Some(inputs::queries(queries)),
        _ => None,
    });
    let each = asked.into_iter().filter(|asked| !matches!(asked.what, What::Inputs(_))).map(|asked| query(&client, asked));
    let of_input = inputs.unwrap_or_default().into_iter().map(|(name, query)| {
        let client = &client;
        async move {
            match query {
                Some(query) => (name, Some(series(client, &query).await)),
                None => (name, None),
            }
        }
    });
    let (queries, inputs, names) = join!(join_all(each), join_all(of_input), seen_names(&client, namespace, scaler));
    Answers { address: address.clone(), withheld: vec![], queries, inputs, names }
}

async fn query(client: &PrometheusClient, asked: Asked) -> Answered {
    let answer = match &asked.what {
        What::Value(query) | What::Quantile { query, .. } | What::InFlight(query) => Some(series(client, query).await),
        What::Nothing(_) => Some(Err(NoAnswer::Empty)),
        What::Inputs(_) | What::Signals(_) | What::Decision { .. } => None,
    };
    Answered { asked, answer }
}

async fn series(client: &PrometheusClient, query: &str) -> Answer {
    client.query_series(query).await.map_err(NoAnswer::from)
}

/// Which of the preset's names are there; `None` where no preset is read, or nobody answers.
async fn seen_names(client: &PrometheusClient, namespace: &str, scaler: &Scaler) -> Option<Names> {
    let (preset, signals) = (preset_of(scaler)?, names::signals(scaler));
    let here = names::query(names::rows(preset, &signals), Some(namespace))?;
    let anywhere = names::query(names::rows(preset, &signals), None)?;
    let (here, anywhere) = join!(series(client, &here), series(client, &anywhere));
    let names = |answer: Answer| match answer {
        Ok(series) => Some(series.into_iter().filter_map(|mut series| series.labels.remove("__name__")).collect()),
        Err(NoAnswer::Empty) => Some([].into()),
        Err(_) => None,
    };
    Some(Names { here: names(here)?, anywhere: names(anywhere)? })
}

async fn decision(client: &Client, namespace: &str, scaler: &Scaler, server: &Server) -> Source {
    let endpoint = match endpoint(client.clone(), namespace, &server.access, server.address.as_str()).await {
        Ok(endpoint) => endpoint,
        Err(why) => return Source::Unusable(why),
    };
    let all = asked(scaler, namespace);
    let decisions = all.iter().find_map(|asked| match &asked.what {
        What::Decision { service_id, namespace, path } => Some((service_id, namespace.as_deref(), path)),
        _ => None,
    });
    match decisions {
        Some((service_id, of, path)) => {
            let reading = DecisionClient::new(endpoint).decision(service_id, of, path).await;
            Source::Decision { address: server.address.clone(), reading }
        }
        None => Source::Unusable("it is asked for nothing".to_owned()),
    }
}

async fn pages(client: &Client, namespace: &str, scaler: &Scaler, scrape: &Scrape, pods: &[Pod]) -> Vec<Page> {
    let Some(preset) = preset_of(scaler) else { return vec![] };
    let scheme = |scheme: Scheme| match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    // A router's names are on the router's page alone.
    let of_engine = preset.rows().iter().any(|row| row.per == Per::Engine);
    let mut places = vec![];
    if of_engine {
        let ready = pods.iter().filter(|pod| is_ready(pod)).take(MOST_PAGES);
        places.extend(ready.map(|pod| {
            let port = port_of(&scrape.port, pod);
            let place = format!("pods/{}:{}:{port}", scheme(scrape.scheme), pod.name_any());
            (format!("pod {}", pod.name_any()), preset, place)
        }));
    }
    if let (Some(router), Some(of_router)) = (&scrape.router, Preset::named("llm-d-EPP")) {
        let place = format!("services/{}:{}:{}", scheme(router.scheme), router.service, router.port);
        places.push((format!("Service {}", router.service), of_router, place));
    }
    let each = places.into_iter().map(|(of, preset, place)| async move {
        let names = page(client, namespace, &place, &scrape.path).await.and_then(|page| names_on(&page));
        Page { of, preset, names }
    });
    join_all(each).await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none() && conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// The number of a port; a name that no container has stays a name, and the API server says so.
fn port_of(port: &Port, pod: &Pod) -> String {
    let name = match port {
        Port::Number(number) => return number.to_string(),
        Port::Named(name) => name,
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let number = ports.find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port.to_string());
    number.unwrap_or_else(|| name.clone())
}

async fn page(client: &Client, namespace: &str, place: &str, path: &str) -> Result<String, Missed> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/{place}/proxy{folder}"));
    let missed = |why: String, forbidden| Missed { why, forbidden };
    let request = request.get(file, &GetParams::default()).map_err(|error| missed(error.to_string(), false))?;
    within(client.request_text(request)).await.map_err(|error| {
        let forbidden = matches!(&error, CallError::Api(kube::Error::Api(status)) if matches!(status.code, 401 | 403));
        missed(error.to_string(), forbidden)
    })
}

/// How long a long answer takes, as promised, where output lengths are known.
pub fn drain_budget(scaler: &Scaler, source: &Source) -> Option<Budget> {
    let Source::Prometheus(answers) = source else { return None };
    let law = scaler.spec.sources.iter().find_map(|source| match source.law {
        Law::Headroom(law) => Some(law),
        _ => None,
    })?;
    let lengths =
        answers.inputs.iter().find(|(name, _)| *name == "output lengths").and_then(|(_, answer)| answer.as_ref()?.as_ref().ok())?;
    Budget::new(&buckets(lengths), law.ttft.get(), law.tpot.get())
}

/// Cumulative buckets, lowest first, of series by `le`.
fn buckets(series: &[Series]) -> Vec<Bucket> {
    let bucket = |series: &Series| {
        let bound = series.labels.get("le")?;
        let upper = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
        Some(Bucket { upper, count: series.value })
    };
    let mut buckets: Vec<Bucket> = series.iter().filter_map(bucket).collect();
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    buckets
}

#[cfg(test)]
mod tests {
    use llmscaler_api::{KeyReference, SecretHeader};
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_headers_go_to_an_address_that_was_given_only_where_nobody_reads_along() {
        let secret = SecretHeader {
            name: "Authorization".to_owned(),
            secret: KeyReference { name: "token".to_owned(), key: "token".to_owned() },
            prefix: "Bearer ".to_owned(),
        };
        let access = Access { secret_headers: vec![secret], ..Access::default() };
        for (given, withheld) in [
            ("http://127.0.0.1:9090", false),
            ("http://127.9.9.9", false),
            ("http://[::1]:9090", false),
            ("http://LocalHost:9090/prom", false),
            ("https://prometheus.example.com", false),
            ("http://prometheus.example.com", true),
            ("http://prometheus:9090", true),
            ("http://localhost.evil.example", true),
            ("http://10.0.0.1:9090", true),
            ("http://0.0.0.0:9090", true),
            ("http://127.0.0.1@evil.example", true),
        ] {
            let (sent, without) = sent_to(&given.parse().unwrap(), &access);
            assert_eq!(sent.secret_headers.is_empty(), withheld, "{given}");
            assert_eq!(without, if withheld { vec!["Authorization"] } else { vec![] }, "{given}");
        }
    }

    #[test]
    fn a_port_goes_by_its_number() {
        let ports = json!([{"name": "metrics", "containerPort": 9400}]);
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [{"name": "x", "ports": ports}]}})).unwrap();
        assert_eq!(port_of(&Port::Number(8000), &pod), "8000");
        assert_eq!(port_of(&Port::Named("metrics".to_owned()), &pod), "9400");
        assert_eq!(port_of(&Port::Named("http".to_owned()), &pod), "http");
    }

    #[test]
    fn buckets_are_in_order() {
        let of = |le: &str, value| Series { labels: [("le".to_owned(), le.to_owned())].into(), value };
        let buckets = buckets(&[of("+Inf", 3.0), of("10", 1.0), of("2", 0.0)]);
        assert_eq!(buckets.iter().map(|bucket| bucket.upper).collect::<Vec<_>>(), [2.0, 10.0, f64::INFINITY]);
    }
}
