//! What stands in the lease, and what is known of it.

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::time::Instant;

use super::LEASE_DURATION;

/// The lease as last seen, and since when.
#[derive(Debug, Default)]
pub(super) struct View {
    lease: Option<Lease>,
    /// When, by our clock, the holder was last seen to have renewed.
    renewed: Option<Instant>,
}

/// A lease to write.
#[derive(Debug)]
pub(super) struct Record(Lease);

impl View {
    /// Takes an answer of the API server, now. The time of its arrival counts, not that of the question: the holder may have
    /// renewed in between.
    pub(super) fn saw(&mut self, lease: Option<Lease>) {
        let renewal = |lease: &Option<Lease>| {
            let spec = lease.as_ref()?.spec.as_ref()?;
            Some((spec.holder_identity.clone(), spec.renew_time.clone(), spec.lease_transitions))
        };
        if self.renewed.is_none() || renewal(&self.lease) != renewal(&lease) {
            self.renewed = Some(Instant::now());
        }
        self.lease = lease;
    }

    /// Who holds the lease, expired or not.
    pub(super) fn holder(&self) -> Option<&str> {
        self.lease.as_ref()?.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Whether `identity` may take the lease: nobody else holds it, or has not renewed it for as long as the lease says.
    pub(super) fn free_for(&self, identity: &str) -> bool {
        self.holder().is_none_or(|holder| holder == identity || self.renewed.is_some_and(|renewed| renewed.elapsed() >= self.duration()))
    }

    fn duration(&self) -> std::time::Duration {
        let seconds = self.lease.as_ref().and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds);
        seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map_or(LEASE_DURATION, std::time::Duration::from_secs)
    }

    /// The lease as last seen, for a change. What others wrote into it stays.
    pub(super) fn record(&self) -> Record {
        Record(self.lease.clone().unwrap_or_default())
    }
}

impl Record {
    /// The lease held by `identity`, taken or renewed.
    pub(super) fn taken_by(mut self, identity: &str, now: Timestamp) -> Self {
        let first = self.0.spec.is_none();
        let spec = self.spec();
        if spec.holder_identity.as_deref() != Some(identity) {
            let transitions = spec.lease_transitions.unwrap_or(0);
            spec.lease_transitions = Some(if first { 0 } else { transitions.saturating_add(1) });
            spec.holder_identity = Some(identity.to_owned());
            spec.acquire_time = Some(MicroTime(now));
        }
        spec.lease_duration_seconds = Some(LEASE_DURATION.as_secs() as i32);
        spec.renew_time = Some(MicroTime(now));
        self
    }

    /// The lease held by nobody, in the form that client-go leaves.
    pub(super) fn vacated(mut self, now: Timestamp) -> Self {
        let spec = self.spec();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(MicroTime(now));
        spec.renew_time = Some(MicroTime(now));
        self
    }

    /// Whether it is to be created.
    pub(super) fn is_new(&self) -> bool {
        self.0.metadata.resource_version.is_none()
    }

    pub(super) fn named(&self, name: &str) -> Lease {
        let mut lease = self.0.clone();
        lease.metadata.name = Some(name.to_owned());
        lease
    }

    fn spec(&mut self) -> &mut LeaseSpec {
        self.0.spec.get_or_insert_default()
    }
}
