//! Tests of the built `llmscaler` command, from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

mod command;
mod demo;
mod documents;
mod following;
mod guides;
mod headroom;
mod migrate;
mod pages;
mod plugin;
mod presets;
mod reference_operator;
mod running;
mod simulate;
mod slo;
