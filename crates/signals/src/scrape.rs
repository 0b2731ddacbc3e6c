//! Reads the metrics of pods, and of a router in front of them, from their own pages: no Prometheus.
//!
//! A [`Scrape`] belongs to one scaler. At each [`sync`](Scrape::sync) it reads the page of every ready pod of the target and of the
//! router (EPP), if there is one; then [`signal`](Scrape::signal), [`latency`](Scrape::latency) and
//! [`pods_with`](Scrape::pods_with) say what the pages say. What metrics are called, and what their series mean, comes from a
//! [`Preset`]; the answers are those that the preset's PromQL would give with a Prometheus that scrapes once per sync.
//!
//! # What is read
//!
//! All pages at once (at most 256), each within its own deadline, which is [2 s](LONGEST_SCRAPE) or half the sync period: a pod that
//! hangs delays nobody. A page is at most [8 MiB](LARGEST_PAGE) and is read as it comes in. Redirects and link-local addresses are
//! handled as everywhere in this crate, proxies are not used, and no compression is asked for, which would cost the engine's own
//! process. Pages belong to a pod's UID: what is left of pods that are gone, on their own pages or in what a router says of its
//! endpoints, is never used.
//!
//! # Rates and quantiles
//!
//! Rates are over the last minute, or over two and a half sync periods where that is longer ([`Scrape::window`]), with Prometheus'
//! rules for counter resets and extrapolation; quantiles are Prometheus' `histogram_quantile` over the rates of all pods' buckets.
//! A pod that restarts has its counters begin at 0, which is a reset and not work undone. A pod's first page gives no rate: one
//! that has just become ready adds nothing, as with Prometheus; one that was there before the operator was is missing.
//!
//! # Missing pods
//!
//! Ready pods that cannot be read, whose pages lack the metric, or that are [stuck](#stuck-pods), are *missing*. While more than half
//! of the ready pods are known, each missing one counts as the busiest of the others does, and no less than it did itself when last
//! read within the window; for a latency, as the slowest of the others. Otherwise the signal is unknown. It is unknown, too, when
//! pods are missing and all others are at 0. The reasons: unknown must not look like zero, so a missing pod may never make a fleet
//! look less busy than the rest of it proves; one bad pod of twenty must not stop the other nineteen from growing or shrinking; and
//! of the pods that fail to answer many do because they are overloaded. [`Scrape::problems`] names them, with reasons.
//!
//! With no ready pod, what pods say is unknown, and never 0. What a router says still counts.
//!
//! # Stuck pods
//!
//! An engine that hangs keeps stating the load that it had. So a pod is stuck when it has had requests running or queued for a whole
//! window, and at least four pages, while neither these numbers nor any of its counters of tokens and requests has moved. A pod
//! without requests is idle and not stuck.
//!
//! # Idleness
//!
//! Where no latency was observed there is no quantile. That is [idleness](llmscaler_engine::Reading::Idle) when every pod says, and
//! the router if there is one, that nothing runs and nothing is queued; else it is unknown, since a pool in which nothing finishes
//! may be stuck.
//!
//! # Routers
//!
//! With the preset of a router the router's page gives every signal. Beside an engine's preset the router adds the requests that it
//! holds back to `queuedRequests`, gives what it can while no pod is ready, and has a say in idleness.
//!
//! One page per scrape must come from one replica of the router: behind a Service with several, each scrape may reach another one,
//! whose counters look like resets and whose queue is another. Give [`ScrapeTargets::routers`] one address per replica then; what
//! they count is added, what each says of the whole pool is not, and all of them must answer.
//!
//! # The headroom law
//!
//! [`Scrape::traffic`] gives the law's inputs, the counters among them over up to two minutes. So when
//! [`TRAFFIC_SIGNALS`](crate::TRAFFIC_SIGNALS) are asked for, what of a page is measured for so long is kept when the page leaves the
//! window; latencies and the rest go.
//!
//! # Size
//!
//! A page costs 8 bytes per series that is wanted, and 40 bytes more; four are kept at a period of 15 s. Of a vLLM pod with both
//! latencies these are 51 series and 2 KB; with all that is around it, a scaler of four such pods takes 14 KB, and 10,000 of them
//! 140 MB (measured). Without latencies it is a third. For the headroom law a vLLM pod keeps some hundred series whole, and half of them for
//! longer, 6 KB; a scaler of four such pods takes 50 KB (measured). A page of 500 KB is read in 0.1 ms.

