//! Simulates LLM inference fleets under traffic, in virtual time.
//!
//! A workload's requests go through a router to replicas that behave as vLLM's do, step by step; a metrics pipeline reads what these
//! count, as late and as coarsely as a real one; a policy looks at it and resizes the fleet. What comes out is what the policy would
//! have cost, and how many requests would have been in time. Our own policy is [`llmscaler_engine::decide`] itself.
//!
//! All times are in seconds of virtual time. The same seed gives the same bytes.

mod arrivals;
pub mod bound;
pub mod buckets;
mod capacity;
mod clients;
mod events;
mod fleet;
mod gateway;
mod meters;
pub mod metrics;
pub mod outcome;
pub mod policy;
pub mod random;
mod replica;
pub mod report;
mod request;
mod router;
pub mod scenario;
mod simulation;
pub mod workload;

pub use arrivals::{Arrivals, ClosedLoop};
pub use capacity::{Capacity, capacity};
pub use fleet::PodLife;
pub use meters::{Counts, EngineMeters, GatewayMeters, Latencies, Samples};
pub use request::{Promised, Request, Served};
pub use scenario::Scenario;
pub use simulation::{Happening, Simulation};
pub use workload::Workload;
