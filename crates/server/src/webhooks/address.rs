//! Where events may be sent. Whoever makes a webhook chooses its address, and the server may reach more than they can:
//! so only addresses of the public internet are called, unless the operator allows others.
//!
//! What a name stands for is decided when it is looked up to connect, and by nobody else.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What is said of an address that is not called.
pub(super) const PRIVATE: &str = "its address is not one of the public internet";

/// What is wrong with an address, as far as it can be seen without looking it up.
pub(crate) fn fault(url: &str, allow_private: bool) -> Option<&'static str> {
    let Ok(url) = Url::parse(url) else { return Some("is no URL") };
    if !matches!(url.scheme(), "http" | "https") {
        return Some("is neither `http` nor `https`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("has a name or a password in it");
    }
    let Some(host) = url.host_str() else { return Some("has no host") };
    if allow_private {
        return None;
    }
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) if is_public(ip) => None,
        Ok(_) => Some(PRIVATE),
        Err(_) => {
            let name = host.trim_end_matches('.');
            (name == "localhost" || name.ends_with(".localhost")).then_some(PRIVATE)
        }
    }
}

/// Looks names up, and knows only addresses that may be called.
pub(super) struct Lookup {
    pub(super) allow_private: bool,
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may = |address: &SocketAddr| allow_private || is_public(address.ip());
            let addresses: Vec<SocketAddr> = found.filter(may).collect();
            match addresses.is_empty() {
                true => Err(PRIVATE.into()),
                false => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

/// Whether an address belongs to the public internet, in whatever form it is written.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        // This network, shared by providers, protocol assignments, relays of 6to4, tests of devices, reserved.
        || a == 0
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && b & 0xfe == 18)
        || a >= 240;
    !special
}

/// Only what is assigned to the internet, without what stands for an address of IPv4, protocols and documentation.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let assigned = a & 0xe000 == 0x2000;
    let special = match a {
        0x2001 => b < 0x200 || b == 0xdb8,
        0x2002 => true,
        0x3fff => b < 0x1000,
        _ => false,
    };
    assigned && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_called() {
        for good in ["1.1.1.1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"] {
            assert!(is_public(good.parse().unwrap()), "{good}");
        }
        for bad in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:a9fe:a9fe",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(bad.parse().unwrap()), "{bad}");
        }
    }

    #[test]
    fn every_way_to_write_an_address_is_seen_through() {
        for bad in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1:8000/x",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost:1/",
            "http://169.254.169.254/latest/meta-data",
        ] {
            assert_eq!(fault(bad, false), Some(PRIVATE), "{bad}");
            assert_eq!(fault(bad, true), None, "{bad}");
        }
        for wrong in
            ["", "hook", "ftp://example.org/", "file:///etc/passwd", "http://a:b@example.org/", "http://"]
        {
            assert!(fault(wrong, true).is_some(), "{wrong}");
        }
        assert_eq!(fault("https://example.org/hook?x=1", false), None);
    }

    #[tokio::test]
    async fn a_name_that_stands_for_a_private_address_is_not_known() {
        let name = || "localhost".parse::<Name>().ok().unwrap();
        let refused = Lookup { allow_private: false }.resolve(name()).await.err().unwrap();
        assert_eq!(refused.to_string(), PRIVATE);
        let found = Lookup { allow_private: true }.resolve(name()).await.ok().unwrap();
        assert!(found.into_iter().all(|address| address.ip().is_loopback()));
    }
}
