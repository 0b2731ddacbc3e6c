//! The operator on a real control plane.

mod decision_server;
mod fleet;
mod scaler;
mod scaling;
