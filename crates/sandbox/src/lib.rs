//! A Kubernetes API in one process: for the demo, and for tests of the operator with faults on demand.
//!
//! It is a stand-in, not a product: as small as can be while our operator and `kubectl` work against it. [`Sandbox`] is the API,
//! offered in memory ([`Sandbox::client`] and [`Sandbox::client_as`], for tests in paused time) and over HTTP ([`Sandbox::serve`],
//! without TLS or authentication, for loopback only and not for pages in a browser). Who asked what, and what changed by it, is in
//! [`Sandbox::calls`] and [`Sandbox::changes_since`]. [`Controllers`] makes pods of Deployments, in steps, and lets them live as a [`Life`] says. [`Faults`] lets
//! requests go wrong. Everything is deterministic: UIDs, names and versions follow from the order of the requests.
//!
//! # What is served
//!
//! `LLMScaler` by its definition (defaults, pruning, schema, CEL rules, printer columns), Deployments, ReplicaSets and StatefulSets
//! with `status` and `scale`, pods, services, endpoint slices, events of both groups, leases, namespaces, nodes, secrets, config maps,
//! service accounts, autoscalers, definitions, and access reviews, which allow everything; through `proxy`, the pages of simulated
//! replicas and of their endpoint pickers, and nothing else. Reads with resource versions, pages,
//! label and field selectors, tables and metadata; watches with bookmarks, streaming lists and 410; merge, JSON and strategic
//! patches; server-side apply with owners and conflicts.
//!
//! # What differs from a real server
//!
//! Bodies are JSON: the few kubectl commands that send protobuf (`create namespace`, `create deployment` and their like, `auth can-i`)
//! get 415, after which kubectl does not try JSON; `apply -f` makes the same objects. Nobody is authenticated. Deletion always works in
//! the background. An unknown field is dropped without a warning unless the request asks for strictness, and a wrong type in a patch of a
//! built-in kind is answered with 400 instead of 422; of one in a status the path is told in full. In `managedFields`, maps that were
//! created have no entry of their own (`.`), who applied a scale has a time, events are recorded as those of the core group, and the
//! stand-in controllers leave no trace. Events leave out what is null. The values of built-in kinds are hardly validated beyond their
//! types, and only the defaults that show are filled in. A watch from a version that is no number is answered with 400 instead of 500.
//! A namespace has 500 pods at most, as by a ResourceQuota that cannot be seen.
//! Other quotas, admission, `blockOwnerDeletion`, eviction, logs and exec are missing, as are the descriptions of `kubectl explain` and of
//! columns, and most columns of `-o wide`. All else that the end-to-end tests ask of both is answered alike
//! (`crates/e2e/tests/sandbox.rs`), and the scenarios of the operator run on both (`crates/e2e/tests/operator`).
//!
//! # Libraries
//!
//! CEL and its library of functions are `kube-cel`, by way of kube; JSON patches are `json-patch`; the paths of printer columns are
//! `jsonpath-rust`; all three were in the tree already. Looked at and not used: `kube-fake-client` 0.3, which has server-side apply and
//! interceptors, but is of kube 4.2, whose client is another type than that of kube 5, and has neither watches nor tables nor HTTP;
//! `kubernetes-mock` 0.1, scripted answers for an older kube; `jsonschema`, which speaks other words than the API server, half of what
//! a test looks at, and knows neither `nullable` nor int-or-string. `kube-cel` fills in defaults, too, but not in place of nulls, nor
//! inside what it fills in.

mod api;
mod body;
mod builtin;
mod client;
mod controllers;
mod delete;
mod discovery;
mod events;
mod faults;
mod fields;
pub mod fleet;
mod form;
mod http;
mod journal;
mod managed;
mod object;
mod patch;
mod proxy;
mod quota;
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
mod workload;
mod write;

pub use controllers::{Controllers, Life, PodView, Stage, after};
pub use faults::{Fault, Faults, On};
pub use http::kubeconfig;
pub use journal::{Call, Change};
pub use request::Verb;
pub use sandbox::Sandbox;