pub mod exposition;
mod fetch;
mod fleet;
mod instance;
mod latency;
mod page;
mod rate;
mod signal;
#[cfg(test)]
mod tests;
mod traffic;
mod wanted;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::num::NonZeroU32;
use std::time::Duration;

use llmscaler_engine::Time;

pub use self::fetch::{Access, LARGEST_PAGE, LONGEST_SCRAPE, PodAddress, ScrapeTargets};
use self::fetch::{Dates, Scraped, pages};
use self::instance::{Instance, Load, Retention};
use self::page::{Page, Reader, hash_of};
use self::wanted::Wanted;
use crate::preset::{Per, Preset, Signal};

/// The preset of the router that may stand in front of any engine.
const ROUTER: &str = "llm-d-EPP";

/// What an engine has done: one of these moves whenever it does anything.
const PROGRESS: [Signal; 3] = [Signal::GenerationTokens, Signal::PromptTokens, Signal::Requests];

/// What proves that nothing is to be done, with what stands in for it where it has no series.
const TRAFFIC: [Signal; 5] =
    [Signal::QueuedRequests, Signal::RunningRequests, Signal::PoolSaturation, Signal::ReadyEndpoints, Signal::KvCacheTokens];

/// What the pages of one scaler's pods and router say, and have said within the last window.
#[derive(Debug)]
pub struct Scrape {
    /// What is wanted of the pods' pages; `None` with the preset of a router.
    engine: Option<Wanted>,
    /// What is wanted of the router's pages; `None` where there is no router.
    router: Option<Wanted>,
    window: Duration,
    /// By UID; also those that have just left the targets, and may come back.
    pods: HashMap<String, Instance>,
    /// By address.
    routers: HashMap<String, Instance>,
    /// Keys and names of the last sync's targets, in their order.
    targets: Targets,
    /// What the caller asked for.
    asked: BTreeSet<Signal>,
    /// How many times as fast as the machine's the caller's clock goes on.
    speed: NonZeroU32,
}

#[derive(Debug, Default)]
struct Targets {
    synced: bool,
    /// UID and name.
    pods: Vec<(String, String)>,
    routers: Vec<String>,
}

/// A page that is at hand, or why it is not.
#[derive(Clone, Debug)]
pub struct PodPage<'a> {
    /// The name of the pod.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The body of the page, or the reason in words that follow the pod's name.
    pub page: Result<&'a [u8], &'a str>,
}

/// A pod or router of which the last sync brought nothing usable, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the pod, or the address of the router.
    pub name: String,
    /// What is wrong and what to do.
    pub why: String,
}

impl Scrape {
    /// The shortest window of rates, that of the guides' recording rules and of the presets' queries.
    pub const SHORTEST_WINDOW: Duration = Duration::from_secs(60);

    /// For `signals`, the latencies' among them, of the pool that `preset` and the labels `match_labels` describe; `router` says
    /// whether a router is read beside an engine's pods. `window` is the span of rates and the time after which an unmoving load is
    /// stuck: [`Scrape::window`] unless time is compressed.
    #[must_use]
    pub fn new(
        preset: &'static Preset,
        router: bool,
        signals: impl IntoIterator<Item = Signal>,
        match_labels: &BTreeMap<String, String>,
        window: Duration,
    ) -> Self {
        let asked: BTreeSet<Signal> = signals.into_iter().collect();
        let of_router = preset.rows().iter().all(|row| row.per != Per::Engine);
        let and = |more: &[Signal]| asked.iter().chain(&TRAFFIC).chain(more).copied().collect();
        let engine = (!of_router).then(|| Wanted::new(preset, &and(&PROGRESS), match_labels));
        let router = if of_router { Some(preset) } else { Preset::named(ROUTER).filter(|_| router) };
        let router = router.map(|preset| Wanted::new(preset, &and(&[]), match_labels));
        Self {
            engine,
            router,
            window,
            pods: HashMap::new(),
            routers: HashMap::new(),
            targets: Targets::default(),
            asked,
            speed: NonZeroU32::MIN,
        }
    }

