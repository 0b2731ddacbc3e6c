//! What has happened, and whether all of it was right.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use llmscaler_sandbox::{Call, Change, Sandbox, Verb};
use serde_json::Value;

use crate::world::{Load, Shared, TARGET};

/// Our record on a marked pod.
const MARK: &str = "autoscaling.modelsphere.dev/deletion-cost-mark";
/// How long a lease stands without renewal, in seconds.
const LEASE: f64 = 15.0;
/// How long its holder counts on it.
const CLAIM: f64 = 10.0;
/// How long after an edit a size may be written by the spec before it, in seconds: the scaler is read right before each write, whatever its
/// watch shows, and each of the two calls may take its deadline.
const STALE_SPEC: f64 = 10.0;
/// How long after a mark the write of the size has to be tried: the marks are waited for, and a call may take its deadline.
const MARK_TO_WRITE: f64 = 12.0;
/// For how long a size may be another than is wanted without a word about it, in seconds.
const UNTOLD: f64 = 240.0;
/// How many calls one operator may make in a minute for each scaler, and besides.
const CALLS_OF_A_SCALER: usize = 60;
const CALLS_BESIDES: usize = 160;
/// How many of one kind about one object.
const SAME_CALLS: usize = 120;
/// After how many seconds whoever gets 429 may ask again.
pub const RETRY_AFTER: u32 = 3;

/// The bounds of a scaler since some time.
#[derive(Clone, Debug)]
struct Spec {
    since: f64,
    min: i64,
    max: i64,
    max_step: i64,
    auto: bool,
}

#[derive(Default)]
struct Lease {
    holder: String,
    renewed: f64,
}

pub struct Book {
    sandbox: Sandbox,
    shared: Arc<Mutex<Shared>>,
    pub started: Timestamp,
    version: u64,
    objects: BTreeMap<(String, String), Arc<Value>>,
    specs: BTreeMap<String, Vec<Spec>>,
    lease: Lease,
    /// Marks for which no write has been tried yet: when, by whom, on a pod of which fleet.
    marked: Vec<(f64, String, String)>,
    /// The calls of the last minute.
    recent: VecDeque<(f64, Call)>,
    /// What size of which fleet is not what is wanted, both since when.
    unmet: BTreeMap<String, (i64, i64, f64)>,
    /// When nobody led last.
    leaderless: f64,
    /// When the holder of the lease could not count on it last.
    unclaimed: f64,
    /// Until when what was refused with 429 may not be asked again, and when it was all the same.
    barred: BTreeMap<String, (f64, f64)>,
    /// How many writes of a size there were, and calls, and the most calls of one operator in a minute.
    pub writes: usize,
    pub calls: usize,
    pub busiest: usize,
}

impl Book {
    pub fn new(sandbox: &Sandbox, shared: Arc<Mutex<Shared>>) -> Self {
        Self {
            sandbox: sandbox.clone(),
            shared,
            started: sandbox.now(),
            version: 0,
            objects: BTreeMap::new(),
            specs: BTreeMap::new(),
            lease: Lease::default(),
            marked: vec![],
            recent: VecDeque::new(),
            unmet: BTreeMap::new(),
            unclaimed: -CLAIM,
            leaderless: 0.0,
            barred: BTreeMap::new(),
            writes: 0,
            calls: 0,
            busiest: 0,
        }
    }

    /// Seconds since the beginning.
    fn seconds(&self, at: Timestamp) -> f64 {
        at.duration_since(self.started).as_secs_f64()
    }

    pub fn now(&self) -> f64 {
        self.seconds(self.sandbox.now())
    }

