//! Link-local addresses are refused: a scaler's author chooses where the operator sends requests from inside the cluster, and cloud
//! providers hand out credentials at 169.254.169.254.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// A name that leads only to link-local addresses.
#[derive(Debug, thiserror::Error)]
#[error("{host} resolves to link-local addresses only, and these are refused")]
struct OnlyLinkLocal {
    host: String,
}

/// Whether an address is in 169.254.0.0/16 or fe80::/10, also when it is an IPv4 address in the clothes of IPv6: mapped
/// (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`), or behind NAT64 (`64:ff9b::a.b.c.d`, RFC 6052).
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            let embedded = address.to_ipv4().or_else(|| behind_nat64(address));
            address.is_unicast_link_local() || embedded.is_some_and(|address| address.is_link_local())
        }
    }
}

fn behind_nat64(address: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    match address.octets() {
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => Some([a, b, c, d].into()),
        _ => None,
    }
}

/// Whether the host of a URL is written as a link-local address.
pub(super) fn names_link_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => is_link_local(address.into()),
        Some(Host::Ipv6(address)) => is_link_local(address.into()),
        Some(Host::Domain(_)) | None => false,
    }
}

/// The system's resolver, without link-local addresses. The connection is made to the very addresses that were checked here, so a
/// name that changes its mind between check and use gains nothing.
#[derive(Debug)]
pub(super) struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            let allowed: Vec<SocketAddr> = found.iter().copied().filter(|address| !is_link_local(address.ip())).collect();
            if allowed.is_empty() && !found.is_empty() {
                return Err(OnlyLinkLocal { host: host.to_owned() }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_link_local_addresses_in_every_disguise() {
        for refused in [
            "169.254.169.254",
            "169.254.0.1",
            "fe80::1",
            "febf::1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
        ] {
            assert!(is_link_local(refused.parse().unwrap()), "{refused}");
        }
        for allowed in ["127.0.0.1", "10.96.0.1", "169.253.1.1", "192.168.1.1", "::1", "fd00::1", "fec0::1", "::ffff:10.0.0.1"] {
            assert!(!is_link_local(allowed.parse().unwrap()), "{allowed}");
        }
    }

    #[test]
    fn knows_them_in_every_spelling_of_a_url() {
        for refused in [
            "http://169.254.169.254/",
            "http://2852039166/",
            "http://0xa9.0xfe.0xa9.0xfe/",
            "http://169.254.43518/",
            "http://[fe80::1]:9090/",
            "http://[::ffff:a9fe:a9fe]/",
        ] {
            assert!(names_link_local(&refused.parse().unwrap()), "{refused}");
        }
        assert!(!names_link_local(&"http://prometheus:9090/".parse().unwrap()));
    }

    #[tokio::test]
    async fn names_resolve_to_other_addresses_only() {
        // Numbers resolve to themselves, so no name server has to play along.
        let resolve = |name: &str| Resolver.resolve(name.parse().unwrap());
        assert_eq!(resolve("127.0.0.1").await.unwrap().count(), 1);
        let refused = resolve("169.254.169.254").await.err().unwrap();
        assert_eq!(refused.to_string(), "169.254.169.254 resolves to link-local addresses only, and these are refused");
    }
}
