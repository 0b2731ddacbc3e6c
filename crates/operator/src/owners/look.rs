//! One look at the objects around a target: who else decides on its size, by the same rules as at each sync.

use std::collections::BTreeSet;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::DynamicObject;
use llmscaler_api::{Scaler, TargetRef};

use super::claim::{Claim, Named, key_of};
use super::product::Product;
use super::rival::{Rival, advice_on_parent, claim_of_parent};
use super::{Owners, written};
use crate::target::Target;

/// The objects around the target of one scaler, as far as they are known: what could not be read is left empty.
#[derive(Debug)]
pub struct Around<'a> {
    /// The namespace of all of them.
    pub namespace: &'a str,
    /// The name of the scaler.
    pub scaler: &'a str,
    /// Its target.
    pub target: &'a TargetRef,
    /// The target as it is stored.
    pub object: Option<&'a DynamicObject>,
    /// All scalers of the namespace, by name. The scaler itself may be among them.
    pub scalers: &'a [(String, Scaler)],
    /// All HPAs of the namespace.
    pub hpas: &'a [HorizontalPodAutoscaler],
    /// All of KEDA's objects in the namespace.
    pub scaled_objects: &'a [DynamicObject],
}

/// Somebody who has written the size, or may, and keeps nobody from writing it until they have taken a write back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Who, and what is known of them.
    pub fact: String,
    /// What to do.
    pub advice: String,
    /// Whether they can be expected to write the size again, without a person who means to.
    pub returns: bool,
}

/// Who else decides on the size of a target. While there is one, nothing is written; the first one is what a scaler's `TargetOwned` names,
/// unless somebody has taken back what was written, which no look shows.
#[must_use]
pub fn rivals(around: &Around<'_>) -> Vec<Rival> {
    let Around { namespace, scaler, target, .. } = around;
    let owners = Owners::new();
    for (name, other) in around.scalers {
        if let Some(target) = written(other) {
            owners.add(namespace, name, target);
        }
    }
    let of_hpas = around.hpas.iter().filter_map(Claim::of_hpa);
    let claims = of_hpas.chain(around.scaled_objects.iter().filter_map(Claim::of_scaled_object));
    let key = key_of(namespace, target);
    let named: BTreeSet<Named> = claims.filter(|claim| claim.target == key).map(|claim| claim.by).collect();
    let parent = around.object.and_then(|object| Rival::parent(&Target::of(object), target));
    let scalers = owners.others(namespace, scaler, target).into_iter();
    scalers.chain(named.iter().map(|named| Rival::autoscaler(named, target))).chain(parent).collect()
}

/// Who may write the size of a target again, and is none of its [`rivals`].
#[must_use]
pub fn suspects(object: &DynamicObject, named: &TargetRef) -> Vec<Suspect> {
    let (target, TargetRef { kind, name, .. }) = (Target::of(object), named);
    let claim = claim_of_parent(&target);
    let others = target.holders.iter().filter(|holder| !holder.is_ours() && Some(*holder) != claim);
    let managers: BTreeSet<&str> = others.map(|holder| holder.manager.as_str()).collect();
    let writers = managers.into_iter().filter_map(|manager| {
        let product = Product::of(manager);
        // What these do, objects of theirs show.
        if matches!(product, Product::ControllerManager | Product::Keda) {
            return None;
        }
        let who = if manager.is_empty() { "somebody without a name" } else { manager };
        let habit = product.habit().map(|habit| format!(": {habit}")).unwrap_or_default();
        Some(Suspect {
            fact: format!("{who} owns spec.replicas of {kind} {name} as well{habit}"),
            advice: product.remedy(manager),
            // A person may have written it once, and whoever is not known may never write again.
            returns: !matches!(product, Product::Kubectl | Product::KubectlOnce | Product::GoOperator | Product::Unnamed | Product::Other),
        })
    });
    let mut suspects: Vec<Suspect> = writers.collect();
    if let Some(parent) = target.parent.as_ref().filter(|_| claim.is_none()) {
        suspects.push(Suspect {
            fact: format!("{kind} {name} belongs to {parent}, whose controller may write its size again"),
            advice: advice_on_parent(&parent.to_string()),
            returns: true,
        });
    }
    suspects
}

#[cfg(test)]
mod tests;
