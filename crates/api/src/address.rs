//! The URL of `serverAddress`.

use std::net::Ipv4Addr;

use url::{Host, Url};

use crate::invalid::Invalid;
use crate::rules;

/// The URL, taken as it is written.
pub(crate) fn address(text: &str) -> Result<Url, Invalid> {
    let invalid = || Invalid::new("spec.serverAddress", rules::ADDRESS.message);
    // The URL parser forgives blanks, missing slashes and an empty host by rewriting them; that would not be what was written.
    let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
    let http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if !http || rest.starts_with('/') || text.contains(|c: char| matches!(c, '?' | '#') || c.is_ascii_whitespace()) {
        return Err(invalid());
    }
    let url = Url::parse(text).ok().filter(Url::has_host).ok_or_else(invalid)?;
    if names_link_local(&url) {
        let host = url.host_str().unwrap_or_default();
        let message = format!("{host:?} is a link-local address, and these are refused; write the address of a Service");
        return Err(Invalid::new("spec.serverAddress", message));
    }
    Ok(url)
}

/// Whether the host is written as an address in 169.254.0.0/16, where cloud providers hand out credentials, or in fe80::/10, also when
/// it is an IPv4 address in the clothes of IPv6: mapped, compatible, or behind NAT64. The connection itself refuses names that lead
/// there as well.
fn names_link_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_link_local(),
        Some(Host::Ipv6(address)) => {
            let nat64 = match address.octets() {
                [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => Some([a, b, c, d].into()),
                _ => None,
            };
            let embedded: Option<Ipv4Addr> = address.to_ipv4().or(nat64);
            address.is_unicast_link_local() || embedded.is_some_and(|address| address.is_link_local())
        }
        Some(Host::Domain(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_written_or_not_at_all() {
        for given in ["http://host", "https://host:9090/prefix/", "http://user:pw@host", "http://[::1]:9090", "HTTP://host"] {
            assert!(address(given).is_ok(), "{given}");
        }
        for given in
            ["host:9090", "http:host", "http:/host", "http:///host", "http://:9090", "http://host:99999", "http://ho st", "file:///x"]
        {
            assert_eq!(address(given).unwrap_err().field, "spec.serverAddress", "{given}");
        }
    }

    #[test]
    fn link_local_addresses_are_refused_in_every_disguise() {
        for given in ["169.254.169.254", "2852039166:80", "0xa9.254.0.1", "[fe80::1]", "[::ffff:169.254.0.1]", "[64:ff9b::a9fe:a9fe]"] {
            let refusal = address(&format!("http://{given}/latest")).unwrap_err();
            assert!(refusal.message.contains("is a link-local address, and these are refused"), "{given}: {refusal}");
        }
        for given in ["169.253.0.1", "[fd00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "metadata.google.internal"] {
            assert!(address(&format!("http://{given}")).is_ok(), "{given}");
        }
    }
}
