//! The operator on a real control plane.

mod scaler;
mod scaling;
