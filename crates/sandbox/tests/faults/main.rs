//! The operator on a sandbox where things go wrong, in paused time: what is scripted, and what chance brings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "what helps a test may fail it")]

mod book;
mod chance;
mod scripted;
mod world;
