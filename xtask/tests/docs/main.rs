//! The documentation: what it links to is there, what it lists is complete, and the objects and commands that it shows are real.
//!
//! What examples of `llmscaler decide` print is held by the tests of crates/cli.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what helps a test may fail it")]

mod architecture;
mod commands;
mod links;
mod objects;
