//! What is to be asked at each sync, written down once for each generation of a scaler.

use llmscaler_api::{Ask, LatencyAsk, Provider, Scaler, SloAsk};
use llmscaler_engine::{Headroom, Law, Target};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Scope, Signal};
use llmscaler_signals::{Promised, TrafficQueries, lint};

/// What one source of the engine is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// PromQL that gives the value.
    Query(String),
    /// A signal of the pods' own pages.
    Signal(Signal, Aggregate),
    /// The latencies that were promised.
    Slo(SloQuestion),
    /// The count of a service.
    Decision { service_id: String, namespace: Option<String>, path: String },
    /// Nothing can be asked, for this reason.
    Unanswerable(String),
}

impl Question {
    /// Why something is not asked, if so.
    fn not_asked(&self) -> Vec<&String> {
        match self {
            Self::Unanswerable(why) => vec![why],
            Self::Slo(slo) => {
                let latencies = [&slo.ttft, &slo.tpot].into_iter().flatten().filter_map(|latency| latency.query.as_ref()?.as_ref().err());
                let traffic = slo.traffic.iter().filter_map(|traffic| traffic.queries.as_ref()?.as_ref().err());
                let mut all: Vec<_> = latencies.chain(traffic).collect();
                // The same label is missing in all of them.
                all.dedup();
                all
            }
            _ => vec![],
        }
    }
}

/// What the source `slo` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SloQuestion {
    /// A latency above this share of its promise tells by itself that the pool is saturated.
    pub up_at: Target,
    pub quantile: f64,
    /// PromQL that gives the saturation itself, in place of the latencies.
    pub saturation: Option<String>,
    pub ttft: Option<LatencyQuestion>,
    pub tpot: Option<LatencyQuestion>,
    /// PromQL that gives the requests in flight.
    pub in_flight: Option<String>,
    /// What the headroom law measures, under it.
    pub traffic: Option<Box<TrafficQuestion>>,
}

/// What is asked for the headroom law.
#[derive(Clone, Debug)]
pub(crate) struct TrafficQuestion {
    pub promised: Promised,
    /// PromQL for each of its inputs, or why there is none; `None` with the pods' own pages.
    pub queries: Option<Result<TrafficQueries, String>>,
}

/// What is asked for one latency.
#[derive(Clone, Debug)]
pub(crate) struct LatencyQuestion {
    pub promised: Target,
    /// PromQL that gives the quantile in seconds, or why there is none; `None` with the pods' own pages.
    pub query: Option<Result<String, String>>,
}

/// The preset of a scaler, from the tables.
pub(crate) fn preset_of(scaler: &Scaler) -> Option<&'static Preset> {
    scaler.preset.as_ref().and_then(|preset| Preset::named(preset.name.as_str()))
}

/// One question for each source of the scaler, in their order.
pub(crate) fn questions(scaler: &Scaler, namespace: &str) -> Vec<Question> {
    let writer = Writer { scaler, scope: scope(scaler, namespace), scrape: matches!(scaler.provider, Provider::Scrape { .. }) };
    scaler.asks.iter().zip(&scaler.spec.sources).map(|(ask, source)| writer.question(ask, source.law)).collect()
}

fn scope(scaler: &Scaler, namespace: &str) -> Scope {
    Scope::new(namespace, scaler.preset.iter().flat_map(|preset| preset.match_labels.clone()))
}

struct Writer<'a> {
    scaler: &'a Scaler,
    scope: Scope,
    scrape: bool,
}

