//! The chart and the folders under config, rendered by Helm 3, Helm 4 and kubectl, and installed on a real API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

mod client;
mod config;
mod install;
mod namespaced;
mod objects;
mod observe;
mod render;
mod running;
mod vllm_mock;
