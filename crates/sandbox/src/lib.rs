//! A Kubernetes API in one process.

mod api;
mod builtin;
mod controllers;
mod delete;
mod discovery;
mod events;
mod faults;
mod fields;
mod form;
mod http;
mod journal;
mod managed;
mod object;
mod patch;
mod read;
mod refusal;
mod request;
mod resources;
mod rules;
mod sandbox;
mod scale;
mod schema;
mod selector;
mod store;
mod table;
mod watch;
mod write;

pub use controllers::{Controllers, Life, PodView, Stage, after};
pub use faults::{Fault, Faults, On};
pub use http::kubeconfig;
pub use journal::Call;
pub use request::Verb;
pub use sandbox::Sandbox;
