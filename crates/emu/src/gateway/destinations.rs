//! What of the client's destinations the gateway reaches, and where.

use crate::interface::Addresses;
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

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Destinations {
    resolver: Addresses,
    nameserver: SocketAddr,
}

impl Destinations {
    /// Behind `server`; questions to its resolver go to `nameserver`.
    #[must_use]
    pub fn new(server: Addresses, nameserver: SocketAddr) -> Self {
        Self { resolver: resolver(server), nameserver }
    }

    /// Where a packet to `destination` is to go from the machine; `None`: nowhere. The machine's loopback, its link-local neighbours (and with
    /// them a cloud's metadata service), groups and broadcasts stay out of reach, and so do the addresses of the emulation that nobody has.
    #[must_use]
    pub fn outside(&self, destination: SocketAddr) -> Option<SocketAddr> {
        match destination.ip() {
            IpAddr::V4(address) if address == self.resolver.v4 => self.question(destination),
            IpAddr::V4(address) => self.is_reached(address).then_some(destination),
            IpAddr::V6(address) => {
                if address == self.resolver.v6 {
                    return self.question(destination);
                }
                let ours = address.segments()[..4] == self.resolver.v6.segments()[..4];
                // Nobody's, the loopback, and IPv4 addresses in clothes: the kernel would take these for what they are (RFC 4291 §2.5.5).
                let kept = matches!(address.segments(), [0, 0, 0, 0, 0, 0 | 0xffff, _, _])
                    || address.is_unicast_link_local()
                    || address.is_multicast();
                let translated = behind_nat64(address).is_none_or(|behind| self.is_reached(behind));
                (!kept && !ours && translated).then_some(destination)
            }
        }
    }

    fn is_reached(&self, address: Ipv4Addr) -> bool {
        let kept = address.octets()[0] == 0
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast();
        let ours = address.octets()[..3] == self.resolver.v4.octets()[..3];
        !kept && !ours
    }

    fn question(&self, destination: SocketAddr) -> Option<SocketAddr> {
        (destination.port() == DNS).then_some(self.nameserver)
    }
}

/// Where a translator of IPv6 to IPv4 would send what goes to `address` (`64:ff9b::/96`, RFC 6052 §2.1); `None`: it is none of a translator's.
fn behind_nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., a, b, c, d] = address.octets();
    (prefix == [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0]).then(|| Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::addresses;

    #[test]
    fn what_is_reached_and_what_is_not() {
        let (_, server) = addresses(3);
        let nameserver: SocketAddr = "127.0.0.53:53".parse().unwrap();
        let destinations = Destinations::new(server, nameserver);
        let outside = |text: &str| destinations.outside(text.parse().unwrap());
        for (question, answer) in [("100.64.3.53:53", Some(nameserver)), ("[fd62:656e:7470:3::53]:53", Some(nameserver))] {
            assert_eq!(outside(question), answer, "{question}");
        }
        for reached in
            ["192.0.2.1:80", "100.64.2.1:80", "10.0.0.1:53", "[2001:db8::1]:443", "[fd62:656e:7470:2::1]:80", "[64:ff9b::192.0.2.10]:80"]
        {
            assert_eq!(outside(reached), Some(reached.parse().unwrap()), "{reached}");
        }
        for kept in [
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
            assert_eq!(outside(kept), None, "{kept}");
        }
    }
}
