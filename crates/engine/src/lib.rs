//! Decides how many replicas an LLM inference fleet should have.
mod reading;

pub use reading::{Measurement, Reading};
