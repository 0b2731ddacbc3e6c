//! Several operators, of which one acts.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, DecisionServer, Namespace, Operator, deployment, eventually};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet::{A_FEW_SYNCS, SOON, binding, launch_of};
use crate::scaler::on_decisions;
use crate::steered::{settles_at, without_operator};

/// The name that the Go operator gave its lease, too.
const LEASE: &str = "0abb3156.modelsphere.dev";

/// A lease that is not renewed is left alone for so long.
const EXPIRY: Duration = Duration::from_secs(15);

#[rstest]
#[tokio::test]
async fn when_the_leader_is_killed_the_standby_takes_over_once_the_lease_has_expired(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Candidates::start(on, "killed").await else { return };
    let leader = test.candidate().await;
    test.led_by(&leader).await;
    let standby = test.candidate().await;
    assert_eq!(standby.probe("/readyz").await, Some(200));
    assert_eq!(standby.probe("/healthz").await, Some(200));
    test.ask(3);
    test.settles_at(3).await;
    test.led_by(&leader).await;

    let renewed_before = Instant::now();
    leader.kill();
    test.ask(5);
    test.keeps(3, A_FEW_SYNCS).await;
    test.settles_at(5).await;
    test.led_by(&standby).await;
    // The leader may have renewed the lease for the last time some 2.5 seconds before.
    let waited = renewed_before.elapsed();
    assert!(waited > EXPIRY - Duration::from_secs(4), "taken after {waited:?}");
}

#[rstest]
#[tokio::test]
async fn a_leader_that_is_stopped_hands_over_at_once(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Candidates::start(on, "stopped").await else { return };
    let leader = test.candidate().await;
    test.led_by(&leader).await;
    let standby = test.candidate().await;
    test.ask(3);
    test.settles_at(3).await;
    let stopped = Instant::now();
    assert!(leader.stop().await.success());
    test.led_by(&standby).await;
    let waited = stopped.elapsed();
    assert!(waited < EXPIRY / 2, "handed over after {waited:?}");
    test.ask(5);
    test.settles_at(5).await;
}

#[rstest]
#[tokio::test]
async fn a_leader_whose_lease_is_stolen_writes_nothing_until_it_is_given_back(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Candidates::start(on, "stolen").await else { return };
    let operator = test.candidate().await;
    test.led_by(&operator).await;
    test.ask(3);
    test.settles_at(3).await;

    let thief = test.hold_as("thief").await;
    eventually("given up", SOON, || async {
        let log = operator.log_tail(usize::MAX);
        if log.contains("leadership is lost") { Ok(()) } else { Err("not yet") }
    })
    .await;
    test.ask(5);
    // For longer than an operator would think that it holds the lease.
    test.keeps(3, Duration::from_secs(12)).await;
    assert_eq!(operator.exited(), None);
    assert_eq!(operator.probe("/readyz").await, Some(200));
    thief.abort();
    test.release().await;
    test.settles_at(5).await;
    test.led_by(&operator).await;
}

/// A fleet of 2, its scaler and a lease of their own.
struct Candidates {
    ns: Namespace,
    server: DecisionServer,
}

impl Candidates {
    async fn start(on: ApiServer, purpose: &str) -> Option<Self> {
        let (ns, server) = without_operator(on, purpose).await?;
        let test = Self { ns, server };
        test.ask(2);
        test.ns.create(&deployment("fleet", 2)).await;
        test.ns.apply(&on_decisions(&test.ns, &test.server, json!({}))).await;
        test.settles_at(2).await;
        Some(test)
    }

    /// One more operator that wants to lead.
    async fn candidate(&self) -> Operator {
        let launch = launch_of(&self.ns).await;
        if self.ns.server() == Sandbox {
            return launch.leader_elect(self.ns.name()).start().await;
        }
        let role = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/rbac/leader_election_role.yaml")).unwrap();
        self.ns.apply(&role).await;
        self.ns.apply(&binding("leader-election", "Role", "llmscaler-leader-election")).await;
        launch.leader_elect(self.ns.name()).start().await
    }

    fn ask(&self, replicas: i64) {
        self.server.decide(self.ns.name(), "fleet", replicas);
    }

    async fn settles_at(&self, replicas: i64) {
        settles_at(&self.ns, "fleet", replicas).await;
    }

    async fn keeps(&self, replicas: i64, time: Duration) {
        let what = format!("at {replicas}");
        self.ns.stays(&self.ns.deployments(), "fleet", &what, time, |fleet| fleet["spec"]["replicas"] == replicas).await;
    }

    /// Waits until an operator holds the lease.
    async fn led_by(&self, operator: &Operator) {
        // The host is the same for all.
        let suffix = format!("_{}", operator.pid());
        let held = |lease: &Value| lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| holder.ends_with(&suffix));
        self.ns.wait_for(&self.ns.api::<Lease>(), LEASE, &format!("held by {suffix}"), SOON, held).await;
    }

    /// Takes the lease by force and renews it until the task is aborted.
    async fn hold_as(&self, holder: &str) -> JoinHandle<()> {
        let lease = |holder: &str| json!({"spec": {"holderIdentity": holder, "renewTime": format!("{:.6}", Timestamp::now())}});
        let (api, holder) = (self.ns.api::<Lease>(), holder.to_owned());
        self.ns.patch(&api, LEASE, &lease(&holder)).await;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                api.patch(LEASE, &PatchParams::default(), &Patch::Merge(lease(&holder))).await.unwrap();
            }
        })
    }

    /// Gives the lease to nobody.
    async fn release(&self) {
        self.ns.patch(&self.ns.api::<Lease>(), LEASE, &json!({"spec": {"holderIdentity": ""}})).await;
    }
}
