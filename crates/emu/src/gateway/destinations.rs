//! Policy on the client's destinations, and their addresses on the machine's network.

use crate::address::Addresses;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Port of DNS.
const DNS: u16 = 53;

/// Addresses of the gateway's resolver: in the server's networks but separate, so that the server keeps its port 53.
#[must_use]
pub fn resolver(server: Addresses) -> Addresses {
    let [a, b, c, _] = server.v4.octets();
    let [s0, s1, s2, s3, s4, s5, s6, _] = server.v6.segments();
    Addresses { v4: Ipv4Addr::new(a, b, c, 53), v6: Ipv6Addr::new(s0, s1, s2, s3, s4, s5, s6, 0x53) }
}

/// Destinations outside the emulation that a program may reach. This is a policy for measurements and not a sandbox: the program has the user's rights
/// to files and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Public addresses, without private ones and the machine's own networks.
    Public,
    /// All addresses that this user on this machine can reach, private ones and the machine's own included.
    Any,
    /// Only the server at the other end of the path.
    None,
}

/// Why a destination is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not forwarded under any [`Reach`].
    Forbidden,
    /// The [`Reach`] does not allow it.
    Policy,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Destinations {
    resolver: Addresses,
    nameserver: SocketAddr,
    reach: Reach,
}

impl Destinations {
    /// Creates the policy behind `server`; DNS queries to its resolver go to `nameserver`.
    #[must_use]
    pub fn new(server: Addresses, nameserver: SocketAddr, reach: Reach) -> Self {
        Self { resolver: resolver(server), nameserver, reach }
    }

    /// Returns the address on the machine's network for a packet to `destination`. The machine's loopback, link-local addresses (and so a cloud's metadata
    /// service), multicast, broadcast and unused addresses of the emulation are never allowed.
    ///
    /// # Errors
    /// Why it is not allowed.
    pub fn external(&self, destination: SocketAddr) -> Result<SocketAddr, Refusal> {
        let external = self.reachable(destination).ok_or(Refusal::Forbidden)?;
        let is_dns = destination.ip() == self.resolver.v4 || destination.ip() == self.resolver.v6;
        let allowed = match self.reach {
            Reach::Any => true,
            Reach::None => false,
            Reach::Public => {
                is_dns || self.is_enclosing(destination.ip()) || !(is_private(destination.ip()) || is_on_link(destination.ip()))
            }
        };
        if allowed { Ok(external) } else { Err(Refusal::Policy) }
    }

    /// Whether `address` belongs to the path of an enclosing emulation, whose networks have lower numbers.
    fn is_enclosing(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => {
                let ([a, b, n, _], [own_a, own_b, own_n, _]) = (address.octets(), self.resolver.v4.octets());
                [a, b] == [own_a, own_b] && n < own_n
            }
            IpAddr::V6(address) => {
                let (network, own) = (address.segments(), self.resolver.v6.segments());
                network[..3] == own[..3] && network[3] < own[3]
            }
        }
    }

    fn reachable(&self, destination: SocketAddr) -> Option<SocketAddr> {
        match destination.ip() {
            IpAddr::V4(address) if address == self.resolver.v4 => self.dns_query(destination),
            IpAddr::V4(address) => self.is_reachable(address).then_some(destination),
            IpAddr::V6(address) => {
                if address == self.resolver.v6 {
                    return self.dns_query(destination);
                }
                let is_own = address.segments()[..4] == self.resolver.v6.segments()[..4];
                // Unspecified, loopback, and IPv4-mapped or -compatible addresses, which the kernel would treat as IPv4 (RFC 4291 §2.5.5).
                let is_reserved = matches!(address.segments(), [0, 0, 0, 0, 0, 0 | 0xffff, _, _])
                    || address.is_unicast_link_local()
                    || address.is_multicast();
                let is_translation_reachable = nat64_target(address).is_none_or(|target| self.is_reachable(target));
                (!is_reserved && !is_own && is_translation_reachable).then_some(destination)
            }
        }
    }

    fn is_reachable(&self, address: Ipv4Addr) -> bool {
        let is_reserved = address.octets()[0] == 0
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast();
        let is_own = address.octets()[..3] == self.resolver.v4.octets()[..3];
        !is_reserved && !is_own
    }

    fn dns_query(&self, destination: SocketAddr) -> Option<SocketAddr> {
        (destination.port() == DNS).then_some(self.nameserver)
    }
}

/// The IPv4 address behind a NAT64 address (`64:ff9b::/96`, RFC 6052 §2.1); `None`: not a NAT64 address.
fn nat64_target(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., a, b, c, d] = address.octets();
    (prefix == [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0]).then(|| Ipv4Addr::new(a, b, c, d))
}

/// Whether `address` is private (RFC 1918, RFC 4193, or site-local by RFC 3879) or shared (100.64.0.0/10, RFC 6598: hosts behind an operator's NAT and
/// in overlay networks).
fn is_private(address: IpAddr) -> bool {
    let is_private_v4 = |v4: Ipv4Addr| v4.is_private() || (v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 0x40);
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 || nat64_target(address).is_some_and(is_private_v4)
        }
    }
}

