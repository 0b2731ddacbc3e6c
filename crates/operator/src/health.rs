//! Whether the operator's parts are alive, and whether it is ready to work.
//!
//! A probe that always says yes keeps a stuck process in service. Here each part that must never stop (a watch, the sync loop) says
//! so by its beats, and the probe fails when the beats stop. Leadership is no part of it: a standby does its job by waiting.
//!
//! The two probes ask different questions. *Live* fails for what a restart may cure: a part that has died, or that beats no more.
//! *Ready* fails also while a part is at work in vain, such as a watch that the API server refuses: no restart grants permissions,
//! but people and roll-outs have to see it. One failure that is over soon is none; see [`Failures`].
//!
//! ```
//! # use std::time::Duration;
//! use llmscaler_operator::health::Health;
//!
//! let health = Health::new();
//! let watch = health.part("watch LLMScalers", Duration::from_secs(60));
//! assert!(health.live().is_ok());
//! assert!(health.ready().is_err(), "not before the first list is read");
//! watch.ready();
//! assert!(health.ready().is_ok());
//! drop(watch); // the task ended, and not by design
//! assert!(health.live().is_err());
//! ```

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use crate::deadline::API_SILENCE;

/// The health of the process: that of its parts together. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health {
    parts: Arc<Mutex<Vec<Arc<Beats>>>>,
}

/// One part's end of [`Health`]. Dropping it without [`Part::finished`] means that the part died.
#[derive(Debug)]
pub struct Part {
    health: Health,
    beats: Arc<Beats>,
}

#[derive(Debug)]
struct Beats {
    name: String,
    max_silence: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last_beat: Instant,
    ready: bool,
    died: Option<Instant>,
    failures: Failures,
}

/// For how long attempts have failed again and again before that counts.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long after its last failure something counts as working. A watch that has been taken up again says nothing until something
/// happens, and what keeps failing is tried at least every half minute, each time for as long as the API server may be silent.
const QUIET: Duration = API_SILENCE.saturating_add(Duration::from_secs(60));

/// What is told of an API server that does not even refuse.
const UNANSWERED: &str = "the API server does not answer a list";

/// The attempts at one thing that have failed since it last worked, or the one that is not answered.
#[derive(Debug, Default)]
pub struct Failures {
    run: Option<Run>,
    /// Since when a list, or the rest of it, has been waited for.
    waiting: Option<Instant>,
}

#[derive(Debug)]
struct Run {
    first: Instant,
    last: Instant,
    why: String,
}

impl Failures {
    /// An event of a watch has come, or it is about to ask for a list, which is an event, too.
    pub fn noted<T>(&mut self, event: &Event<T>) {
        self.waiting = match event {
            Event::Init | Event::InitApply(_) => Some(Instant::now()),
            Event::InitDone | Event::Apply(_) | Event::Delete(_) => None,
        };
        // That a list begins proves nothing.
        if !matches!(event, Event::Init) {
            self.run = None;
        }
    }

    /// An attempt has failed. Answers whether it failed for another reason than the one before.
    pub fn failed(&mut self, why: String) -> bool {
        let last = Instant::now();
        let begun = self.waiting.take().unwrap_or(last);
        let before = self.run.take().filter(|run| last.duration_since(run.last) < QUIET);
        let news = before.as_ref().is_none_or(|before| before.why != why);
        self.run = Some(Run { first: before.map_or(begun, |before| before.first), last, why });
        news
    }

    /// Why it fails, if it has been failing, or was not answered, for a minute.
    #[must_use]
    pub fn lasting(&self) -> Option<&str> {
        if self.waiting.is_some_and(|since| since.elapsed() >= PATIENCE) {
            return Some(UNANSWERED);
        }
        let run = self.run.as_ref().filter(|run| run.last.duration_since(run.first) >= PATIENCE && run.last.elapsed() < QUIET)?;
        Some(&run.why)
    }
}

impl Health {
    /// Health without parts, which is live and ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part that has to beat at least every `max_silence`, from now on. It replaces a dead part of the same name.
    #[must_use]
    pub fn part(&self, name: &str, max_silence: Duration) -> Part {
        let state = Mutex::new(State { last_beat: Instant::now(), ready: false, died: None, failures: Failures::default() });
        let beats = Arc::new(Beats { name: name.to_owned(), max_silence, state });
        let mut parts = lock(&self.parts);
        parts.retain(|part| part.name != name || lock(&part.state).died.is_none());
        parts.push(Arc::clone(&beats));
        drop(parts);
        Part { health: self.clone(), beats }
    }

