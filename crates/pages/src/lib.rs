//! The pages of the documentation, taken apart for the tests that hold them against the product: those of links, objects and arguments
//! need nothing but this, those that run the commands a control plane.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test support: whatever fails here fails the test that called it")]

mod command;
mod page;

pub use command::{CommandLine, command_lines};
pub use page::{Block, Page, pages, root};