    /// For a caller whose clock goes on `speed` times as fast as the machine's: pages are dated by that clock. Deadlines stay the
    /// machine's.
    #[must_use]
    pub fn at_speed(self, speed: NonZeroU32) -> Self {
        Self { speed, ..self }
    }

    /// The window for a sync period: a minute, or two and a half periods where that is longer, so that one scrape may fail.
    #[must_use]
    pub fn window(period: Duration) -> Duration {
        Self::SHORTEST_WINDOW.max(period * 5 / 2)
    }

    /// The deadline of each page for a sync period.
    #[must_use]
    pub fn deadline(period: Duration) -> Duration {
        LONGEST_SCRAPE.min(period / 2)
    }

    /// Reads the page of every target, each within `deadline`. `now` is the moment at which it is called. It never fails: what could
    /// not be read is in [`problems`](Self::problems) and in the readings. Dropped half-way, it has changed nothing.
    pub async fn sync(&mut self, targets: &ScrapeTargets, deadline: Duration, now: Time) {
        let alive = hashes(targets.pods.iter().map(|pod| pod.name.as_str()));
        let dates = Dates::from(now, self.speed);
        let of_pods = async {
            match &self.engine {
                Some(wanted) => {
                    let bases = targets.pods.iter().map(|pod| pod.base.as_str()).collect();
                    pages(bases, &targets.pod_access, wanted, &alive, deadline, dates).await
                }
                None => Vec::new(),
            }
        };
        let of_routers = async {
            match &self.router {
                Some(wanted) => {
                    let bases = targets.routers.iter().map(String::as_str).collect();
                    pages(bases, &targets.router_access, wanted, &alive, deadline, dates).await
                }
                None => Vec::new(),
            }
        };
        let (of_pods, of_routers) = futures::join!(of_pods, of_routers);
        self.record(targets.pods.iter().map(|pod| (pod.uid.as_str(), pod.name.as_str())), of_pods, &targets.routers, of_routers, now);
    }

    /// As [`sync`](Self::sync), from pages that are at hand. With the preset of a router the pods' pages do not matter.
    pub fn read(&mut self, pods: &[PodPage<'_>], routers: &[(String, Result<&[u8], &str>)], now: Time) {
        let alive = hashes(pods.iter().map(|pod| pod.name));
        let read = |wanted: &Option<Wanted>, page: &Result<&[u8], &str>| {
            let wanted = wanted.as_ref()?;
            let page = page.map_err(str::to_owned).and_then(|page| {
                let mut reader = Reader::new(wanted, &alive);
                reader.read(page).and_then(|()| reader.finish()).map_err(|why| why.to_string())
            });
            Some((now, page))
        };
        let of_pods = pods.iter().filter_map(|pod| read(&self.engine, &pod.page)).collect();
        let of_routers = routers.iter().filter_map(|(_, page)| read(&self.router, page)).collect();
        let addresses: Vec<String> = routers.iter().map(|(address, _)| address.clone()).collect();
        self.record(pods.iter().map(|pod| (pod.uid, pod.name)), of_pods, &addresses, of_routers, now);
    }

    /// Takes the pages of one sync.
    fn record<'a>(
        &mut self,
        pods: impl Iterator<Item = (&'a str, &'a str)>,
        of_pods: Vec<Scraped>,
        routers: &[String],
        of_routers: Vec<Scraped>,
        now: Time,
    ) {
        let had_a_past = !self.targets.synced;
        let pods: Vec<_> = pods.map(|(uid, name)| (uid.to_owned(), name.to_owned())).collect();
        self.targets = Targets { synced: true, pods, routers: routers.to_vec() };
        let (of_engine, of_router) = (Retention::of(self.engine.as_ref(), self.window), Retention::of(self.router.as_ref(), self.window));
        let mut first: Option<(Page, Option<Page>)> = None;
        for ((uid, name), (at, scraped)) in self.targets.pods.iter().zip(of_pods) {
            let pod = self.pods.entry(uid.clone()).or_insert_with(|| Instance::new(name, had_a_past));
            let load = |page: &Page| self.engine.as_ref().and_then(|wanted| load(wanted, page));
            pod.record(scraped, at, of_engine, load);
            match &first {
                Some((whole, older)) => pod.share_with(whole, older.as_ref()),
                None => first = pod.page().ok().map(|page| (page.clone(), pod.last_older().cloned())),
            }
        }
        for (address, (at, scraped)) in self.targets.routers.iter().zip(of_routers) {
            let router = self.routers.entry(address.clone()).or_insert_with(|| Instance::new(address, had_a_past));
            router.record(scraped, at, of_router, |_| None);
        }
        let (uids, addresses): (HashSet<_>, HashSet<_>) =
            (self.targets.pods.iter().map(|(uid, _)| uid).collect(), self.targets.routers.iter().collect());
        forget(&mut self.pods, now, of_engine, &uids);
        forget(&mut self.routers, now, of_router, &addresses);
    }