/// Whether `address` is that of a device of this network namespace, or in its network, now; true if the kernel does not report its addresses.
fn is_on_link(address: IpAddr) -> bool {
    let Ok(devices) = getifaddrs() else { return true };
    let address = match address {
        IpAddr::V6(v6) => nat64_target(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    let ip = |address: Option<&SockaddrStorage>| address.and_then(ip_of);
    devices.filter_map(|device| Some((ip(device.address.as_ref())?, ip(device.netmask.as_ref())))).any(|(own, mask)| {
        // A mask of zeros is no network: all addresses would be in it.
        own == address || mask.is_some_and(|mask| !mask.is_unspecified() && is_in_network(address, own, mask))
    })
}

/// Whether `address` is in the network that has `own` and this `mask`.
fn is_in_network(address: IpAddr, own: IpAddr, mask: IpAddr) -> bool {
    match (address, own, mask) {
        (IpAddr::V4(address), IpAddr::V4(own), IpAddr::V4(mask)) => address & mask == own & mask,
        (IpAddr::V6(address), IpAddr::V6(own), IpAddr::V6(mask)) => address & mask == own & mask,
        _ => false,
    }
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::addresses;

    #[test]
    fn reserved_addresses_are_not_allowed() {
        let (_, server) = addresses(3);
        let nameserver: SocketAddr = "127.0.0.53:53".parse().unwrap();
        let destinations = Destinations::new(server, nameserver, Reach::Any);
        let outside = |text: &str| destinations.external(text.parse().unwrap()).ok();
        for (query, answer) in [("100.64.3.53:53", Some(nameserver)), ("[fd62:656e:7470:3::53]:53", Some(nameserver))] {
            assert_eq!(outside(query), answer, "{query}");
        }
        for reached in
            ["192.0.2.1:80", "100.64.2.1:80", "10.0.0.1:53", "[2001:db8::1]:443", "[fd62:656e:7470:2::1]:80", "[64:ff9b::192.0.2.10]:80"]
        {
            assert_eq!(outside(reached), Some(reached.parse().unwrap()), "{reached}");
        }
        for reserved in [
            "127.0.0.1:80",
            "0.0.0.0:80",
            "169.254.169.254:80",
            "224.0.1.1:80",
            "255.255.255.255:67",
            "100.64.3.7:80",
            "100.64.3.53:54",
            "[::1]:80",
            "[::]:80",
            "[::ffff:127.0.0.1]:80",
            "[::192.0.2.1]:80",
            "[64:ff9b::127.0.0.1]:80",
            "[64:ff9b::169.254.169.254]:80",
            "[64:ff9b::100.64.3.53]:53",
            "[fe80::1]:80",
            "[ff0e::1]:80",
            "[fd62:656e:7470:3::7]:80",
        ] {
            assert_eq!(outside(reserved), None, "{reserved}");
        }
    }

    #[test]
    fn private_and_own_addresses_are_allowed_by_policy() {
        let (_, server) = addresses(3);
        let nameserver: SocketAddr = "192.168.1.1:53".parse().unwrap();
        let of = |reach, text: &str| Destinations::new(server, nameserver, reach).external(text.parse().unwrap());
        let private = [
            "10.0.0.1:80",
            "172.16.0.1:80",
            "192.168.1.9:80",
            "100.64.4.1:80",
            "100.127.255.1:80",
            "[fd00::1]:80",
            "[fc00::1]:80",
            "[fec0::1]:80",
            "[fd62:656e:7470:4::1]:80",
            "[64:ff9b::10.0.0.1]:80",
            "[64:ff9b::100.100.1.1]:80",
        ];
        for text in private {
            assert_eq!(of(Reach::Public, text), Err(Refusal::Policy), "{text}");
            assert_eq!(of(Reach::Any, text), Ok(text.parse().unwrap()), "{text}");
        }
        let enclosing = ["100.64.2.1:80", "[fd62:656e:7470:2::1]:80"];
        for text in enclosing.into_iter().chain(["8.8.8.8:80", "172.32.0.1:80", "100.128.0.1:80", "[2001:4860:4860::8888]:443"]) {
            assert_eq!(of(Reach::Public, text), Ok(text.parse().unwrap()), "{text}");
            assert_eq!(of(Reach::None, text), Err(Refusal::Policy), "{text}");
        }
        assert_eq!(of(Reach::Public, "100.64.3.53:53"), Ok(nameserver), "the machine's nameserver may be private");
        assert_eq!(of(Reach::None, "100.64.3.53:53"), Err(Refusal::Policy));
        for reach in [Reach::Public, Reach::Any, Reach::None] {
            assert_eq!(of(reach, "127.0.0.1:80"), Err(Refusal::Forbidden));
        }
        let own: Vec<IpAddr> = getifaddrs().unwrap().filter_map(|device| device.address.as_ref().and_then(ip_of)).collect();
        assert!(own.iter().all(|address| is_on_link(*address)), "{own:?}");
        assert!(!is_on_link("8.8.8.8".parse().unwrap()));
    }

    #[test]
    fn neighbours_are_in_the_network_of_a_device() {
        let is_in =
            |address: &str, own: &str, mask: &str| is_in_network(address.parse().unwrap(), own.parse().unwrap(), mask.parse().unwrap());
        let lan = ["2001:db8:5::1", "ffff:ffff:ffff:ffff::"];
        assert!(is_in("2001:db8:5::99", lan[0], lan[1]));
        assert!(!is_in("2001:db8:6::99", lan[0], lan[1]));
        assert!(is_in("198.51.100.9", "198.51.100.130", "255.255.255.0"));
        assert!(!is_in("198.51.100.9", "198.51.100.130", "255.255.255.128"));
        assert!(!is_in("198.51.100.9", lan[0], lan[1]));
        assert!(is_on_link("127.0.0.77".parse().unwrap()), "the loopback device has a /8");
    }
}
