//! Whether the source of the readings can be asked, with the scaler's own credentials.

use llmscaler_api::{LLMScaler, MetricState};
use llmscaler_engine::Reading;
use llmscaler_operator::diagnose::Asked;
use llmscaler_signals::prometheus::{Cause, Error, Series, Unreadable};
use url::{Host, Url};

use super::finding::Finding;
use super::names::Names;
use super::pages::Page;

const CHECK: &str = "source";

/// What to do about a header that was left out.
const SAFE_WAY: &str = "give --prometheus an https address, or that of a port-forward, as http://127.0.0.1:9090";

/// What to do where nobody answers at the address of --prometheus.
const GIVEN: &str = "see that the port-forward still runs, or correct the address of --prometheus; that of the scaler was not asked";

/// What came of asking.
pub enum Source {
    /// It could not be asked at all: a Secret is missing, say.
    Unusable(String),
    /// A Prometheus.
    Prometheus(Box<Answers>),
    /// A decision server.
    Decision { address: Url, reading: Reading },
    /// The pages of pods and router.
    Pages(Vec<Page>),
}

/// The answers of a Prometheus.
pub struct Answers {
    pub address: Url,
    /// Headers of Secrets that were not sent there, by name.
    pub withheld: Vec<String>,
    /// In the order of the questions.
    pub queries: Vec<Answered>,
    /// The inputs of the headroom law; none without it.
    pub inputs: Vec<(&'static str, Option<Answer>)>,
    /// Which of the preset's metrics are there.
    pub names: Option<Names>,
}

/// One question and its answer; without one where nothing could be asked.
pub struct Answered {
    pub asked: Asked,
    pub answer: Option<Answer>,
}

/// What came back for a query.
pub type Answer = Result<Vec<Series>, NoAnswer>;

/// Why nothing usable came back.
#[derive(Clone, Debug, PartialEq)]
pub enum NoAnswer {
    /// Nobody answered.
    Unreached(String),
    /// Somebody did, and it was no Prometheus, or one that lets us not in.
    Refused(String),
    /// No series matches.
    Empty,
    /// The query is at fault.
    Bad(String),
}

impl From<Error> for NoAnswer {
    fn from(error: Error) -> Self {
        match error.cause() {
            Cause::Transport(why) => Self::Unreached(why.to_string()),
            Cause::Answer(Unreadable::Empty) => Self::Empty,
            Cause::Answer(Unreadable::Status { status: 400 | 422, .. }) => Self::Bad(error.to_string()),
            Cause::Answer(
                why @ (Unreadable::Status { .. } | Unreadable::NotJson { .. } | Unreadable::NotPrometheus | Unreadable::NoResult),
            ) => Self::Refused(why.to_string()),
            _ => Self::Bad(error.to_string()),
        }
    }
}

impl Answers {
    fn all(&self) -> impl Iterator<Item = &Answer> {
        self.queries.iter().filter_map(|query| query.answer.as_ref()).chain(self.inputs.iter().filter_map(|(_, answer)| answer.as_ref()))
    }

    /// Why it cannot be asked, if no query got through.
    fn trouble(&self) -> Option<&NoAnswer> {
        let outside = |answer: &Answer| matches!(answer, Err(NoAnswer::Unreached(_) | NoAnswer::Refused(_)));
        let first = self.all().next()?.as_ref().err()?;
        self.all().all(outside).then_some(first)
    }