    /// The pods and routers that the last sync could not read, those whose pages lack what was asked for, and the pods that are
    /// stuck: what the readings had to do without, also where they have a value.
    #[must_use]
    pub fn problems(&self, now: Time) -> Vec<Problem> {
        let problem = |instance: &Instance, why: String| Problem { name: instance.name.clone(), why };
        let pods = self.ready_pods().filter_map(|pod| match pod.page() {
            Err(why) => Some(problem(pod, why.to_owned())),
            Ok(page) => self.stuck(pod, now).or_else(|| self.lack(page)).map(|why| problem(pod, why)),
        });
        let routers = self.read_routers().filter_map(|router| router.page().err().map(|why| problem(router, why.to_owned())));
        pods.chain(routers).collect()
    }

    /// What an engine's page lacks of what was asked for.
    fn lack(&self, page: &Page) -> Option<String> {
        let wanted = self.engine.as_ref()?;
        let lacks = |signal: &Signal| signal::value(wanted, *signal, page).is_none();
        // Versions differ in what only the headroom law reads, and it does without.
        let mut missed = self.asked.iter().filter(|signal| !signal.is_of_the_law() && lacks(signal));
        let (_, row) = missed.find_map(|signal| wanted.signal(*signal))?;
        Some(signal::no_series(row))
    }

    /// The pods of the last sync, as far as their pages are read.
    fn ready_pods(&self) -> impl Iterator<Item = &Instance> {
        self.targets.pods.iter().filter_map(|(uid, _)| self.pods.get(uid))
    }

    fn read_routers(&self) -> impl Iterator<Item = &Instance> {
        self.targets.routers.iter().filter_map(|address| self.routers.get(address))
    }

    /// Why a pod is stuck, if it is.
    fn stuck(&self, pod: &Instance, now: Time) -> Option<String> {
        // No count of seconds: a text that changes with each sync would be news each time.
        pod.stuck(now, self.window).then(|| {
            let window = self.window.as_secs();
            format!(
                "it has had requests for more than {window} s and serves none: neither its load nor any of its counters moves; see its \
                 log, and delete the pod if it hangs"
            )
        })
    }

    /// Bytes that the history occupies, lists of series not counted.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.pods.values().chain(self.routers.values()).map(Instance::bytes).sum()
    }
}

fn hashes<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<u64> {
    names.map(hash_of).collect()
}

/// What an engine's page says of its load, where it tells both that and what was done.
fn load(wanted: &Wanted, page: &Page) -> Option<Load> {
    let of = |signal| signal::value(wanted, signal, page);
    let done: Vec<f64> = PROGRESS.into_iter().filter_map(of).collect();
    let load = Load { running: of(Signal::RunningRequests)?, queued: of(Signal::QueuedRequests)?, done: done.iter().sum() };
    (!done.is_empty()).then_some(load)
}

/// Drops what has left the window, and whoever has nothing left and is no target any more.
fn forget(instances: &mut HashMap<String, Instance>, now: Time, kept: Retention<'_>, targets: &HashSet<&String>) {
    instances.retain(|key, instance| {
        instance.forget(now, kept);
        targets.contains(key) || instance.last_page().is_some()
    });
}
