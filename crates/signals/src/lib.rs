//! Reads scaling signals over the network: Prometheus queries, replies of decision servers, and the metrics pages of pods.
//!
//! Two layers, kept apart so that the command line can do one without the other:
//!
//! * **Decoders** ([`prometheus::read_value`], [`prometheus::read_buckets`], [`prometheus::read_pods`], [`decision::read_count`]) are pure functions of an HTTP
//!   status and a body. They never panic, and what they cannot read is [`Unknown`](llmscaler_engine::Reading::Unknown) with a
//!   reason for people: what was asked, what came back, what to do. Unknown is never zero.
//! * **Clients** ([`PrometheusClient`], [`DecisionClient`]) ask through an [`Endpoint`] (address and headers of one scaler) over a
//!   [`Transport`] (TLS settings and connection pool, shared between scalers).
//!
//! A [`Scrape`] is both: it reads pages, from the pods themselves or from hand, and remembers them for as long as rates need.
//!
//! # Limits on the wire
//!
//! | what | limit |
//! |---|---|
//! | one exchange: name lookup, connect, TLS, redirects, body | [`Endpoint::DEADLINE`], 5 s; one attempt |
//! | body of an answer | [`Transport::LARGEST_BODY`], 1 MiB |
//! | one page of a pod or router | [`scrape::LONGEST_SCRAPE`], 2 s, and [`scrape::LARGEST_PAGE`], 8 MiB, read line by line |
//! | text of an error body in a reason | 1 KiB, control characters replaced |
//! | redirects | 10, within one origin (scheme, host and port) |
//! | link-local addresses | refused, also when a name resolves to them |
//!
//! # Secrets
//!
//! Header values and the user-info of an address go to the server and nowhere else: no error, log line or `Debug` output of this
//! crate has them.
//!
//! # Proxies
//!
//! `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured as they are when the [`Transport`] is built, except for
//! loopback addresses and `localhost`, and for scrapes, which are always direct. Behind a proxy it is the proxy that resolves names, so
//! there the check for link-local addresses covers only addresses written as numbers.

mod body;
pub mod decision;
mod excerpt;
pub mod lint;
pub mod preset;
pub mod prometheus;
pub mod scrape;
pub mod slo;
pub mod traffic;
pub mod transport;

pub use decision::DecisionClient;
pub use prometheus::PrometheusClient;
pub use scrape::Scrape;
pub use traffic::{Promised, TRAFFIC_SIGNALS, TrafficQueries};
pub use transport::{Endpoint, TlsSettings, Transport};
