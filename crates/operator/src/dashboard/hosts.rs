//! By which names the dashboard is asked.
//!
//! A page from elsewhere may read what its own host answers, and its host's name can be made to resolve to the dashboard: to this
//! machine, behind `kubectl port-forward`, or to a pod (DNS rebinding). The browser sends that name as `Host`. So answers go only to
//! names that no such page can have: addresses, which nobody resolves; names without a dot and those of Services, which are in no
//! public zone; and names that the operator was told of.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::uri::Authority;

/// Why a text is no [`HostName`].
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no host name: write one such as scalers.example.com, without scheme, port, path and wildcard")]
pub struct NoHostName(String);

/// A name by which the dashboard may be asked, such as that of an Ingress; in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = NoHostName;

    fn from_str(text: &str) -> Result<Self, NoHostName> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let label =
            |label: &str| !label.is_empty() && label.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'));
        if name.split('.').all(label) { Ok(Self(name.to_ascii_lowercase())) } else { Err(NoHostName(text.to_owned())) }
    }
}

/// Whether a request with this `Host` is answered, at whatever port: `kubectl port-forward` chooses another. `more` are the names that
/// the operator was told of.
pub(super) fn is_known(host: &str, more: &[HostName]) -> bool {
    // An authority may begin with a user, a `Host` may not.
    let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else { return false };
    let name = authority.host();
    if let Some(address) = name.strip_prefix('[') {
        return address.strip_suffix(']').is_some_and(is_address);
    }
    let Ok(HostName(name)) = name.parse() else { return false };
    is_address(&name) || !name.contains('.') || is_of_service(&name) || more.iter().any(|known| known.0 == name)
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Neither ending is in the public DNS. Of a cluster with another domain the operator has to be told, as anybody's name may have `.svc.`
/// in it.
fn is_of_service(name: &str) -> bool {
    name.ends_with(".svc") || name.ends_with(".cluster.local")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_page_from_elsewhere_can_have_are_known() {
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "127.0.0.1",
            "10.0.0.1:8082",
            "[::1]:8082",
            "[2001:db8::1]",
            "dashboard:8082",
            "dashboard.llm.svc",
            "dashboard.llm.SVC:8082",
            "dashboard.llm.svc.cluster.local.",
        ] {
            assert!(is_known(host, &[]), "{host}");
        }
        for host in [
            "",
            ":8082",
            "evil.example",
            "evil.example:8082",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "127-0-0-1.evil.example",
            "dashboard.llm.svc.evil.example",
            "notsvc.example",
            "evilcluster.local",
            "localhost@evil.example",
            "evil.example@localhost",
            "[evil]:80",
            "[127.0.0.1",
            "a b",
        ] {
            assert!(!is_known(host, &[]), "{host}");
        }
    }

    #[test]
    fn names_that_the_operator_was_told_of_are_known_and_nothing_below_them() {
        let more = ["Scalers.Example.COM", "dashboard.llm.svc.corp.example."].map(|name| name.parse().unwrap());
        for host in ["scalers.example.com", "SCALERS.example.com:443", "scalers.example.com.", "dashboard.llm.svc.corp.example"] {
            assert!(is_known(host, &more), "{host}");
        }
        for host in ["example.com", "a.scalers.example.com", "scalers.example.com.evil.example", "evil.svc.corp.example"] {
            assert!(!is_known(host, &more), "{host}");
        }
    }

    #[test]
    fn what_is_no_name_is_not_taken_for_one() {
        for text in
            ["", ".", "https://scalers.example.com", "scalers.example.com:443", "*.example.com", "a..b", "a/b", "a b", "bücher.example"]
        {
            let refused = text.parse::<HostName>().unwrap_err().to_string();
            assert!(refused.contains("without scheme"), "{text}: {refused}");
        }
    }
}
