//! How clients reach the API server: by token, with the run's own authority.

use serde_json::json;

/// The token of the administrator (`system:masters`).
pub const ADMIN_TOKEN: &str = "e2e-admin";

/// The token file of the API server. Everyone else is a service account.
pub(crate) fn token_file() -> String {
    format!("{ADMIN_TOKEN},admin,admin,system:masters\n")
}

/// A client's configuration as kube-rs has it.
pub(crate) fn config(server: &str, authority_der: &[u8], token: &str) -> kube::Config {
    let mut config = kube::Config::new(server.parse().unwrap());
    config.root_cert = Some(vec![authority_der.to_vec()]);
    config.auth_info.token = Some(token.to_owned().into());
    // A test wants to see a 503, not to wait until it is over.
    config.default_retry = false;
    config
}

/// The same as a file (JSON is YAML), which names the authority by its path.
pub(crate) fn file(server: &str, authority: &std::path::Path, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "e2e", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    })
    .to_string()
}
