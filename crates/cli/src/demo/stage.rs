//! The world of a demo: its API, its fleets and the operator, from the beginning to the end.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use llmscaler_api::LLMScaler;
use llmscaler_engine::{Profile, Time};
use llmscaler_operator::dashboard::{Dashboard, History};
use llmscaler_operator::{Clock, Options, RunError};
use llmscaler_sandbox::fleet::{Books, Fleet, Fleets, Lag, Plan};
use llmscaler_sandbox::{Sandbox, kubeconfig};
use llmscaler_simulator::scenario::{FleetSettings, Warmup};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cast::Guest;
use super::scenario::{Act, Scenario};
use super::traffic::Source;
use super::{PORT, summary};
use crate::failure::Failure;

/// The namespace of everything.
pub(super) const NAMESPACE: &str = "demo";

/// In whose name the demo makes and changes its objects.
const MANAGER: &str = "llmscaler-demo";

/// How far back the demo's time begins, so that it stays in the past for everybody who compares it with the time of day.
const BACK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How often pods are looked at, in the demo's time, and in real time at least and at most.
const LOOK: Duration = Duration::from_secs(2);
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

/// How long before its time the traffic is handed over, in seconds of the demo's time.
const AHEAD: f64 = 3600.0;

/// How often the state of the fleets is told, by the length of a scenario.
const ACCOUNTS: f64 = 8.0;

/// How long the operator may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The replicas' image after so many rollouts.
const IMAGE: &str = "vllm/vllm-openai:v0.11";

/// A demo that runs.
pub(super) struct Stage {
    pub client: Client,
    pub shutdown: CancellationToken,
    scenario: &'static Scenario,
    clock: Clock,
    began: (Timestamp, Instant),
    fleets: Vec<Fleet>,
    lag: Lag,
    guest: Option<Guest>,
    history: History,
    dashboard: SocketAddr,
    folder: TempDir,
    operator: JoinHandle<Result<(), RunError>>,
    traffic: Source,
    /// Acts that are over, and the next account.
    acted: usize,
    accounts: u32,
}

