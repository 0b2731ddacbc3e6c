//! The operator on a real control plane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

mod admission;
mod decision_server;
mod fleet;
mod guards;
mod kinds;
mod leadership;
mod lifecycle;
mod marks;
mod ownership;
mod restart;
mod scaler;
mod scaling;
mod steered;
mod unknown;
mod victims;
