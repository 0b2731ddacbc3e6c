//! The operator under test, on a real control plane and, in every scenario that both can serve, on the sandbox.
//!
//! A test takes its [`ApiServer`](llmscaler_e2e::ApiServer) as a value; one that names `Real` needs what the sandbox has not: RBAC,
//! admission, aggregated APIs, kinds of others, and the controllers of StatefulSets and of HorizontalPodAutoscalers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

mod admission;
mod change_of_hands;
mod credentials;
mod decision_server;
mod doctor;
mod dual;
mod epp;
mod explain;
mod fleet;
mod full;
mod guards;
mod headroom;
mod hpa;
mod hpa_figure;
mod hpa_hand_over;
mod hpa_plane;
mod keda;
mod kinds;
mod leadership;
mod lifecycle;
mod marks;
mod metrics_adapter;
mod owners;
mod ownership;
mod restart;
mod scaler;
mod scaling;
mod scraped;
mod slo;
mod steered;
mod told;
mod unknown;
mod victims;
mod warmup;
