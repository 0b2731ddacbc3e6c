//! Answers of the API server that count as current for a little while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long an answer counts as current. What has been rotated or moved is in use after this at the latest, without a call to the
/// API server for each sync of each scaler.
pub(crate) const FRESH: Duration = Duration::from_secs(15);

/// Answers by what was asked. Failures are not kept: what is missing is found as soon as it is there.
pub(crate) struct Cached<K, V> {
    answers: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Eq + Hash, V: Clone> Cached<K, V> {
    pub(crate) fn new() -> Self {
        Self { answers: Mutex::default() }
    }

    /// The answer to `key`, asked for anew when the last one is too old.
    pub(crate) async fn get<E>(&self, key: K, ask: impl Future<Output = Result<V, E>>) -> Result<V, E> {
        if let Some((at, answer)) = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && at.elapsed() < FRESH
        {
            return Ok(answer.clone());
        }
        let answer = ask.await?;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, (at, _)| at.elapsed() < FRESH);
        answers.insert(key, (Instant::now(), answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_for_again_when_it_is_old_and_a_failure_at_once() {
        let cached = Cached::new();
        let mut answers = vec![Ok(3), Ok(2), Err("down"), Ok(1)];
        let mut asked =
            async |cached: &Cached<&str, u8>| cached.get("key", std::future::ready(answers.pop().unwrap_or(Err("none left")))).await;
        assert_eq!(asked(&cached).await, Ok(1));
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        assert_eq!(cached.get("key", async { Err::<u8, _>("asked") }).await, Ok(1));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(asked(&cached).await, Err("down"));
        assert_eq!(asked(&cached).await, Ok(2));
    }
}
