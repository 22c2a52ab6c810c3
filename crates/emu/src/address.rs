//! Addresses of the path's ends, its router and nested emulations.

use crate::error::{EmuError, system};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Smallest MTU for IPv6 (RFC 8200 §5) [bytes].
pub const IPV6_MTU: u16 = 1280;

/// Addresses of one end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// In a /24.
    pub v4: Ipv4Addr,
    /// In a /64.
    pub v6: Ipv6Addr,
}

/// Addresses of client and server, from the shared address space (RFC 6598), as terminals see the provider. `depth` separates nested emulations.
#[must_use]
pub fn addresses(depth: u8) -> (Addresses, Addresses) {
    let end = |host: u8| Addresses {
        v4: Ipv4Addr::new(100, 64, depth, host),
        v6: Ipv6Addr::new(0xfd62, 0x656e, 0x7470, u16::from(depth), 0, 0, 0, u16::from(host)),
    };
    (end(2), end(1))
}

/// Source addresses of the path's ICMP "packet too big" messages: unused addresses in the networks of both ends.
#[must_use]
pub fn router(depth: u8) -> Addresses {
    Addresses { v4: Ipv4Addr::new(100, 64, depth, 254), v6: Ipv6Addr::new(0xfd62, 0x656e, 0x7470, u16::from(depth), 0, 0, 0, 254) }
}

/// The smallest depth that the calling thread's namespace does not use: inside an emulation, the next one.
///
/// # Errors
/// [`EmuError::System`].
pub fn free_depth() -> Result<u8, EmuError> {
    let used: Vec<IpAddr> = nix::ifaddrs::getifaddrs()
        .map_err(system("addresses of the machine"))?
        .filter_map(|i| Some(i.address?.as_sockaddr_in()?.ip().into()))
        .collect();
    let taken = |depth: u8| used.iter().any(|a| matches!(a, IpAddr::V4(a) if a.octets()[..3] == [100, 64, depth]));
    Ok((0..=254).find(|&depth| !taken(depth)).unwrap_or(255))
}
