//! What has to be looked after while the API is served: the certificate, who the aggregator is, and the APIService.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::aggregator::{Aggregator, CONFIG_MAP};
use super::identity::{Identity, IdentityError};
use super::published::Published;
use super::server::Known;
use super::{ExternalMetricsOptions, Served, ServiceRef, api_service};
use crate::deadline::within;
use crate::metrics::Metrics;
use crate::serve::ServeError;

/// The time between two looks, and while something is missing.
const PERIOD: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);

/// Looks after the certificate, the aggregator's, and the APIService.
pub(super) struct Keeper {
    service: ServiceRef,
    folder: Option<PathBuf>,
    client: Client,
    metrics: Metrics,
    published: Published,
    known: Known,
    served: watch::Sender<Served>,
    tls: RustlsConfig,
    identity: Identity,
    /// The one to come: trusted first, shown later, so that the aggregator never meets one that it does not trust.
    next: Option<Identity>,
    /// The APIService was ours once.
    held: bool,
    trouble: String,
}

impl Keeper {
    pub(super) fn new(
        options: ExternalMetricsOptions,
        client: Client,
        metrics: Metrics,
        published: Published,
        known: Known,
        served: watch::Sender<Served>,
    ) -> Result<Self, ServeError> {
        let ExternalMetricsOptions { service, cert: folder, .. } = options;
        let now = SystemTime::now();
        let identity = match &folder {
            Some(folder) => Identity::read(folder, now)?,
            None => Identity::make(&service, now).map_err(IdentityError::Make)?,
        };
        let tls = RustlsConfig::from_config(identity.config(None)?);
        Ok(Self {
            service,
            folder,
            client,
            metrics,
            published,
            known,
            served,
            tls,
            identity,
            next: None,
            held: false,
            trouble: String::new(),
        })
    }

    /// What the server reads at each handshake.
    pub(super) fn tls(&self) -> RustlsConfig {
        self.tls.clone()
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let mut leads = self.published.leading();
        loop {
            let known = self.learn_of_aggregator().await;
            let leading = *leads.borrow_and_update();
            self.renew(SystemTime::now(), leading).await;
            let served = if leading { self.keep_api_service().await } else { Served::Pending };
            self.held |= served.is_ours();
            let settled = known && (!leading || served == Served::Ours);
            self.say(served);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(if settled { PERIOD } else { RETRY }) => {}
                Ok(()) = leads.changed() => {}
            }
        }
    }

    /// Reads how the aggregator shows itself. Answers whether that is known.
    async fn learn_of_aggregator(&mut self) -> bool {
        let (namespace, name) = CONFIG_MAP;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = match within(api.get(name)).await {
            Ok(map) => {
                let data: BTreeMap<String, String> = map.data.unwrap_or_default();
                Aggregator::of(&data).map_err(|why| why.to_string())
            }
            Err(error) => Err(format!("could not be read: {error}")),
        };
        let complain = |why: String| format!("ConfigMap {name} in namespace {namespace} {why}");
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(aggregator, _)| aggregator.clone());
        match found {
            Ok(aggregator) if known.as_ref() == Some(&aggregator) => true,
            Ok(aggregator) => match aggregator.verifier() {
                Ok(verifier) => {
                    let same_authority = known.is_some_and(|known| known.verifies_like(&aggregator));
                    *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some((aggregator, verifier));
                    if !same_authority {
                        self.reload();
                    }
                    true
                }
                Err(why) => self.complain(complain(why.to_string())),
            },
            // What was known of it goes on to hold.
            Err(why) => self.complain(complain(why)) || known.is_some(),
        }
    }

    /// Takes a new certificate where there is one, or where it is time to make one.
    async fn renew(&mut self, now: SystemTime, leading: bool) {
        if let Some(folder) = self.folder.clone() {
            match tokio::task::spawn_blocking(move || Identity::read(&folder, now)).await {
                Ok(Ok(found)) if found.is_same(&self.identity) => {}
                Ok(Ok(found)) => {
                    self.identity = found;
                    self.reload();
                }
                Ok(Err(why)) => drop(self.complain(why.to_string())),
                // The task is not cancelled and does not panic; were it lost, the next look would make up for it.
                Err(_) => {}
            }
        } else if self.next.is_none() && self.identity.is_old(now) {
            match Identity::make(&self.service, now) {
                Ok(made) => self.next = Some(made),
                Err(why) => drop(self.complain(IdentityError::Make(why).to_string())),
            }
        } else if self.next.is_some() && (!leading || self.served.borrow().is_ours()) {
            // The APIService trusts both since the look before this one.
            if let Some(next) = self.next.take() {
                self.identity = next;
                self.reload();
            }
        }
    }

    /// Serves with the certificate as it is now, and verifies the aggregator's as is known now.
    fn reload(&mut self) {
        let verifier = self.known.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, verifier)| verifier.clone());
        match self.identity.config(verifier) {
            Ok(config) => {
                self.tls.reload_from_config(config);
                self.trouble.clear();
                info!("Serving external metrics with a new certificate, or to a new authority of the aggregator");
            }
            Err(why) => drop(self.complain(why.to_string())),
        }
    }

    async fn keep_api_service(&self) -> Served {
        let both = [Some(&self.identity), self.next.as_ref()].into_iter().flatten();
        let authorities: Vec<&str> = both.filter_map(|identity| identity.authority.as_deref()).collect();
        let authority = (!authorities.is_empty()).then(|| authorities.concat());
        api_service::keep(&self.client, &self.service, authority.as_deref(), self.held).await
    }

    /// Tells scalers who has the API, and people when that has changed.
    fn say(&self, served: Served) {
        self.metrics.external_metrics_served(served == Served::Ours);
        let news = self.served.send_if_modified(|known| {
            let news = *known != served;
            known.clone_from(&served);
            news
        });
        if news {
            match served {
                Served::Pending => {}
                Served::Ours => info!("Serving the cluster's external metrics"),
                Served::Unreached(why) => warn!("The API server does not reach the operator's external metrics, so HPAs hold: {why}"),
                Served::Foreign(why) => error!("Not serving the cluster's external metrics: {why}"),
                Served::Failed(why) => error!("Not serving the cluster's external metrics: {why}; trying on"),
            }
        }
    }

    /// Says what is wrong, once. Answers `false`.
    fn complain(&mut self, why: String) -> bool {
        if why != self.trouble {
            warn!("External metrics: {why}");
            self.trouble = why;
        }
        false
    }
}