impl Stage {
    /// Starts everything.
    pub(super) async fn set(
        scenario: &'static Scenario,
        speed: NonZeroU32,
        guest: Option<Guest>,
        port: Option<u16>,
        shutdown: &CancellationToken,
    ) -> Result<Self, Failure> {
        let began = beginning(scenario.hour);
        let clock = Clock::compressed(began, speed);
        let sandbox = Sandbox::with_clock(move || clock.timestamp()).map_err(failed("the API cannot be made"))?;
        let listener = loopback(0).await?;
        let address = listener.local_addr().map_err(failed("the API has no port"))?;
        tokio::spawn(sandbox.clone().serve(listener, shutdown.clone()));
        let client = sandbox.client();
        create(&Api::<Namespace>::all(client.clone()), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await?;

        let names =
            scenario.strategies.iter().map(|strategy| strategy.name().to_owned()).chain(guest.iter().map(|guest| guest.name.clone()));
        let mut fleets = vec![];
        for name in names {
            fleets.push(Fleet::new(&sandbox, plan(scenario, name)?, began));
        }
        let mut scalers = vec![];
        for (index, fleet) in fleets.iter().enumerate() {
            let listener = loopback(0).await?;
            let router = listener.local_addr().map_err(failed("an endpoint picker has no port"))?.port();
            tokio::spawn(fleet.clone().serve_router(listener, shutdown.clone()));
            create(&Api::<Service>::namespaced(client.clone(), NAMESPACE), fleet.service(router)).await?;
            create(&Api::<Deployment>::namespaced(client.clone(), NAMESPACE), fleet.deployment()).await?;
            scalers.push(match (scenario.strategies.get(index), &guest) {
                (Some(strategy), _) => strategy.scaler(scenario, fleet, router),
                (None, Some(guest)) => guest.scaler(fleet, router),
                (None, None) => continue,
            });
        }
        let looks = clock.lasts(LOOK).clamp(LOOKS[0], LOOKS[1]);
        let all = Fleets::new(&sandbox, fleets.clone());
        let lag = all.lag();
        tokio::spawn(all.run(looks, shutdown.clone()));
        for scaler in scalers {
            create(&Api::<LLMScaler>::namespaced(client.clone(), NAMESPACE), scaler).await?;
        }

        let dashboard = dashboard(port, clock).await?;
        let (history, at) = (dashboard.history(), dashboard.addr());
        let folder = written(address)?;
        let uri = format!("http://{address}").parse().map_err(failed("the API has no address"))?;
        let over_http = Client::try_from(Config::new(uri)).map_err(failed("the API has no client"))?;
        let namespace = Some(NAMESPACE.to_owned());
        let options = Options {
            health: None,
            metrics: None,
            dashboard: Some(dashboard),
            external_metrics: None,
            namespace,
            leader_election: None,
            clock,
        };
        let operator = tokio::spawn(llmscaler_operator::run(over_http, options, shutdown.clone()));
        let mut stage = Self {
            client,
            shutdown: shutdown.clone(),
            scenario,
            clock,
            began: (began, Instant::now()),
            fleets,
            lag,
            guest,
            history,
            dashboard: at,
            folder,
            operator,
            traffic: Source::new(scenario.course, scenario.lengths),
            acted: 0,
            accounts: 1,
        };
        stage.send_traffic();
        Ok(stage)
    }

    /// What is said at the beginning.
    pub(super) fn opening(&self) -> String {
        let Scenario { name, story, .. } = self.scenario;
        let mut text = format!(
            "llmscaler demo: {name}, {} times as fast as time\n{story}\n\n  dashboard  http://{}/\n  kubectl    KUBECONFIG={} kubectl get llms,pods\n\n",
            self.clock.speed(),
            self.dashboard,
            for_shell(&self.kubeconfig().display().to_string())
        );
        for strategy in self.scenario.strategies {
            text += &format!("  {:<10} scales {}\n", strategy.name(), strategy.words());
        }
        if let Some(guest) = &self.guest {
            text += &format!("  {:<10} is yours\n", guest.name);
        }
        text + "\nCtrl-C ends it. What happens, by the demo's own clock:\n\n"
    }

    /// Does what is due now, and answers what is to be told of it.
    pub(super) async fn go_on(&mut self) -> Result<Vec<String>, Failure> {
        let now = self.now();
        let round = self.scenario.course.seconds();
        self.send_traffic();
        let mut lines = vec![];
        while let Some(act) = self.next_act(now) {
            self.acted += 1;
            self.act(act).await?;
            lines.push(format!("* {}", act.words()));
        }
        if now >= f64::from(self.accounts) * round / ACCOUNTS {
            self.accounts += 1;
            lines.push(format!("* {}", summary::line(self)));
            let at = Time::from_millis(self.clock.timestamp().as_millisecond());
            for (name, books) in self.books() {
                self.history.event(NAMESPACE, name, at, false, "DemoAccount", &summary::account(&books, self.behind()));
            }
        }
        Ok(lines)
    }

    /// The traffic of the next time, the same for every fleet.
    fn send_traffic(&mut self) {
        let requests = self.traffic.take_until(self.now() + AHEAD);
        self.fleets.iter().for_each(|fleet| fleet.send(&requests));
    }

    fn next_act(&self, now: f64) -> Option<Act> {
        let acts = self.scenario.acts;
        let round = self.acted.checked_div(acts.len())? as f64 * self.scenario.course.seconds();
        acts.get(self.acted % acts.len()).filter(|(at, _)| round + f64::from(*at) <= now).map(|(_, act)| *act)
    }

    async fn act(&self, act: Act) -> Result<(), Failure> {
        match act {
            Act::MetricsGo => self.fleets.iter().for_each(|fleet| fleet.tell(false)),
            Act::MetricsComeBack => self.fleets.iter().for_each(|fleet| fleet.tell(true)),
            Act::Rollout => {
                let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
                let image = format!("{IMAGE}.{}", self.acted);
                let template = json!({"spec": {"containers": [{"name": "vllm", "image": image}]}});
                let patch = Patch::Strategic(json!({"spec": {"template": template}}));
                for fleet in &self.fleets {
                    let manager = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                    let patched = deployments.patch(&fleet.plan().name, &manager, &patch).await;
                    patched.map_err(|error| Failure::Demo(format!("the rollout cannot begin: {error}")))?;
                }
            }
        }
        Ok(())
    }

    /// What every fleet has done, in the order of the scenario.
    pub(super) fn books(&self) -> Vec<(&str, Books)> {
        self.fleets.iter().map(|fleet| (fleet.plan().name.as_str(), fleet.books())).collect()
    }

    /// Seconds since the beginning, of the demo's time and of the machine's.
    pub(super) fn passed(&self) -> (f64, f64) {
        (self.now(), self.began.1.elapsed().as_secs_f64())
    }

    /// Seconds of the demo's time in which the machine had no time for the fleets.
    pub(super) fn behind(&self) -> f64 {
        self.lag.total().as_secs_f64()
    }

    /// The time by the demo's clock.
    pub(super) fn own_time(&self) -> Timestamp {
        self.clock.timestamp()
    }

    /// Resolves when the operator has ended by itself, which it does only when something is wrong.
    pub(super) async fn operator_ended(&mut self) -> Failure {
        match (&mut self.operator).await {
            Ok(Err(error)) => Failure::Demo(format!("the operator has ended: {error}")),
            Ok(Ok(())) => Failure::Demo("the operator has ended".to_owned()),
            Err(error) => Failure::Demo(format!("the operator has crashed: {error}")),
        }
    }

    /// Waits until the operator has ended, which it was told to.
    pub(super) async fn end(mut self) {
        if !self.operator.is_finished() {
            let _ = tokio::time::timeout(PATIENCE, &mut self.operator).await;
        }
    }

    fn now(&self) -> f64 {
        self.clock.timestamp().duration_since(self.began.0).as_secs_f64()
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

fn failed<E: Display>(what: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::Demo(format!("{what}: {error}"))
}

/// A word as a shell reads it.
fn for_shell(word: &str) -> String {
    let plain = |char: char| char.is_alphanumeric() || "/._-+:@%".contains(char);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The day a week ago, at this hour.
fn beginning(hour: i64) -> Timestamp {
    let now = Timestamp::now();
    let midnight = now.to_zoned(TimeZone::UTC).start_of_day().map_or(now, |day| day.timestamp());
    midnight.saturating_add(SignedDuration::from_hours(hour) - BACK).unwrap_or(midnight)
}

fn plan(scenario: &Scenario, name: String) -> Result<Plan, Failure> {
    let missing = || Failure::Demo(format!("the engine profile {} is missing", Profile::DEFAULT));
    let profile = Profile::named(Profile::DEFAULT).cloned().ok_or_else(missing)?;
    let settings = FleetSettings {
        warmup: Warmup { sigma: 0.1, ..Warmup::SEED },
        gpu_limit: scenario.room.map(|room| room * profile.gpus),
        ..FleetSettings::default()
    };
    let (namespace, promised, start) = (NAMESPACE.to_owned(), scenario.promised, scenario.start);
    Ok(Plan { namespace, name, profile, settings, promised, start, seed: 1 })
}

async fn loopback(port: u16) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    bound.map_err(|error| Failure::Demo(format!("no port on 127.0.0.1 can be had: {error}")))
}

/// The dashboard at the port that was asked for; at the usual one, or any, where none was.
async fn dashboard(port: Option<u16>, clock: Clock) -> Result<Dashboard, Failure> {
    let bind = |port| Dashboard::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), vec![], clock);
    let found = match port {
        Some(port) => bind(port).await,
        None => match bind(PORT).await {
            Ok(dashboard) => Ok(dashboard),
            Err(_) => bind(0).await,
        },
    };
    found.map_err(|_| {
        let asked = port.map_or_else(String::new, |port| format!(" {port}"));
        Failure::Demo(format!("port{asked} of 127.0.0.1 cannot be had for the dashboard; give another one with --port, or none"))
    })
}

/// The kubeconfig, in a folder of its own that goes with the demo.
fn written(address: SocketAddr) -> Result<TempDir, Failure> {
    let failed = |file: String| move |cause| Failure::Unwritable { file, cause };
    let folder = tempfile::Builder::new().prefix("llmscaler-demo-").tempdir();
    let folder = folder.map_err(failed(std::env::temp_dir().display().to_string()))?;
    let file = folder.path().join("kubeconfig");
    let text = kubeconfig(address, NAMESPACE).to_string();
    std::fs::File::create(&file).and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed(file.display().to_string()))?;
    Ok(folder)
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<(), Failure>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).map_err(|error| Failure::Demo(format!("an object of the demo has no form: {error}")))?;
    let created = api.create(&PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }, &object).await;
    created.map(drop).map_err(|error| match error {
        kube::Error::Api(status) => Failure::Demo(status.message),
        error => Failure::Demo(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_copied_into_a_shell() {
        assert_eq!(for_shell("/tmp/llmscaler-demo-a1/kubeconfig"), "/tmp/llmscaler-demo-a1/kubeconfig");
        for path in ["/tmp/with space/k", "/tmp/it's/k", "/tmp/$HOME;`x`&\"*\\/k"] {
            let said = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", for_shell(path))]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), path);
        }
    }
}
