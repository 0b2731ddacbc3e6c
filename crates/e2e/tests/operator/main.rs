//! The operator on a real control plane.

mod decision_server;
mod fleet;
mod guards;
mod scaler;
mod scaling;
mod unknown;
