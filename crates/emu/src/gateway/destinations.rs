//! What of the client's destinations the gateway reaches, and where.

use crate::interface::Addresses;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Port of DNS.
const DNS: u16 = 53;

/// The address of the emulation's own resolver: in the same networks as the server, which so keeps its own port 53.
#[must_use]
pub fn resolver(server: Addresses) -> Addresses {
    let [a, b, c, _] = server.v4.octets();
    let [s0, s1, s2, s3, s4, s5, s6, _] = server.v6.segments();
    Addresses { v4: Ipv4Addr::new(a, b, c, 53), v6: Ipv6Addr::new(s0, s1, s2, s3, s4, s5, s6, 0x53) }
}

/// Which destinations outside the emulation a program may reach. It is a policy for measurements and not a sandbox: the program has the user's files
/// and processes' rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Public addresses: neither the machine's own nor private ones.
    Public,
    /// Private addresses and the machine's own too, as this user on this machine reaches them.
    Any,
    /// Nothing but the server at the other end of the path.
    None,
}

/// Why a destination is not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No packet goes there from here, under any [`Reach`].
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
    /// Behind `server`; questions to its resolver go to `nameserver`.
    #[must_use]
    pub fn new(server: Addresses, nameserver: SocketAddr, reach: Reach) -> Self {
        Self { resolver: resolver(server), nameserver, reach }
    }

    /// Where a packet to `destination` is to go from the machine. The machine's loopback, its link-local neighbours (and with them a cloud's
    /// metadata service), groups and broadcasts stay out of reach, and so do the addresses of the emulation that nobody has.
    ///
    /// # Errors
    /// Why it goes nowhere.
    pub fn external(&self, destination: SocketAddr) -> Result<SocketAddr, Refusal> {
        let external = self.reachable(destination).ok_or(Refusal::Forbidden)?;
        let is_dns = destination.ip() == self.resolver.v4 || destination.ip() == self.resolver.v6;
        let allowed = match self.reach {
            Reach::Any => true,
            Reach::None => false,
            Reach::Public => is_dns || (!is_private(destination.ip()) && !is_of_this_machine(destination.ip())),
        };
        if allowed { Ok(external) } else { Err(Refusal::Policy) }
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
                // Nobody's, the loopback, and IPv4 addresses in clothes: the kernel would take these for what they are (RFC 4291 §2.5.5).
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

/// Where a translator of IPv6 to IPv4 would send what goes to `address` (`64:ff9b::/96`, RFC 6052 §2.1); `None`: it is none of a translator's.
fn nat64_target(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., a, b, c, d] = address.octets();
    (prefix == [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0]).then(|| Ipv4Addr::new(a, b, c, d))
}

/// Whether `address` is of a private network (RFC 1918, RFC 4193, or RFC 3879's site-local ones). Shared addresses (100.64.0.0/10, RFC 6598) are an
/// operator's, and there and in `fd62:656e:7470::/48` are the paths of emulations around this one: these are not private.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            let is_emulations = [a, b, c] == [0xfd62, 0x656e, 0x7470];
            let is_local = a & 0xfe00 == 0xfc00 || a & 0xffc0 == 0xfec0;
            (is_local && !is_emulations) || nat64_target(address).is_some_and(|target| target.is_private())
        }
    }
}

/// Whether a device of this network namespace has `address` now. If the kernel does not say, it is taken for one.
fn is_of_this_machine(address: IpAddr) -> bool {
    let Ok(devices) = getifaddrs() else { return true };
    let address = match address {
        IpAddr::V6(v6) => nat64_target(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    devices.filter_map(|device| device.address.as_ref().and_then(ip_of)).any(|own| own == address)
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::addresses;

    #[test]
    fn what_is_reached_and_what_is_not() {
        let (_, server) = addresses(3);
        let nameserver: SocketAddr = "127.0.0.53:53".parse().unwrap();
        let destinations = Destinations::new(server, nameserver, Reach::Any);
        let outside = |text: &str| destinations.external(text.parse().unwrap()).ok();
        for (dns_query, answer) in [("100.64.3.53:53", Some(nameserver)), ("[fd62:656e:7470:3::53]:53", Some(nameserver))] {
            assert_eq!(outside(dns_query), answer, "{dns_query}");
        }
        for reached in
            ["192.0.2.1:80", "100.64.2.1:80", "10.0.0.1:53", "[2001:db8::1]:443", "[fd62:656e:7470:2::1]:80", "[64:ff9b::192.0.2.10]:80"]
        {
            assert_eq!(outside(reached), Some(reached.parse().unwrap()), "{reached}");
        }
        for is_reserved in [
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
            assert_eq!(outside(is_reserved), None, "{is_reserved}");
        }
    }

    #[test]
    fn private_addresses_and_the_machines_own_are_reached_where_the_policy_says() {
        let (_, server) = addresses(3);
        let nameserver: SocketAddr = "192.168.1.1:53".parse().unwrap();
        let of = |reach, text: &str| Destinations::new(server, nameserver, reach).external(text.parse().unwrap());
        let private =
            ["10.0.0.1:80", "172.16.0.1:80", "192.168.1.9:80", "[fd00::1]:80", "[fc00::1]:80", "[fec0::1]:80", "[64:ff9b::10.0.0.1]:80"];
        for text in private {
            assert_eq!(of(Reach::Public, text), Err(Refusal::Policy), "{text}");
            assert_eq!(of(Reach::Any, text), Ok(text.parse().unwrap()), "{text}");
        }
        for text in ["192.0.2.1:80", "172.32.0.1:80", "100.64.2.1:80", "[fd62:656e:7470:2::1]:80", "[2001:db8::1]:443"] {
            assert_eq!(of(Reach::Public, text), Ok(text.parse().unwrap()), "{text}");
            assert_eq!(of(Reach::None, text), Err(Refusal::Policy), "{text}");
        }
        assert_eq!(of(Reach::Public, "100.64.3.53:53"), Ok(nameserver), "a private nameserver of the machine's is asked");
        assert_eq!(of(Reach::None, "100.64.3.53:53"), Err(Refusal::Policy));
        for reach in [Reach::Public, Reach::Any, Reach::None] {
            assert_eq!(of(reach, "127.0.0.1:80"), Err(Refusal::Forbidden));
        }
        let own: Vec<IpAddr> = getifaddrs().unwrap().filter_map(|device| device.address.as_ref().and_then(ip_of)).collect();
        assert!(own.iter().all(|address| is_of_this_machine(*address)), "{own:?}");
        assert!(!is_of_this_machine("192.0.2.1".parse().unwrap()));
    }
}