    /// Whether every part is alive and was heard of recently.
    ///
    /// # Errors
    ///
    /// A sentence for people that names each part that is dead or silent, and for how long.
    pub fn live(&self) -> Result<(), String> {
        self.complaints(Beats::not_live)
    }

    /// Whether every part is live, has been ready once, and has not been failing since for more than a minute.
    ///
    /// # Errors
    ///
    /// A sentence for people that names each part that is not.
    pub fn ready(&self) -> Result<(), String> {
        self.complaints(|beats, now| beats.not_live(now).or_else(|| beats.not_ready()))
    }

    fn complaints(&self, complaint: impl Fn(&Beats, Instant) -> Option<String>) -> Result<(), String> {
        let now = Instant::now();
        let found: Vec<String> = lock(&self.parts).iter().filter_map(|beats| complaint(beats, now)).collect();
        if found.is_empty() { Ok(()) } else { Err(found.join("; ")) }
    }
}

impl Part {
    /// The part is alive, whether it gets on or not.
    pub fn beat(&self) {
        lock(&self.beats.state).last_beat = Instant::now();
    }

    /// The part has tried to do its work in vain. Answers whether for another reason than the last time.
    pub fn failed(&self, why: String) -> bool {
        lock(&self.beats.state).failures.failed(why)
    }

    /// Whether the part has been failing for more than a minute.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        lock(&self.beats.state).failures.lasting().is_some()
    }

    /// An event of the part's watch has come, which as a rule proves that it gets on with its work.
    pub fn noted<T>(&self, event: &Event<T>) {
        lock(&self.beats.state).failures.noted(event);
    }

    /// The part has what it needs to do its work, such as the first list of a watch.
    pub fn ready(&self) {
        lock(&self.beats.state).ready = true;
    }

    /// The part ends by design: nothing more is expected of it.
    pub fn finished(&self) {
        lock(&self.health.parts).retain(|beats| !Arc::ptr_eq(beats, &self.beats));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Where the part finished, nobody looks at its beats any more.
        lock(&self.beats.state).died = Some(Instant::now());
    }
}

impl Beats {
    fn not_live(&self, now: Instant) -> Option<String> {
        let state = lock(&self.state);
        let silence = now.saturating_duration_since(state.last_beat);
        if let Some(died) = state.died {
            Some(format!("{} stopped {} s ago", self.name, now.saturating_duration_since(died).as_secs()))
        } else if silence > self.max_silence {
            let (silence, most) = (silence.as_secs(), self.max_silence.as_secs());
            Some(format!("{} has been silent for {silence} s, at most {most} s are normal", self.name))
        } else {
            None
        }
    }

    fn not_ready(&self) -> Option<String> {
        let state = lock(&self.state);
        let lasting = state.failures.lasting();
        let latest = state.failures.run.as_ref().map(|run| run.why.as_str());
        match (state.ready, lasting, lasting.or(latest)) {
            (true, None, _) => None,
            (true, Some(why), _) => Some(format!("{} keeps failing: {why}", self.name)),
            (false, _, Some(why)) => Some(format!("{} is not ready yet: {why}", self.name)),
            (false, _, None) => Some(format!("{} is not ready yet", self.name)),
        }
    }
}