impl Writer<'_> {
    fn question(&self, ask: &Ask, law: Law) -> Question {
        match ask {
            Ask::Query(query) => Question::Query(query.clone()),
            Ask::Signal { signal, total } => self.signal(signal.as_str(), *total),
            Ask::Slo(slo) => self.slo(slo, law),
            Ask::Decision { service_id, namespace, path } => {
                Question::Decision { service_id: service_id.clone(), namespace: namespace.clone(), path: path.clone() }
            }
        }
    }

    fn signal(&self, name: &str, total: bool) -> Question {
        let aggregate = if total { Aggregate::Total } else { Aggregate::PerReplica };
        let (Ok(signal), Some(preset)) = (name.parse::<Signal>(), preset_of(self.scaler)) else {
            return Question::Unanswerable(format!("no preset knows the signal {name}"));
        };
        if self.scrape {
            return Question::Signal(signal, aggregate);
        }
        match preset.query(signal, aggregate, &self.scope) {
            Ok(query) => Question::Query(query),
            Err(why) => Question::Unanswerable(why.to_string()),
        }
    }

    fn slo(&self, slo: &SloAsk, law: Law) -> Question {
        let latency = |ask: &Option<LatencyAsk>, which| {
            ask.as_ref().map(|ask| LatencyQuestion { promised: ask.promised, query: self.latency_query(ask, which, slo.quantile) })
        };
        let in_flight = match preset_of(self.scaler) {
            Some(preset) if !self.scrape => preset.traffic_query(&self.scope).ok(),
            _ => None,
        };
        let traffic = match law {
            Law::Headroom(law) => Some(Box::new(self.traffic(&law))),
            _ => None,
        };
        Question::Slo(SloQuestion {
            up_at: slo.up_at,
            quantile: slo.quantile,
            saturation: slo.saturation.clone(),
            ttft: latency(&slo.ttft, Latency::Ttft),
            tpot: latency(&slo.tpot, Latency::Tpot),
            in_flight,
            traffic,
        })
    }

    fn traffic(&self, law: &Headroom) -> TrafficQuestion {
        let queries = match preset_of(self.scaler) {
            _ if self.scrape => None,
            Some(preset) => Some(preset.traffic_queries(&self.scope).map_err(|why| why.to_string())),
            None => Some(Err("no preset knows how requests and tokens are counted".to_owned())),
        };
        TrafficQuestion { promised: Promised { ttft: law.ttft.get(), tpot: law.tpot.get() }, queries }
    }

    fn latency_query(&self, ask: &LatencyAsk, which: Latency, quantile: f64) -> Option<Result<String, String>> {
        if self.scrape {
            return None;
        }
        Some(match (&ask.query, preset_of(self.scaler)) {
            (Some(query), _) => Ok(query.clone()),
            (None, Some(preset)) => preset.latency_query(which, quantile, &self.scope).map_err(|why| why.to_string()),
            (None, None) => Err("neither a query nor a preset gives this latency".to_owned()),
        })
    }
}

/// Whether the queries keep to the pool of their scaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scoped {
    /// Every selector does.
    Yes,
    /// One may match the series of another pool; in words.
    No(String),
    /// A query cannot be looked at, so nobody knows; in words.
    Unknown(String),
}

/// Looks at every query that the user wrote; those that a preset writes are scoped, or not asked. `None` where no queries are asked.
pub(crate) fn scoped(scaler: &Scaler, questions: &[Question]) -> Option<Scoped> {
    let Provider::Prometheus(_) = &scaler.provider else { return None };
    let (mut mixed, mut queries) = (vec![], vec![]);
    for ((ask, question), source) in scaler.asks.iter().zip(questions).zip(&scaler.spec.sources) {
        let name = source.name.as_str();
        match ask {
            Ask::Query(query) => queries.push((name, query)),
            Ask::Slo(slo) => {
                let latencies = [&slo.ttft, &slo.tpot].into_iter().flatten().filter_map(|latency| latency.query.as_ref());
                queries.extend(slo.saturation.iter().chain(latencies).map(|query| (name, query)));
            }
            Ask::Signal { .. } | Ask::Decision { .. } => {}
        }
        mixed.extend(question.not_asked().into_iter().map(|why| format!("{name}: {why}")));
    }
    queries.extend(scaler.deletion_cost_query.iter().map(|query| ("scaleDown.deletionCostQuery", query)));
    let mut unread = vec![];
    for (name, query) in queries {
        for finding in lint::scoped(query).err().into_iter().flatten() {
            let list = if finding.unscoped() { &mut mixed } else { &mut unread };
            list.push(format!("{name}: {finding}"));
        }
    }
    Some(match (mixed.is_empty(), unread.is_empty()) {
        (false, _) => Scoped::No(mixed.join("; ")),
        (true, false) => Scoped::Unknown(unread.join("; ")),
        (true, true) => Scoped::Yes,
    })
}

#[cfg(test)]
mod tests {
    use llmscaler_api::{PresetName, Signal as Named, parse_json};
    use serde_json::{Value, json};

    use super::*;

