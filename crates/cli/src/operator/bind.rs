//! Where the operator's servers listen, in the form that Go gives addresses.

use std::net::{IpAddr, SocketAddr};

/// An address to serve on, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind(pub Option<SocketAddr>);

impl Bind {
    /// Go's form leaves the host out to mean every address.
    ///
    /// # Errors
    /// It is no address; what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self(None));
        }
        let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.replace("localhost", "127.0.0.1") };
        full.parse()
            .map(|address| Self(Some(address)))
            .map_err(|_| "write HOST:PORT or :PORT with a numeric host, or 0 for nowhere".to_owned())
    }
}

/// Whether each of these flags has a port of its own: otherwise the second server would take the first for another process.
///
/// # Errors
/// Two of them ask for one port of one address.
pub fn each_apart(flags: &[(&str, Bind)]) -> Result<(), String> {
    let asked: Vec<(&str, SocketAddr)> = flags.iter().filter_map(|(flag, bind)| Some((*flag, bind.0?))).collect();
    for (index, (flag, address)) in asked.iter().enumerate() {
        let earlier = asked.iter().take(index).find(|(_, earlier)| overlap(*earlier, *address));
        if let Some((other, _)) = earlier {
            return Err(format!("{other} and {flag} both ask for port {}; give each a port of its own", address.port()));
        }
    }
    Ok(())
}

/// Whether one socket would be in the way of the other. From port 0 the system makes one that is free.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

/// Whether listening on all addresses takes in this one; those of version 6 take in version 4.
fn covers(all: IpAddr, one: IpAddr) -> bool {
    all.is_unspecified() && (all.is_ipv6() || one.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_go_writes_them() {
        for (text, address) in
            [(":8081", Some("0.0.0.0:8081")), ("0", None), ("127.0.0.1:1", Some("127.0.0.1:1")), ("[::1]:2", Some("[::1]:2"))]
        {
            assert_eq!(Bind::parse(text), Ok(Bind(address.map(|a| a.parse().unwrap()))), "{text}");
        }
        assert!(Bind::parse("8081").unwrap_err().contains(":PORT"));
    }

    #[test]
    fn two_servers_on_one_port_are_told_of_each_other() {
        let apart = |a: &str, b: &str| each_apart(&[("--a", Bind::parse(a).unwrap()), ("--b", Bind::parse(b).unwrap())]);
        for (a, b) in [(":1", ":1"), (":1", "127.0.0.1:1"), ("127.0.0.1:1", "[::]:1"), ("[::1]:1", "[::1]:1")] {
            assert_eq!(apart(a, b), Err("--a and --b both ask for port 1; give each a port of its own".to_owned()), "{a} {b}");
        }
        for (a, b) in [(":1", ":2"), ("0", "0"), (":0", ":0"), ("127.0.0.1:1", "127.0.0.2:1"), (":1", "[::1]:1")] {
            assert_eq!(apart(a, b), Ok(()), "{a} {b}");
        }
    }
}
