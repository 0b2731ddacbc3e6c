//! Step *observe*: what the sources say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use llmscaler_api::{self as api, Port, Provider, Scaler, Scheme};
use llmscaler_engine::{self as engine, Reading, Time, Traffic, VictimOrder, Warmth};
use llmscaler_signals::preset::{Latency, Preset, Signal};
use llmscaler_signals::scrape::{Access, PodAddress, Problem, Scrape, ScrapeTargets};
use llmscaler_signals::slo::{LatencyQueries, LatencyReadings};
use llmscaler_signals::{DecisionClient, Endpoint, PrometheusClient, TRAFFIC_SIGNALS};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::context::Context;
use crate::credentials::Keys;
use crate::pods::KeptPod;
use crate::questions::{LatencyQuestion, Question, Scoped, SloQuestion, TrafficQuestion, preset_of, questions, scoped};

/// How one generation of a scaler gets its readings.
pub(crate) struct Observer {
    namespace: String,
    provider: Provider,
    questions: Arc<[Question]>,
    /// Whether the queries keep to the pool; `None` without queries.
    pub scoped: Option<Scoped>,
    deletion_cost: Option<String>,
    period: Duration,
    /// With what was last connected, and whereby.
    connection: Option<(Keys, Connection)>,
    pages: Option<(Plan, Scrape)>,
}

#[derive(Clone)]
enum Connection {
    Prometheus(PrometheusClient),
    DecisionServer(DecisionClient),
    Pages { pods: Access, router: Access },
}

/// What is read of pages. While it stays the same, an edit of the scaler keeps what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    scrape: api::Scrape,
    preset: api::Preset,
    signals: Vec<Signal>,
    period: Duration,
}

/// What one sync saw of the sources.
pub(crate) struct Observed {
    /// One for each source of the spec, in their order.
    pub readings: Vec<Reading>,
    /// What the headroom law measures; `None` without it.
    pub traffic: Option<Box<Traffic>>,
    /// Pods and routers that could not be read.
    pub problems: Vec<Problem>,
}

impl Observed {
    fn of(answers: Vec<Answer>, problems: Vec<Problem>) -> Self {
        let mut traffic = None;
        let mut reading = |answer: Answer| {
            traffic = traffic.take().or(answer.traffic);
            answer.reading
        };
        Self { readings: answers.into_iter().map(&mut reading).collect(), traffic, problems }
    }

    /// Nothing, for one reason.
    fn unknown(questions: &[Question], why: &str) -> Self {
        Self { readings: questions.iter().map(|_| Reading::unknown(why)).collect(), traffic: None, problems: vec![] }
    }
}

/// What came of one question.
struct Answer {
    reading: Reading,
    traffic: Option<Box<Traffic>>,
}

impl From<Reading> for Answer {
    fn from(reading: Reading) -> Self {
        Self { reading, traffic: None }
    }
}

impl Observer {
    /// For a generation of a scaler, whose pages are dated by `clock`; `before` is the observer of the generation before it.
    pub(crate) fn new(scaler: &Scaler, namespace: &str, clock: Clock, before: Option<Self>) -> Self {
        let questions = questions(scaler, namespace);
        let (provider, period) = (scaler.provider.clone(), scaler.spec.sync_period);
        let pages = plan(scaler, &questions).map(|(plan, preset)| {
            let kept = before.and_then(|before| before.pages).filter(|(kept, _)| *kept == plan);
            kept.unwrap_or_else(|| {
                let router = plan.scrape.router.is_some();
                let labels = &plan.preset.match_labels;
                let scrape = Scrape::new(preset, router, plan.signals.clone(), labels, Scrape::window(period)).at_speed(clock.speed());
                (plan, scrape)
            })
        });
        Self {
            namespace: namespace.to_owned(),
            scoped: scoped(scaler, &questions),
            provider,
            questions: questions.into(),
            deletion_cost: scaler.deletion_cost_query.clone(),
            period,
            connection: None,
            pages,
        }
    }