    /// Looks at all that is new.
    pub fn audit(&mut self) {
        let changes = self.sandbox.changes_since(self.version).expect("the book is looked through often enough");
        let calls = self.sandbox.calls();
        for change in &changes {
            let author = calls.iter().find(|call| call.versions.start < change.version && change.version <= call.versions.end);
            self.change(change, author);
            self.version = change.version;
        }
        for call in calls {
            self.call(call);
        }
        let now = self.now();
        if now - self.lease.renewed >= CLAIM {
            self.unclaimed = now;
        }
        let late = self.marked.iter().find(|(at, agent, _)| now - at > MARK_TO_WRITE && *agent == self.lease.holder);
        // Whoever could not renew the lease has given the write up.
        let late = late.filter(|(at, ..)| self.unclaimed < *at);
        if let Some((at, agent, fleet)) = late {
            panic!("at {at:.1} s {agent} marked a pod of {fleet}, and has not tried to write its size since: {}", self.describe(fleet));
        }
        let holder = self.lease.holder.clone();
        self.marked.retain(|(at, agent, _)| now - at <= MARK_TO_WRITE && *agent == holder);
        if holder.is_empty() || now - self.lease.renewed > LEASE {
            self.leaderless = now;
        }
        for name in self.specs.keys().cloned().collect::<Vec<_>>() {
            self.keep(&name, now);
        }
    }

    /// What is wanted is written soon, or the scaler says why it is not.
    fn keep(&mut self, name: &str, now: f64) {
        let known = self.shared.lock().unwrap().loads.get(name).is_some_and(|load| load.iter().all(Option::is_some));
        if !known || !self.specs[name].last().unwrap().auto {
            self.unmet.remove(name);
            return;
        }
        let (wanted, size) = (self.wanted(name), self.size(name));
        let since = self.unmet.get(name).filter(|known| (known.0, known.1) == (wanted, size)).map_or(now, |known| known.2);
        self.unmet.insert(name.to_owned(), (wanted, size, since));
        if wanted == size || now - since.max(self.leaderless) < UNTOLD {
            return;
        }
        let scaler = self.object("LLMScaler", name);
        let unseen = scaler["status"]["observedGeneration"] != scaler["metadata"]["generation"];
        let told = ["AbleToScale", "Ready", "CapacityAvailable"].iter().any(|kind| self.condition(name, kind).0.starts_with("False"))
            // A window begins anew with each leader.
            || self.condition(name, "AbleToScale").0.ends_with("Stabilized");
        assert!(unseen || told, "{wanted} is wanted of {name} since {since:.0} s, and nothing tells why: {}", self.describe(name));
    }

    fn change(&mut self, change: &Change, author: Option<&Call>) {
        let object = change.after.as_ref().or(change.before.as_ref()).unwrap();
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let at = author.map_or_else(|| self.now(), |call| self.seconds(call.at));
        let agent = author.map(|call| call.agent.as_str()).filter(|agent| agent.starts_with("operator"));
        let of = |pointer: &str| {
            let value =
                |object: &Option<Arc<Value>>| object.as_ref().and_then(|object| object.pointer(pointer).cloned()).unwrap_or_default();
            (value(&change.before), value(&change.after))
        };
        match kind.as_str() {
            "Lease" => {
                self.lease = Lease { holder: text("/spec/holderIdentity"), renewed: at };
            }
            "LLMScaler" => {
                let (before, after) = of("/spec");
                if before != after {
                    self.specs.entry(name.clone()).or_default().push(spec(&after, at));
                }
                if let Some(agent) = agent {
                    self.leads(agent, at, &format!("wrote the status of {name}"));
                }
            }
            "Deployment" => {
                if let (Some(agent), (Value::Number(before), Value::Number(after))) = (agent, of("/spec/replicas"))
                    && before != after
                {
                    self.writes += 1;
                    let (before, after) = (before.as_i64().unwrap(), after.as_i64().unwrap());
                    self.leads(agent, at, &format!("wrote the size of {name}"));
                    self.write(&name, before, after, at);
                }
            }
            "Pod" => {
                let mark = |object: &Option<Arc<Value>>| {
                    object.as_ref().map(|pod| pod["metadata"]["annotations"][MARK].clone()).unwrap_or_default()
                };
                if let Some(agent) = agent {
                    self.leads(agent, at, &format!("annotated {name}"));
                    if mark(&change.after).is_string() {
                        self.marked.push((at, agent.to_owned(), text("/metadata/labels/app")));
                    }
                }
            }
            _ => {}
        }
        match &change.after {
            Some(after) => drop(self.objects.insert((kind, name), after.clone())),
            None => drop(self.objects.remove(&(kind, name))),
        }
    }

