//! Where the Services are that scalers name.

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};

use crate::cached::Cached;
use crate::deadline::within;

/// Finds the hosts of Services by name.
pub(crate) struct Services {
    client: Client,
    hosts: Cached<(String, String), String>,
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, hosts: Cached::new() }
    }

    /// The host name under which a Service is reached. That of an `ExternalName` is the name it stands for.
    pub(crate) async fn host(&self, namespace: &str, name: &str) -> Result<String, String> {
        let ask = async {
            let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
            match within(api.get(name)).await {
                Ok(service) => Ok(host_of(&service, namespace, name)),
                Err(error) if error.is_not_found() => {
                    Err(format!("there is no Service {name} in namespace {namespace}; correct spec.scrape.eppService.name"))
                }
                Err(error) => Err(format!("Service {name} in namespace {namespace} could not be read: {error}")),
            }
        };
        self.hosts.get((namespace.to_owned(), name.to_owned()), ask).await
    }
}

fn host_of(service: &Service, namespace: &str, name: &str) -> String {
    let external = service.spec.as_ref().and_then(|spec| spec.external_name.clone());
    external.unwrap_or_else(|| format!("{name}.{namespace}.svc"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_reached_by_its_name_or_by_the_one_it_stands_for() {
        let service = |spec| serde_json::from_value(json!({"spec": spec})).unwrap();
        assert_eq!(host_of(&service(json!({"type": "ClusterIP"})), "serving", "epp"), "epp.serving.svc");
        let external = service(json!({"type": "ExternalName", "externalName": "epp.example.com"}));
        assert_eq!(host_of(&external, "serving", "epp"), "epp.example.com");
    }
}