    /// Asks every source at once. `pods` are those of the target, `name` is that of the scaler.
    pub(crate) async fn observe(&mut self, context: &Context, name: &str, pods: &[Arc<KeptPod>]) -> Observed {
        let (questions, now) = (self.questions.clone(), context.clock.now());
        let connection = match self.connect(context).await {
            Ok(connection) => connection,
            // Without credentials nothing is asked, and nothing is known.
            Err(why) => return Observed::unknown(&questions, &why),
        };
        let namespace = self.namespace.clone();
        if let Some(readings) = &context.readings {
            return Observed { readings: readings.of(&namespace, name, questions.len()), traffic: None, problems: vec![] };
        }
        match connection {
            Connection::Prometheus(client) => {
                let mut each = Vec::with_capacity(questions.len());
                for question in questions.iter() {
                    each.push(timed(context, &namespace, name, ask_prometheus(&client, question)));
                }
                Observed::of(join_all(each).await, vec![])
            }
            Connection::DecisionServer(client) => {
                let mut each = Vec::with_capacity(questions.len());
                for question in questions.iter() {
                    each.push(timed(context, &namespace, name, ask_decision(&client, question)));
                }
                Observed::of(join_all(each).await, vec![])
            }
            Connection::Pages { pods: pod_access, router: router_access } => {
                let started = Instant::now();
                let observed = self.read_pages(context, pods, pod_access, router_access, now).await;
                let ok = !observed.readings.iter().any(Reading::is_unknown);
                context.metrics.source(&namespace, name, started.elapsed().as_secs_f64(), ok);
                observed
            }
        }
    }

    /// How warm each pod is, as far as somebody can tell.
    pub(crate) async fn warmth(&self, now: Time) -> Warmth {
        let samples = match (&self.connection, &self.deletion_cost, &self.pages) {
            (Some((_, Connection::Prometheus(client))), Some(query), _) => match client.query_pods(query, &self.namespace).await {
                Ok(samples) => samples,
                Err(error) => return Warmth::Unknown(error.to_string()),
            },
            // The fuller the cache, the warmer the pod.
            (_, _, Some((_, scrape))) => scrape.pods_with(Signal::KvCacheUsage, now),
            _ => return Warmth::NotAsked,
        };
        if samples.is_empty() { Warmth::NotAsked } else { Warmth::Samples(samples) }
    }

    /// The connection with the credentials as they are now.
    async fn connect(&mut self, context: &Context) -> Result<Connection, String> {
        let access = match &self.provider {
            Provider::Prometheus(server) | Provider::DecisionServer(server) => &server.access,
            Provider::Scrape { access, .. } => access,
        };
        let keys = context.credentials.keys(&self.namespace, access).await.map_err(|why| why.to_string())?;
        if let Some((with, connection)) = &self.connection
            && *with == keys
        {
            return Ok(connection.clone());
        }
        let transport = context.credentials.transport(&keys.tls).map_err(|why| why.to_string())?;
        // A sync must not outlast its period, so neither may a query.
        let endpoint = |server: &api::Server| {
            let endpoint = Endpoint::new(transport.clone(), server.address.as_str(), &keys.headers).map_err(|why| why.to_string())?;
            Ok::<_, String>(endpoint.within(self.period))
        };
        let connection = match &self.provider {
            Provider::Prometheus(server) => Connection::Prometheus(PrometheusClient::new(endpoint(server)?)),
            Provider::DecisionServer(server) => Connection::DecisionServer(DecisionClient::new(endpoint(server)?)),
            Provider::Scrape { scrape, .. } => {
                let path = scrape.path.clone();
                // Headers are for the router: pods are many, and not all of them are the user's own.
                let pods = Access { transport: transport.clone(), path: path.clone(), headers: BTreeMap::new() };
                Connection::Pages { pods, router: Access { transport, path, headers: keys.headers.clone() } }
            }
        };
        self.connection = Some((keys, connection.clone()));
        Ok(connection)
    }