    fn scaler(more: Value) -> Scaler {
        let mut spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 8,
            "serverAddress": "http://prometheus:9090"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
            "metadata": {"name": "x", "namespace": "serving"}, "spec": spec});
        parse_json(object).unwrap().parse().unwrap()
    }

    fn asked(scaler: &Scaler) -> (Vec<Question>, Option<Scoped>) {
        let questions = questions(scaler, "serving");
        let scoped = scoped(scaler, &questions);
        (questions, scoped)
    }

    #[test]
    fn every_name_of_the_resource_is_in_the_tables() {
        for preset in PresetName::ALL {
            let table = Preset::named(preset.as_str()).unwrap();
            for signal in Named::ALL.into_iter().filter(|signal| preset.emits(*signal)) {
                let known: Signal = signal.as_str().parse().unwrap();
                assert!(table.row(known).is_some(), "{preset} {signal}");
            }
        }
    }

    #[test]
    fn a_signal_becomes_a_scoped_query() {
        let preset = json!({"name": "vLLM", "matchLabels": {"model_name": "qwen"}});
        let (questions, scoped) = asked(&scaler(json!({"preset": preset, "metrics": [{"signal": "queuedRequests", "target": "5"}]})));
        assert!(
            matches!(&questions[..], [Question::Query(query)] if query.contains("num_requests_waiting") && query.contains("\"serving\""))
        );
        assert_eq!(scoped, Some(Scoped::Yes));
    }

    #[test]
    fn what_only_the_namespace_isolates_is_not_asked() {
        let preset = json!({"name": "llm-d-EPP", "matchLabels": {"inference_pool": "a"}});
        let metrics = json!([{"signal": "runningRequests", "target": "5", "metricType": "AverageValue"}]);
        let (questions, scoped) = asked(&scaler(json!({"preset": preset, "metrics": metrics})));
        assert!(matches!(&questions[..], [Question::Unanswerable(why)] if why.contains("service")), "{questions:?}");
        assert!(matches!(scoped, Some(Scoped::No(_))));
    }

    #[test]
    fn queries_of_the_user_are_judged() {
        let judged = |query: &str| asked(&scaler(json!({"metrics": [{"name": "q", "query": query, "target": "1"}]}))).1;
        assert_eq!(judged(r#"avg(x{namespace="serving"})"#), Some(Scoped::Yes));
        assert!(matches!(judged("avg(x)"), Some(Scoped::No(why)) if why.starts_with("q: ")));
        assert!(matches!(judged("avg("), Some(Scoped::Unknown(_))));
    }

    #[test]
    fn an_slo_asks_for_latencies_and_traffic() {
        let slo = json!({"ttft": "3s", "tpot": "100ms"});
        let preset = json!({"name": "llm-d-EPP", "matchLabels": {"service": "epp"}});
        let (questions, scoped) = asked(&scaler(json!({"slo": slo, "preset": preset})));
        let [Question::Slo(slo)] = &questions[..] else { panic!("{questions:?}") };
        assert!(slo.in_flight.is_some() && slo.saturation.is_none() && slo.traffic.is_none());
        assert_eq!(slo.ttft.as_ref().unwrap().promised, Target::new(3.0).unwrap());
        assert!(slo.tpot.as_ref().unwrap().query.as_ref().unwrap().as_ref().unwrap().contains("0.9"));
        assert_eq!(scoped, Some(Scoped::Yes));
    }

    #[test]
    fn headroom_asks_for_traffic_as_well() {
        let headroom = |labels: Value| {
            let preset = json!({"name": "llm-d-EPP", "matchLabels": labels});
            asked(&scaler(json!({"slo": {"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"}, "preset": preset})))
        };
        let (questions, scoped) = headroom(json!({"service": "epp"}));
        let [Question::Slo(SloQuestion { traffic: Some(traffic), ttft: Some(_), tpot: Some(_), .. })] = &questions[..] else {
            panic!("{questions:?}")
        };
        assert_eq!(traffic.promised, Promised { ttft: 3.0, tpot: 0.1 });
        let arrivals = traffic.queries.as_ref().unwrap().as_ref().unwrap().arrivals_60s.as_ref().unwrap();
        assert!(arrivals.contains("[1m]") && arrivals.contains("service=\"epp\""), "{arrivals}");
        assert_eq!(scoped, Some(Scoped::Yes));

        let (questions, scoped) = headroom(json!({}));
        let [Question::Slo(slo)] = &questions[..] else { panic!("{questions:?}") };
        assert!(matches!(slo.traffic.as_ref().unwrap().queries, Some(Err(_))), "nothing tells the pool from its neighbours");
        assert!(matches!(scoped, Some(Scoped::No(_))));
    }

    #[test]
    fn headroom_reads_pages_without_queries() {
        let slo = json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"});
        let more = json!({"metricProvider": "Scrape", "serverAddress": null, "slo": slo, "preset": {"name": "vLLM"}});
        let (questions, _) = asked(&scaler(more));
        let [Question::Slo(slo)] = &questions[..] else { panic!("{questions:?}") };
        assert!(slo.traffic.as_ref().is_some_and(|traffic| traffic.queries.is_none()));
    }
}
