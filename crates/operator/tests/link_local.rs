//! The resource and the connection judge addresses alike: what `llmscaler decide` accepts, the operator can ask.

use std::collections::BTreeMap;

use llmscaler_api::LLMScaler;
use llmscaler_signals::{Endpoint, TlsSettings, Transport};
use serde_json::json;

#[test]
fn the_resource_refuses_the_link_local_addresses_that_the_connection_refuses() {
    let parsed = |address: &str| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
        let spec = json!({"targetRef": target, "minReplicas": 1, "maxReplicas": 2, "serverAddress": address,
            "metrics": [{"query": "up", "target": "1"}]});
        let scaler: LLMScaler = serde_json::from_value(json!({"metadata": {"name": "fleet"}, "spec": spec})).unwrap();
        scaler.parse().map(drop).map_err(|invalid| {
            assert_eq!(invalid.field, "spec.serverAddress");
            format!("serverAddress {}", invalid.message)
        })
    };
    let transport = Transport::new(&TlsSettings::default()).unwrap();
    let connected = |address: &str| Endpoint::new(transport.clone(), address, &BTreeMap::new()).map(drop).map_err(|why| why.to_string());
    for (host, refused) in [
        ("169.254.169.254", true),
        ("169.254.0.1:80", true),
        ("user:pw@169.254.169.254", true),
        ("2852039166", true),
        ("0251.0376.0.1", true),
        ("[fe80::1]", true),
        ("[febf:ffff::1]:9090", true),
        ("[::ffff:169.254.169.254]", true),
        ("[::169.254.169.254]", true),
        ("[64:ff9b::169.254.169.254]", true),
        ("169.255.0.1", false),
        ("10.0.0.1", false),
        ("[fec0::1]", false),
        ("[fd00::1]", false),
        ("[::1]", false),
        ("[64:ff9b::10.0.0.1]", false),
        ("[64:ff9b:1::169.254.169.254]", false),
        ("prometheus.monitoring.svc:9090", false),
    ] {
        let address = format!("http://{host}");
        let judged = parsed(&address);
        assert_eq!(judged, connected(&address), "{address}");
        assert_eq!(judged.is_err(), refused, "{address}: {judged:?}");
    }
}
