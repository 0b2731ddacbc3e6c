//! Step *observe*: what the sources say.

mod answer;
mod pages;
mod prometheus;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use llmscaler_api::{self as api, Provider, Scaler};
use llmscaler_engine::{Reading, Time, Traffic, Warmth};
use llmscaler_signals::scrape::{Access, Problem};
use llmscaler_signals::{DecisionClient, Endpoint, PrometheusClient};
use tokio::time::Instant;

use self::answer::Answer;
use self::pages::{PageAccess, Pages};
use crate::clock::Clock;
use crate::context::Context;
use crate::credentials::Keys;
use crate::pods::KeptPod;
use crate::questions::{Question, Scoped, questions, scoped};

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
    /// What is read in place of a server; `None` for other providers, and without a preset.
    pages: Option<Pages>,
}

#[derive(Clone)]
enum Connection {
    Prometheus(PrometheusClient),
    DecisionServer(DecisionClient),
    Pages(PageAccess),
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

impl Observer {
    /// For a generation of a scaler, whose pages are dated by `clock`; `before` is the observer of the generation before it.
    pub(crate) fn new(scaler: &Scaler, namespace: &str, clock: Clock, before: Option<Self>) -> Self {
        let questions = questions(scaler, namespace);
        Self {
            namespace: namespace.to_owned(),
            provider: scaler.provider.clone(),
            scoped: scoped(scaler, &questions),
            deletion_cost: scaler.deletion_cost_query.clone(),
            period: scaler.spec.sync_period,
            connection: None,
            pages: Pages::of(scaler, &questions, clock, before.and_then(|before| before.pages)),
            questions: questions.into(),
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
                ask_each(context, &namespace, name, &questions, |question| prometheus::ask(&client, question)).await
            }
            Connection::DecisionServer(client) => {
                ask_each(context, &namespace, name, &questions, |question| ask_decision(&client, question)).await
            }
            Connection::Pages(access) => {
                let started = Instant::now();
                let observed = match &mut self.pages {
                    Some(pages) => pages.read(&questions, &context.services, &namespace, pods, access, now).await,
                    None => {
                        let why = "there is no preset, so nobody knows what the pods' metrics are called; set spec.preset";
                        Observed::unknown(&questions, why)
                    }
                };
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
            (_, _, Some(pages)) => pages.warmth(now),
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
                Connection::Pages(PageAccess { pods, router: Access { transport, path, headers: keys.headers.clone() } })
            }
        };
        self.connection = Some((keys, connection.clone()));
        Ok(connection)
    }
}

/// Asks every question at once.
async fn ask_each<'a, F: Future<Output = Answer>>(
    context: &Context,
    namespace: &str,
    name: &str,
    questions: &'a [Question],
    ask: impl Fn(&'a Question) -> F,
) -> Observed {
    let each: Vec<_> = questions.iter().map(|question| timed(context, namespace, name, ask(question))).collect();
    Observed::of(join_all(each).await, vec![])
}

async fn ask_decision(client: &DecisionClient, question: &Question) -> Answer {
    Answer::from(match question {
        Question::Decision { service_id, namespace, path } => client.decision(service_id, namespace.as_deref(), path).await,
        _ => Reading::unknown("a decision server is asked for decisions alone"),
    })
}

async fn timed(context: &Context, namespace: &str, name: &str, ask: impl Future<Output = Answer>) -> Answer {
    let started = Instant::now();
    let answer = ask.await;
    context.metrics.source(namespace, name, started.elapsed().as_secs_f64(), !answer.reading.is_unknown());
    answer
}