    /// Whoever writes holds the lease.
    fn leads(&self, agent: &str, at: f64, what: &str) {
        let Lease { holder, renewed } = &self.lease;
        assert!(holder == agent && at - renewed <= LEASE, "at {at:.1} s {agent} {what}, but {holder:?} leads since {renewed:.1} s");
    }

    /// A size is within the bounds, or on the way to them, and not smaller than what is known asks for.
    fn write(&self, name: &str, before: i64, after: i64, at: f64) {
        let told = format!("at {at:.1} s {name} was scaled from {before} to {after}");
        let specs = &self.specs[name];
        let valid = specs
            .iter()
            .enumerate()
            .filter(|(n, spec)| spec.since <= at && specs.get(n + 1).is_none_or(|next| next.since >= at - STALE_SPEC));
        let valid: Vec<&Spec> = valid.map(|(_, spec)| spec).collect();
        let fits = |spec: &&&Spec| {
            let walks_down = after > spec.max && after < before && before - after <= spec.max_step;
            spec.auto && ((spec.min..=spec.max).contains(&after) || walks_down)
        };
        assert!(valid.iter().any(|spec| fits(&spec)), "{told}, with {valid:?}");

        let shared = self.shared.lock().unwrap();
        let handed = shared.handed.get(name).map(Vec::as_slice).unwrap_or_default();
        // Which of a write and a reading of the same moment came first cannot be told.
        let (earlier, same): (Vec<_>, Vec<_>) =
            handed.iter().filter(|(read, _)| *read <= at).map(|(read, load)| (at - read < 0.001, load)).partition(|(same, _)| !same);
        let last: Vec<&Load> = same.iter().chain(earlier.last()).map(|(_, load)| *load).collect();
        assert!(!last.is_empty(), "{told} before anything was read");
        let most = valid.iter().map(|spec| spec.max).min().unwrap();
        let asks = |load: &&Load| if load.iter().all(Option::is_none) { before } else { asked(load) };
        if after < before {
            assert!(after >= last.iter().map(asks).min().unwrap().min(most), "{told}, with {last:?} read");
        } else {
            let asked_last = last.iter().map(|load| asked(load)).max().unwrap();
            let highest = valid.iter().map(|spec| spec.min).max().unwrap().max(asked_last);
            // A stabilisation window may hold what was asked for up to then.
            let held = handed.iter().filter(|(read, _)| at - 120.0 <= *read && *read <= at).map(|(_, load)| asked(load)).max().unwrap_or(0);
            assert!(after <= highest.max(held), "{told}, with {last:?} read");
        }
    }

    /// Nobody asks too often.
    fn call(&mut self, call: Call) {
        let at = self.seconds(call.at);
        if !call.agent.starts_with("operator") {
            return;
        }
        self.calls += 1;
        if call.verb == Verb::Patch && call.resource == "deployments" {
            self.marked.retain(|(_, agent, fleet)| *agent != call.agent || *fleet != call.name);
        }
        let key = format!("{} {:?} {} {} {}", call.agent, call.verb, call.resource, call.subresource, call.name);
        // Each event is another. A lease that is about to end is renewed at every chance. A watcher goes by its own pauses when the
        // client's fifteen attempts are used up.
        if !matches!(call.resource, "events" | "leases") && !matches!(call.verb, Verb::List | Verb::Watch) {
            let (until, early) = self.barred.get(&key).copied().unwrap_or((0.0, -60.0));
            if at < until - 0.01 {
                // A sync that comes due meanwhile, or a new term, asks anew; it does so once.
                assert!(at - early >= 60.0, "at {early:.1} s and {at:.1} s {key} was asked again, which it may be from {until:.1} s on");
            }
            let early = if at < until - 0.01 { at } else { early };
            self.barred.insert(key.clone(), (if call.code == 429 { at + f64::from(RETRY_AFTER) } else { until }, early));
        }
        let (agent, resource, verb, object) = (call.agent.clone(), call.resource, call.verb, call.name.clone());
        self.recent.push_back((at, call));
        while self.recent.front().is_some_and(|(then, _)| at - then > 60.0) {
            self.recent.pop_front();
        }
        let of_agent = || self.recent.iter().map(|(_, call)| call).filter(|call| call.agent == agent);
        let count = of_agent().count();
        self.busiest = self.busiest.max(count);
        let allowed = CALLS_BESIDES + CALLS_OF_A_SCALER * self.specs.len();
        let same = of_agent().filter(|call| call.resource == resource && call.verb == verb && call.name == object).count();
        if count > allowed || same > SAME_CALLS {
            let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
            for call in of_agent() {
                *kinds.entry(format!("{:?} {}/{} {}", call.verb, call.resource, call.subresource, call.code)).or_default() += 1;
            }
            panic!("in the minute before {at:.1} s {agent} made {count} calls, {same} of them {key}: {kinds:#?}");
        }
    }

