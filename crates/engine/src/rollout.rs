//! Whether a template change is under way.

use crate::Replicas;
use crate::wording::{are, counted, some_are};

/// Whether a template change is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// All pods are of the newest template.
    #[default]
    Settled,
    /// Pods are being replaced; in words.
    InProgress(String),
    /// The rollout has failed, so waiting for it would be for ever; in words.
    Stalled(String),
}

/// The counts that tell a rollout, for any workload that reports them.
///
/// The rule is the one of document A for Deployments: a rollout is under way while the controller has not seen the newest
/// spec, while fewer pods than `spec.replicas` are of the newest template, or while older ones remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutCounts {
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`, 0 when absent.
    pub observed_generation: i64,
    /// How many replicas should be of the newest template, `spec.replicas` unless the workload is partitioned.
    pub wanted: Replicas,
    /// `status.replicas`, 0 when absent.
    pub replicas: Replicas,
    /// `status.updatedReplicas`, 0 when absent.
    pub updated: Replicas,
    /// Whether older pods are there to stay, as behind a partition.
    pub keeps_old: bool,
}

impl RolloutCounts {
    /// Whether these counts show a rollout under way.
    #[must_use]
    pub fn phase(self) -> Rollout {
        let Self { generation, observed_generation, wanted, replicas, updated, keeps_old } = self;
        if observed_generation < generation {
            Rollout::InProgress(format!("its controller has seen generation {observed_generation} of {generation}"))
        } else if updated < wanted {
            Rollout::InProgress(format!("{} on the newest template", some_are(updated.get(), wanted.get(), "replica")))
        } else if replicas > updated && !keeps_old {
            let older = replicas.minus(updated.get()).get();
            Rollout::InProgress(format!("{} of an older template {} left", counted(older, "pod"), are(older)))
        } else {
            Rollout::Settled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(observed_generation: i64, wanted: u32, replicas: u32, updated: u32) -> Rollout {
        RolloutCounts {
            generation: 2,
            observed_generation,
            wanted: Replicas::new(wanted),
            replicas: Replicas::new(replicas),
            updated: Replicas::new(updated),
            keeps_old: false,
        }
        .phase()
    }

    #[test]
    fn each_sign_of_a_rollout_counts() {
        assert_eq!(counts(2, 3, 3, 3), Rollout::Settled);
        assert!(matches!(counts(1, 3, 3, 3), Rollout::InProgress(why) if why.contains("generation 1 of 2")));
        assert!(matches!(counts(2, 3, 3, 2), Rollout::InProgress(why) if why == "2 of 3 replicas are on the newest template"));
        assert!(matches!(counts(2, 1, 1, 0), Rollout::InProgress(why) if why == "0 of 1 replica is on the newest template"));
        assert!(matches!(counts(2, 3, 4, 3), Rollout::InProgress(why) if why == "1 pod of an older template is left"));
        assert_eq!(counts(3, 0, 0, 0), Rollout::Settled);
    }

    #[test]
    fn older_pods_behind_a_partition_are_no_rollout() {
        let (wanted, replicas) = (Replicas::new(2), Replicas::new(5));
        let behind = RolloutCounts { generation: 2, observed_generation: 2, wanted, replicas, updated: wanted, keeps_old: true };
        assert_eq!(behind.phase(), Rollout::Settled);
        assert!(matches!(RolloutCounts { updated: Replicas::ONE, ..behind }.phase(), Rollout::InProgress(_)), "before it gets there");
    }
}