    async fn read_pages(
        &mut self,
        context: &Context,
        pods: &[Arc<KeptPod>],
        pod_access: Access,
        router_access: Access,
        now: Time,
    ) -> Observed {
        let Some((plan, scrape)) = &mut self.pages else {
            let why = "there is no preset, so nobody knows what the pods' metrics are called; set spec.preset";
            return Observed::unknown(&self.questions, why);
        };
        let mut problems = vec![];
        let mut routers = vec![];
        if let Some(router) = &plan.scrape.router {
            match context.services.host(&self.namespace, &router.service).await {
                Ok(host) => routers.push(format!("{}://{host}:{}", scheme(router.scheme), router.port)),
                Err(why) => problems.push(Problem { name: router.service.clone(), why }),
            }
        }
        let (pods, strangers) = addresses(&plan.scrape, pods);
        problems.extend(strangers);
        let targets = ScrapeTargets { pods, pod_access, routers, router_access };
        scrape.sync(&targets, Scrape::deadline(self.period), now).await;
        problems.extend(scrape.problems(now));
        Observed::of(self.questions.iter().map(|question| read(scrape, question, now)).collect(), problems)
    }
}

/// What to read of pages, and with which preset's names; `None` for other providers.
fn plan(scaler: &Scaler, questions: &[Question]) -> Option<(Plan, &'static Preset)> {
    let Provider::Scrape { scrape, .. } = &scaler.provider else { return None };
    let mut signals: Vec<Signal> = questions
        .iter()
        .flat_map(|question| match question {
            Question::Signal(signal, _) => vec![*signal],
            Question::Slo(slo) => {
                let latencies = [Signal::PredictedTtft, Signal::Ttft, Signal::PredictedTpot, Signal::Tpot];
                latencies.into_iter().chain(TRAFFIC_SIGNALS.into_iter().filter(|_| slo.traffic.is_some())).collect()
            }
            _ => vec![],
        })
        .collect();
    if scaler.spec.scale_down.victims == VictimOrder::ColdestFirst {
        signals.push(Signal::KvCacheUsage);
    }
    let plan = Plan { scrape: scrape.clone(), preset: scaler.preset.clone()?, signals, period: scaler.spec.sync_period };
    Some((plan, preset_of(scaler)?))
}

