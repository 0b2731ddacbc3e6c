//! The controller that scales workloads by their LLMScaler.

pub mod health;
pub mod lease;
pub mod metrics;
pub mod serve;