    fn object(&self, kind: &str, name: &str) -> &Value {
        &self.objects[&(kind.to_owned(), name.to_owned())]
    }

    pub fn size(&self, name: &str) -> i64 {
        self.object("Deployment", name)["spec"]["replicas"].as_i64().unwrap()
    }

    /// The pods of a fleet that are not leaving.
    pub fn pods(&self, name: &str) -> Vec<&Arc<Value>> {
        let of_fleet = self.objects.iter().filter(|((kind, _), pod)| kind == "Pod" && pod["metadata"]["labels"]["app"] == name);
        let stays = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] != "Failed";
        of_fleet.map(|(_, pod)| pod).filter(|pod| stays(pod)).collect()
    }

    /// Whether the fleet has so many replicas, all of them ready, and no mark on any.
    pub fn is_settled(&self, name: &str, replicas: i64) -> bool {
        let status = &self.object("Deployment", name)["status"];
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        self.size(name) == replicas
            && count("replicas") == replicas
            && count("readyReplicas") == replicas
            && self.pods(name).iter().all(|pod| pod["metadata"]["annotations"][MARK].is_null())
    }

    /// The status and reason of a condition of the scaler, and its message.
    pub fn condition(&self, name: &str, kind: &str) -> (String, String) {
        let conditions = self.object("LLMScaler", name)["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (format!("{} {}", text("status"), text("reason")), text("message"))
    }

    /// The count that the scaler should come to: what it reads, within its bounds.
    pub fn wanted(&self, name: &str) -> i64 {
        let spec = self.specs[name].last().unwrap();
        asked(&self.shared.lock().unwrap().loads[name]).max(spec.min).min(spec.max)
    }

    pub fn describe(&self, name: &str) -> String {
        let status = &self.object("LLMScaler", name)["status"];
        let fleet = &self.object("Deployment", name)["status"];
        let marks: Vec<String> =
            self.pods(name).iter().map(|pod| format!("{} {}", pod["metadata"]["name"], pod["metadata"]["annotations"])).collect();
        let recent: Vec<String> = self
            .recent
            .iter()
            .rev()
            .filter(|(_, call)| call.resource != "leases")
            .take(40)
            .map(|(at, call)| {
                format!("{at:.1} {} {:?} {}/{} {} -> {}", call.agent, call.verb, call.resource, call.subresource, call.name, call.code)
            })
            .collect();
        format!(
            "at {:.1} s size {}, wanted {}, lease {:?}\nstatus {status:#}\nfleet {fleet}\npods {marks:#?}\ncalls {recent:#?}",
            self.now(),
            self.size(name),
            self.wanted(name),
            self.lease.holder
        )
    }
}

fn spec(spec: &Value, since: f64) -> Spec {
    let count = |pointer: &str| spec.pointer(pointer).and_then(Value::as_i64);
    Spec {
        since,
        min: count("/minReplicas").unwrap_or(1),
        max: count("/maxReplicas").unwrap_or(1),
        max_step: count("/scaleDown/maxStepReplicas").filter(|step| *step > 0).unwrap_or(i64::MAX),
        auto: spec["mode"] != "Recommend",
    }
}

/// How many replicas the known values ask for.
fn asked(load: &Load) -> i64 {
    let each = load.iter().flatten().map(|value| (value / TARGET).ceil() as i64);
    each.max().unwrap_or(0)
}