fn scheme(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

/// Where the pages of the ready pods are, and the pods of which nobody knows where.
fn addresses(scrape: &api::Scrape, pods: &[Arc<KeptPod>]) -> (Vec<PodAddress>, Vec<Problem>) {
    let (mut known, mut strange) = (vec![], vec![]);
    for pod in pods.iter().filter(|pod| pod.ready && !pod.terminating && pod.serves_metrics()) {
        let port = match &scrape.port {
            Port::Number(port) => Some(*port),
            Port::Named(name) => pod.ports.get(name).copied(),
        };
        match (pod.ip, port) {
            (Some(ip), Some(port)) => {
                known.push(PodAddress::new(&pod.name, &pod.uid, scrape.scheme == Scheme::Https, SocketAddr::new(ip, port)));
            }
            (None, _) => strange.push(Problem { name: pod.name.clone(), why: "is ready and has no IP address".to_owned() }),
            (_, None) => {
                let why = format!("has no container port named as in spec.scrape.port ({:?}); name it, or give its number", scrape.port);
                strange.push(Problem { name: pod.name.clone(), why });
            }
        }
    }
    (known, strange)
}

async fn ask_prometheus(client: &PrometheusClient, question: &Question) -> Answer {
    match question {
        Question::Query(query) => client.query_value(query).await.into(),
        Question::Slo(slo) => {
            let (reading, traffic) = tokio::join!(ask_slo(client, slo), ask_traffic(client, slo));
            Answer { reading, traffic }
        }
        Question::Unanswerable(why) => Reading::unknown(why.clone()).into(),
        Question::Signal(..) | Question::Decision { .. } => Reading::unknown("a Prometheus is asked in PromQL alone").into(),
    }
}

async fn ask_decision(client: &DecisionClient, question: &Question) -> Answer {
    Answer::from(match question {
        Question::Decision { service_id, namespace, path } => client.decision(service_id, namespace.as_deref(), path).await,
        _ => Reading::unknown("a decision server is asked for decisions alone"),
    })
}

async fn ask_traffic(client: &PrometheusClient, slo: &SloQuestion) -> Option<Box<Traffic>> {
    let TrafficQuestion { promised, queries: Some(Ok(queries)) } = slo.traffic.as_deref()? else { return None };
    Some(Box::new(client.traffic(queries, promised).await))
}

async fn ask_slo(client: &PrometheusClient, slo: &SloQuestion) -> Reading {
    if let Some(query) = &slo.saturation {
        return client.saturation(query, slo.in_flight.as_deref()).await;
    }
    let query = |latency: &Option<LatencyQuestion>| latency.as_ref().and_then(|latency| latency.query.as_ref()?.as_ref().ok().cloned());
    let queries = LatencyQueries { ttft: query(&slo.ttft), tpot: query(&slo.tpot), traffic: slo.in_flight.clone() };
    let LatencyReadings { ttft, tpot } = client.latencies(&queries).await;
    // What was promised and cannot be asked for is unknown.
    let or_unknown = |reading: Option<Reading>, latency: &Option<LatencyQuestion>| {
        reading.or_else(|| Some(Reading::unknown(latency.as_ref()?.query.as_ref()?.as_ref().err()?.as_str())))
    };
    let (ttft, tpot) = (or_unknown(ttft, &slo.ttft), or_unknown(tpot, &slo.tpot));
    saturation(slo, ttft.as_ref(), tpot.as_ref())
}

fn read(scrape: &Scrape, question: &Question, now: Time) -> Answer {
    match question {
        Question::Signal(signal, aggregate) => scrape.signal(*signal, *aggregate, now).into(),
        Question::Slo(slo) => {
            let latency = |asked: &Option<LatencyQuestion>, which| asked.as_ref().map(|_| scrape.latency(which, slo.quantile, now));
            let (ttft, tpot) = (latency(&slo.ttft, Latency::Ttft), latency(&slo.tpot, Latency::Tpot));
            let traffic = slo.traffic.as_ref().map(|traffic| Box::new(scrape.traffic(&traffic.promised, now)));
            Answer { reading: saturation(slo, ttft.as_ref(), tpot.as_ref()), traffic }
        }
        Question::Unanswerable(why) => Reading::unknown(why.clone()).into(),
        Question::Query(_) | Question::Decision { .. } => Reading::unknown("pages answer no queries").into(),
    }
}

fn saturation(slo: &SloQuestion, ttft: Option<&Reading>, tpot: Option<&Reading>) -> Reading {
    fn of<'a>(asked: Option<&LatencyQuestion>, reading: Option<&'a Reading>) -> Option<engine::Latency<'a>> {
        Some(engine::Latency { reading: reading?, target: asked?.promised })
    }
    engine::saturation(of(slo.ttft.as_ref(), ttft), of(slo.tpot.as_ref(), tpot), slo.up_at)
}

async fn timed(context: &Context, namespace: &str, name: &str, ask: impl Future<Output = Answer>) -> Answer {
    let started = Instant::now();
    let answer = ask.await;
    context.metrics.source(namespace, name, started.elapsed().as_secs_f64(), !answer.reading.is_unknown());
    answer
}

#[cfg(test)]
mod tests {
    use llmscaler_api::parse_json;
    use serde_json::json;

    use super::*;

    #[test]
    fn pages_are_kept_for_what_the_strategy_measures_and_no_more() {
        let signals = |strategy: &str| {
            let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x"}, "minReplicas": 1, "maxReplicas": 8,
                "metricProvider": "Scrape", "preset": {"name": "vLLM"}, "slo": {"strategy": strategy, "ttft": "3s", "tpot": "100ms"}});
            let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
                "metadata": {"name": "x", "namespace": "serving"}, "spec": spec});
            let scaler = parse_json(object).unwrap().parse().unwrap();
            plan(&scaler, &questions(&scaler, "serving")).unwrap().0.signals
        };
        let latencies = [Signal::PredictedTtft, Signal::Ttft, Signal::PredictedTpot, Signal::Tpot];
        assert_eq!(signals("Band"), latencies);
        assert_eq!(signals("Headroom"), [&latencies[..], &TRAFFIC_SIGNALS].concat());
    }
}
