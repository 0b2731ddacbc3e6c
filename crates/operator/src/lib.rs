//! The controller that scales workloads by their LLMScaler.
//!
//! One task runs for each LLMScaler. A sync reads as *dereference → observe → decide → apply → report*, one module each; only
//! `apply` writes to the target, and only while this replica is the leader. Watches on targets and pods are shared between the
//! scalers of a namespace. Syncs are paced by their period; a watch event may only release a write that a guard kept back, or
//! start the sync of a target that has appeared.

mod actuation;
mod apply;
mod cached;
mod clock;
mod cluster;
mod context;
mod credentials;
pub mod dashboard;
mod deadline;
mod dereference;
pub mod diagnose;
pub mod external_metrics;
#[cfg(test)]
mod fake_api;
pub mod health;
mod hpa;
pub mod lease;
mod marks;
pub mod metrics;
mod observe;
mod owners;
mod pods;
mod questions;
mod readings;
mod report;
mod run;
mod scaler;
pub mod serve;
mod services;
mod supervisor;
mod target;
mod warmup;
mod watch;
mod words;

pub use clock::Clock;
pub use deadline::API_SILENCE;
pub use readings::Readings;
#[doc(hidden)]
pub use run::run_with_readings;
pub use run::{LeaderElection, Options, RunError, run};
