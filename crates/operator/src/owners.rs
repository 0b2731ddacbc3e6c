//! Who writes which target: other scalers, other autoscalers, and whoever takes back what is written.

mod autoscalers;
mod claim;
mod contest;
mod fields;
mod look;
mod product;
mod rival;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use llmscaler_api::{Scaler, TargetRef};
use llmscaler_engine::Mode;
use tokio::sync::watch;

use crate::target::Target;

pub(crate) use self::autoscalers::{Autoscalers, Changes, Watches};
pub(crate) use self::contest::{Contest, Taker};
pub(crate) use self::fields::{Holder, holders};
pub use self::look::{Around, Suspect, rivals, suspects};
pub use self::rival::Rival;

/// The target that a scaler writes; `None` for one that only recommends.
pub(crate) fn written(scaler: &Scaler) -> Option<&TargetRef> {
    (scaler.spec.mode == Mode::Auto).then_some(&scaler.target)
}

/// Whom the target of a scaler is left to, as the registers and watches have it; who takes back what is written is another matter.
pub(crate) fn first_rival(
    owners: &Owners,
    autoscalers: &Autoscalers,
    namespace: &str,
    scaler: &str,
    target: &Target,
    named: &TargetRef,
) -> Option<Rival> {
    let others = owners.others(namespace, scaler, named);
    others.or_else(|| autoscalers.of(namespace, named)).or_else(|| Rival::parent(target, named))
}

/// Which scalers write which target. Two that write the same one would undo each other's work, so neither writes.
pub(crate) struct Owners {
    by_target: Mutex<HashMap<Key, BTreeSet<String>>>,
    version: watch::Sender<u64>,
}

/// Namespace, group, kind and name. The version is another view of the same object.
type Key = (String, String, String, String);

fn key(namespace: &str, target: &TargetRef) -> Key {
    (namespace.to_owned(), target.group.clone(), target.kind.clone(), target.name.clone())
}

impl Owners {
    pub(crate) fn new() -> Self {
        Self { by_target: Mutex::default(), version: watch::channel(0).0 }
    }

    /// The scaler writes this target from now on.
    pub(crate) fn add(&self, namespace: &str, scaler: &str, target: &TargetRef) {
        self.change(|map| {
            map.entry(key(namespace, target)).or_default().insert(scaler.to_owned());
        });
    }

    /// The scaler no longer writes this target.
    pub(crate) fn remove(&self, namespace: &str, scaler: &str, target: &TargetRef) {
        let key = key(namespace, target);
        self.change(|map| {
            if let Some(scalers) = map.get_mut(&key) {
                scalers.remove(scaler);
                if scalers.is_empty() {
                    map.remove(&key);
                }
            }
        });
    }

    /// The scaler is gone, whatever it wrote: an edit may not have reached its task before it went.
    pub(crate) fn forget(&self, namespace: &str, scaler: &str) {
        self.change(|map| {
            map.retain(|(of, ..), scalers| {
                let left = of == namespace && scalers.remove(scaler);
                !(left && scalers.is_empty())
            });
        });
    }

    /// The other scalers that write the target; `None` when there are none.
    pub(crate) fn others(&self, namespace: &str, scaler: &str, target: &TargetRef) -> Option<Rival> {
        let map = self.by_target.lock().unwrap_or_else(PoisonError::into_inner);
        let others: Vec<&str> = map.get(&key(namespace, target))?.iter().map(String::as_str).filter(|name| *name != scaler).collect();
        let (who, verb) = match others.as_slice() {
            [] => return None,
            [one] => (format!("LLMScaler {one}"), "scales"),
            many => (format!("LLMScalers {}", many.join(", ")), "scale"),
        };
        let TargetRef { kind, name, .. } = target;
        Some(Rival {
            fact: format!("{who} {verb} {kind} {name} too"),
            advice: "delete one of them, or set mode: Recommend on it".to_owned(),
        })
    }

    /// Moves when a scaler comes to a target or leaves it.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<Key, BTreeSet<String>>)) {
        change(&mut self.by_target.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(owners: &Owners, namespace: &str, scaler: &str, target: &TargetRef) -> Option<String> {
        owners.others(namespace, scaler, target).map(|rival| rival.fact)
    }

    fn target(version: &str) -> TargetRef {
        TargetRef { group: "apps".into(), version: version.into(), kind: "Deployment".into(), name: "fleet".into() }
    }

    #[test]
    fn each_scaler_hears_of_the_others() {
        let owners = Owners::new();
        owners.add("serving", "a", &target("v1"));
        assert_eq!(others(&owners, "serving", "a", &target("v1")), None);
        owners.add("serving", "b", &target("v1beta1"));
        owners.add("elsewhere", "c", &target("v1"));
        assert!(others(&owners, "serving", "a", &target("v1")).unwrap().starts_with("LLMScaler b scales Deployment fleet too"));
        assert!(others(&owners, "serving", "b", &target("v1")).unwrap().contains("LLMScaler a"));
        owners.remove("serving", "b", &target("v1"));
        assert_eq!(others(&owners, "serving", "a", &target("v1")), None);
    }

    #[test]
    fn a_scaler_that_is_gone_leaves_all_its_targets_and_nobody_elses() {
        let owners = Owners::new();
        let other = TargetRef { name: "other".into(), ..target("v1") };
        for (namespace, scaler, target) in [("serving", "a", &target("v1")), ("serving", "b", &target("v1")), ("serving", "b", &other)] {
            owners.add(namespace, scaler, target);
        }
        owners.add("elsewhere", "b", &target("v1"));
        owners.forget("serving", "b");
        assert_eq!(others(&owners, "serving", "a", &target("v1")), None);
        assert_eq!(others(&owners, "serving", "a", &other), None);
        assert!(others(&owners, "serving", "c", &target("v1")).unwrap().contains("LLMScaler a"));
        assert!(others(&owners, "elsewhere", "c", &target("v1")).unwrap().contains("LLMScaler b"));
    }
}