/// A panic elsewhere leaves these plain values whole, and the probe has to answer above all then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_silent_part_is_named_until_it_beats_again() {
        let health = Health::new();
        let watch = health.part("watch LLMScalers", MINUTE);
        let syncs = health.part("syncs", 2 * MINUTE);
        advance(MINUTE).await;
        assert_eq!(health.live(), Ok(()));

        advance(Duration::from_secs(2)).await;
        assert_eq!(health.live(), Err("watch LLMScalers has been silent for 62 s, at most 60 s are normal".to_owned()));

        watch.beat();
        syncs.beat();
        assert_eq!(health.live(), Ok(()));
    }

    const REFUSED: &str = "llmscalers is forbidden";

    async fn refused_for(watch: &Part, seconds: u64) {
        for _ in 0..seconds / 30 {
            watch.failed(REFUSED.to_owned());
            advance(Duration::from_secs(30)).await;
            watch.beat();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_for_long_is_not_ready_though_it_beats_and_stays_live() {
        let health = Health::new();
        let watch = health.part("watch LLMScalers", MINUTE);
        watch.failed(REFUSED.to_owned());
        assert_eq!(health.ready(), Err(format!("watch LLMScalers is not ready yet: {REFUSED}")));
        watch.noted(&Event::Apply(()));
        watch.ready();

        refused_for(&watch, 60).await;
        assert_eq!(health.ready(), Ok(()), "an API server may be replaced meanwhile");
        refused_for(&watch, 30).await;
        assert_eq!((health.live(), health.ready()), (Ok(()), Err(format!("watch LLMScalers keeps failing: {REFUSED}"))));
        refused_for(&watch, 600).await;
        assert_eq!((health.live(), health.ready()), (Ok(()), Err(format!("watch LLMScalers keeps failing: {REFUSED}"))));

        watch.noted(&Event::Apply(()));
        assert_eq!(health.ready(), Ok(()), "the next event proves that it works");
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_no_more_is_ready_again_though_nothing_happens() {
        let health = Health::new();
        let watch = health.part("watch LLMScalers", MINUTE);
        watch.ready();
        refused_for(&watch, 120).await;
        assert!(health.ready().is_err());
        for _ in 0..5 {
            advance(Duration::from_secs(30)).await;
            watch.beat();
        }
        assert_eq!(health.ready(), Ok(()));
        watch.failed("connection reset".to_owned());
        assert_eq!(health.ready(), Ok(()), "a new failure is not the continuation of the old ones");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_not_answered_counts_after_a_minute_without_another_part_of_it() {
        let health = Health::new();
        let watch = health.part("watch LLMScalers", MINUTE);
        let waits = async |seconds| {
            advance(Duration::from_secs(seconds)).await;
            watch.beat();
        };
        watch.noted(&Event::<()>::Init);
        waits(59).await;
        assert_eq!(health.ready(), Err("watch LLMScalers is not ready yet".to_owned()));
        waits(1).await;
        assert_eq!(health.ready(), Err(format!("watch LLMScalers is not ready yet: {UNANSWERED}")));
        watch.noted(&Event::InitDone::<()>);
        watch.ready();
        for _ in 0..10 {
            waits(60).await;
        }
        assert_eq!(health.ready(), Ok(()), "a quiet watch is no list");

        watch.noted(&Event::<()>::Init);
        waits(50).await;
        watch.noted(&Event::InitApply(()));
        waits(50).await;
        assert_eq!(health.ready(), Ok(()), "a long list comes in pages");
        waits(10).await;
        assert_eq!((health.live(), health.ready()), (Ok(()), Err(format!("watch LLMScalers keeps failing: {UNANSWERED}"))));
        watch.failed("it was silent for 120 s".to_owned());
        assert!(health.ready().is_err(), "it has been failing since it was asked");
        watch.noted(&Event::<()>::InitDone);
        assert_eq!(health.ready(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hangs_again_and_again_fails_and_does_not_work_in_between() {
        let health = Health::new();
        let watch = health.part("watch LLMScalers", MINUTE);
        watch.ready();
        let mut verdicts = vec![];
        // Each attempt lasts until the connection counts as dead, and half a minute at most is between two.
        for second in 0..1200 {
            if second % 150 == 120 {
                watch.failed("it was silent".to_owned());
            }
            verdicts.push(health.ready().is_ok());
            advance(Duration::from_secs(1)).await;
            watch.beat();
        }
        let turns: Vec<usize> = (1..verdicts.len()).filter(|&second| verdicts[second] != verdicts[second - 1]).collect();
        assert_eq!(turns, [270], "the second of the first failure that follows another");
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_was_dropped_is_dead_and_one_that_finished_is_gone() {
        let health = Health::new();
        let dies = health.part("syncs", MINUTE);
        let ends = health.part("first list", MINUTE);
        ends.finished();
        drop(ends);
        assert_eq!(health.live(), Ok(()));

        dies.ready();
        drop(dies);
        advance(Duration::from_secs(5)).await;
        assert_eq!(health.live(), Err("syncs stopped 5 s ago".to_owned()));
        assert!(health.ready().is_err());

        let again = health.part("syncs", MINUTE);
        assert_eq!(health.live(), Ok(()), "a new part takes the place of the dead one");
        again.finished();
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_waits_for_every_part_and_follows_liveness() {
        let health = Health::new();
        assert_eq!(health.ready(), Ok(()), "a standby without parts waits, which is its job");
        let (a, b) = (health.part("a", MINUTE), health.part("b", MINUTE));
        a.ready();
        assert_eq!(health.ready(), Err("b is not ready yet".to_owned()));
        b.ready();
        assert_eq!(health.ready(), Ok(()));

        advance(2 * MINUTE).await;
        let complaint = health.ready().unwrap_err();
        assert!(complaint.starts_with("a has been silent for 120 s") && complaint.contains("; b has been silent"), "{complaint}");
        a.beat();
        b.beat();
        assert_eq!(health.ready(), Ok(()), "ready once is ready again");
    }
}
