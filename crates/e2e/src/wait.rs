//! Waiting for what other processes do.

use kube::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Often enough to see each state of a pod, seldom enough for a machine that builds at the same time.
const INTERVAL: Duration = Duration::from_millis(100);

/// The object once `holds` of it, or else the last one seen; `null` stands for one that is not there.
pub(crate) async fn until<K>(api: &Api<K>, name: &str, timeout: Duration, holds: impl Fn(&Value) -> bool) -> Result<Value, Value>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let deadline = Instant::now() + timeout;
    loop {
        let object = api.get_opt(name).await.unwrap();
        let object = object.map_or(Value::Null, |object| serde_json::to_value(object).unwrap());
        if holds(&object) {
            return Ok(object);
        }
        if Instant::now() >= deadline {
            return Err(object);
        }
        sleep(INTERVAL).await;
    }
}

/// Tries until it succeeds, for what is not one object's state.
///
/// # Panics
/// When it does not within `timeout`, with the last error.
pub async fn eventually<T, E, F>(what: &str, timeout: Duration, mut attempt: impl FnMut() -> F) -> T
where
    E: Display,
    F: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + timeout;
    let mut last = String::from("nothing");
    loop {
        match timeout_at(deadline, attempt()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(error)) if Instant::now() >= deadline => panic!("not {what} within {timeout:?}: {error}"),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => panic!("not {what} within {timeout:?}: the last attempt did not end, the one before gave: {last}"),
        }
        sleep(INTERVAL).await;
    }
}
