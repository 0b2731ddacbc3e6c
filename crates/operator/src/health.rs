//! Whether the operator's parts are alive, and whether it is ready to work.
//!
//! A probe that always says yes keeps a stuck process in service. Here each part that must never stop (a watch, the sync loop) says
//! so by its beats, and the probe fails when the beats stop. Leadership is no part of it: a standby does its job by waiting.
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
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

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
    /// Why the part does not get on, told at its last attempt.
    failure: Option<String>,
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
        let state = Mutex::new(State { last_beat: Instant::now(), ready: false, died: None, failure: None });
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

    /// Whether every part is live and has been ready once.
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
    /// The part is alive and getting on.
    pub fn beat(&self) {
        let mut state = lock(&self.beats.state);
        state.last_beat = Instant::now();
        state.failure = None;
    }

    /// The part is at work and does not get on. This is no beat: it only says why the part is silent.
    pub fn failing(&self, why: String) {
        lock(&self.beats.state).failure = Some(why);
    }

    /// The part has what it needs to do its work, such as the first list of a watch. Counts as a beat.
    pub fn ready(&self) {
        self.beat();
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
        let mut complaint = if let Some(died) = state.died {
            format!("{} stopped {} s ago", self.name, now.saturating_duration_since(died).as_secs())
        } else if silence > self.max_silence {
            format!("{} has been silent for {} s, at most {} s are normal", self.name, silence.as_secs(), self.max_silence.as_secs())
        } else {
            return None;
        };
        if let Some(why) = &state.failure {
            // Writing to a string cannot fail.
            let _ = write!(complaint, ": {why}");
        }
        Some(complaint)
    }

    fn not_ready(&self) -> Option<String> {
        let state = lock(&self.state);
        if state.ready {
            return None;
        }
        let why = state.failure.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        Some(format!("{} is not ready yet{why}", self.name))
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

        watch.failing("the API server refused the connection".to_owned());
        let complaint = "watch LLMScalers has been silent for 62 s, at most 60 s are normal: the API server refused the connection";
        assert_eq!(health.live(), Err(complaint.to_owned()));

        watch.beat();
        syncs.beat();
        assert_eq!(health.live(), Ok(()));
        advance(Duration::from_secs(61)).await;
        let complaint = "watch LLMScalers has been silent for 61 s, at most 60 s are normal";
        assert_eq!(health.live(), Err(complaint.to_owned()), "an old reason is no longer the reason");
    }

    #[tokio::test(start_paused = true)]
    async fn failing_within_the_allowed_silence_is_live() {
        let health = Health::new();
        let watch = health.part("watch pods", MINUTE);
        watch.failing("410 Gone".to_owned());
        assert_eq!(health.live(), Ok(()));
        assert_eq!(health.ready(), Err("watch pods is not ready yet: 410 Gone".to_owned()));
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