    /// Whether a query got through.
    pub fn reached(&self) -> bool {
        self.trouble().is_none()
    }
}

/// Whether it answers.
pub fn check(scaler: &LLMScaler, source: &Source) -> Option<Finding> {
    match source {
        Source::Unusable(why) => Some(Finding::problem(
            CHECK,
            format!("it cannot be asked: {why}"),
            "correct serverHeadersFrom, serverTLS or the object they name",
        )),
        Source::Prometheus(answers) => answers.queries.iter().any(|query| query.answer.is_some()).then(|| of_address(scaler, answers)),
        Source::Decision { address, reading: Reading::Unknown(why) } if is_internal(address) => Some(hidden(scaler, address, why)),
        Source::Decision { reading: Reading::Unknown(why), .. } => {
            Some(Finding::problem(CHECK, format!("the decision server gives no decision: {why}"), "see its log, and spec.customProvider"))
        }
        Source::Decision { reading, .. } => Some(Finding::ok(CHECK, format!("the decision server answers: {}", in_words(reading)))),
        Source::Pages(_) => None,
    }
}

fn in_words(reading: &Reading) -> String {
    match reading {
        Reading::Value(value) => value.to_string(),
        Reading::Idle => "idle".to_owned(),
        Reading::Unknown(why) => why.to_string(),
    }
}

fn of_address(scaler: &LLMScaler, answers: &Answers) -> Finding {
    let address = &answers.address;
    let without = || format!("without {}: over http, everybody on the way could read what a Secret holds", answers.withheld.join(", "));
    match answers.trouble() {
        Some(NoAnswer::Unreached(why)) if is_internal(address) => hidden(scaler, address, why),
        Some(NoAnswer::Unreached(why)) => Finding::problem(
            CHECK,
            format!("it cannot be reached from here: {why}"),
            if is_given(scaler, address) { GIVEN } else { "correct spec.serverAddress, or let the network through" },
        ),
        Some(NoAnswer::Refused(why)) if !answers.withheld.is_empty() => {
            let found = format!("what answers at {} lets no query through: {why}; it was asked {}", shown(address), without());
            Finding::problem(CHECK, found, SAFE_WAY)
        }
        Some(NoAnswer::Refused(why)) => {
            Finding::problem(CHECK, format!("what answers at {} lets no query through: {why}", shown(address)), "as the message says")
        }
        _ if !answers.withheld.is_empty() => {
            Finding::note(CHECK, format!("{} answers, asked from here {}", shown(address), without()), SAFE_WAY)
        }
        _ => {
            let found = format!("{} answers, asked from here with the scaler's own headers and certificates", shown(address));
            Finding::ok(CHECK, found)
        }
    }
}

/// A name that only the cluster knows. Whether the operator gets through, its own status tells.
fn hidden(scaler: &LLMScaler, address: &Url, why: &str) -> Finding {
    let metrics = scaler.status.iter().flat_map(|status| &status.metrics);
    let known = metrics.filter(|metric| metric.state != MetricState::Unknown).count();
    let operator = if known > 0 { "the operator gets through: it knows its metrics" } else { "the operator knows no metric either" };
    let found = format!("{} is a name of the cluster's own network, so it was not asked from here: {why}; {operator}", shown(address));
    let port = address.port_or_known_default().unwrap_or(9090);
    let (service, namespace) = service(address);
    let advice = format!(
        "kubectl port-forward -n {namespace} svc/{service} {port}, and beside it: llmscaler doctor --prometheus {}://127.0.0.1:{port}{}",
        address.scheme(),
        address.path().trim_end_matches('/')
    );
    if known > 0 { Finding::note(CHECK, found, advice) } else { Finding::warning(CHECK, found, advice) }
}

/// Service and namespace of a cluster's name.
fn service(address: &Url) -> (&str, &str) {
    let mut parts = address.host_str().unwrap_or_default().split('.');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or("NAMESPACE"))
}

/// Whether only the cluster's own network knows the name: `service`, `service.namespace`, `….svc`, `….cluster.local`. Of two parts the
/// last may be a public ending instead, which is short.
fn is_internal(address: &Url) -> bool {
    let Some(Host::Domain(name)) = address.host() else { return false };
    match name.split('.').collect::<Vec<_>>().as_slice() {
        [one] => *one != "localhost",
        [_, last] => last.len() > 3,
        [.., before, last] => *last == "svc" || (*before == "cluster" && *last == "local"),
        [] => false,
    }
}

/// Whether it is the address of --prometheus and not the scaler's own.
fn is_given(scaler: &LLMScaler, address: &Url) -> bool {
    let own = scaler.spec.server_address.as_deref().and_then(|own| own.parse::<Url>().ok());
    own.as_ref() != Some(address)
}

