//! The operator on a real control plane.

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