/// Scheme, host and port, which hold no secret.
fn shown(address: &Url) -> String {
    let port = address.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{}{port}", address.scheme(), address.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use llmscaler_operator::diagnose::What;
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;
    use crate::doctor::tests::object;

    fn answers(address: &str, given: Vec<Answer>) -> Source {
        let queries = given
            .into_iter()
            .map(|answer| Answered { asked: Asked { source: "q".to_owned(), what: What::Value("q".to_owned()) }, answer: Some(answer) });
        let queries = queries.collect();
        Source::Prometheus(Box::new(Answers { address: address.parse().unwrap(), withheld: vec![], queries, inputs: vec![], names: None }))
    }

    fn checked(address: &str, given: Vec<Answer>) -> Finding {
        check(&serde_json::from_value(object(json!({}))).unwrap(), &answers(address, given)).unwrap()
    }

    #[test]
    fn a_source_that_one_query_reached_is_there() {
        let lost = || Err(NoAnswer::Unreached("refused".to_owned()));
        assert_eq!(checked("http://127.0.0.1:9090", vec![lost(), Err(NoAnswer::Empty)]).severity, Severity::Ok);
        assert_eq!(checked("http://127.0.0.1:9090", vec![lost(), lost()]).severity, Severity::Problem);
        let login = Err(NoAnswer::Refused("status 401".to_owned()));
        assert!(checked("http://user:secret@10.0.0.1:9090", vec![login]).found.starts_with("what answers at http://10.0.0.1:9090 lets"));
    }

    #[test]
    fn an_address_that_was_given_is_no_fault_of_the_scaler() {
        let own = serde_json::from_value(object(json!({"serverAddress": "http://10.0.0.7:9090"}))).unwrap();
        let advice = |address: &str| check(&own, &answers(address, vec![Err(NoAnswer::Unreached("refused".to_owned()))])).unwrap().advice;
        assert_eq!(advice("http://127.0.0.1:9090").as_deref(), Some(GIVEN));
        assert!(advice("http://10.0.0.7:9090/").unwrap().starts_with("correct spec.serverAddress"));
    }

    #[test]
    fn a_header_that_was_left_out_is_told() {
        let of = |answer: Answer| {
            let Source::Prometheus(mut answers) = answers("http://10.0.0.1:9090", vec![answer]) else { unreachable!() };
            answers.withheld = vec!["Authorization".to_owned()];
            check(&serde_json::from_value(object(json!({}))).unwrap(), &Source::Prometheus(answers)).unwrap()
        };
        for (answer, severity) in
            [(Err(NoAnswer::Empty), Severity::Note), (Err(NoAnswer::Refused("status 401".to_owned())), Severity::Problem)]
        {
            let finding = of(answer);
            assert_eq!(finding.severity, severity);
            assert!(finding.found.contains("without Authorization: over http"), "{}", finding.found);
            assert!(finding.advice.unwrap().contains("https"));
        }
    }

    #[test]
    fn a_name_of_the_cluster_is_no_fault_and_the_way_in_is_told() {
        let lost = vec![Err(NoAnswer::Unreached("no such host".to_owned()))];
        let finding = checked("http://prometheus-operated.monitoring.svc:9090/prom", lost);
        assert_eq!(finding.severity, Severity::Warning, "nobody knows anything");
        assert_eq!(
            finding.advice.as_deref(),
            Some(
                "kubectl port-forward -n monitoring svc/prometheus-operated 9090, and beside it: llmscaler doctor --prometheus \
                 http://127.0.0.1:9090/prom"
            )
        );
        for (address, internal) in [
            ("http://prometheus:9090", true),
            ("http://prometheus.monitoring:9090", true),
            ("http://p.m.svc.cluster.local", true),
            ("http://localhost:9090", false),
            ("http://10.0.0.7:9090", false),
            ("https://prometheus.example.com", false),
            ("https://example.com", false),
        ] {
            assert_eq!(is_internal(&address.parse().unwrap()), internal, "{address}");
        }
    }

    #[test]
    fn what_the_server_says_is_told_from_what_the_query_is() {
        let body = br#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        let of = |status, body: &[u8]| NoAnswer::from(llmscaler_signals::prometheus::read_series("q", status, body).unwrap_err());
        assert!(matches!(of(400, body), NoAnswer::Bad(why) if why.contains("parse error")));
        assert!(matches!(of(401, b"no"), NoAnswer::Refused(_)));
        assert!(matches!(of(200, b"<html>"), NoAnswer::Refused(_)));
        assert_eq!(of(200, br#"{"status":"success","data":{"resultType":"vector","result":[]}}"#), NoAnswer::Empty);
    }
}
