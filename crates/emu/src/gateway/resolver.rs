//! DNS: inside, `/etc/resolv.conf` names the gateway, which forwards queries to the machine's nameserver on the machine's network.

use super::destinations::resolver;
use crate::address::{Addresses, IPV6_MTU};
use crate::error::EmuError;
use crate::names::mount_over;
use nix::net::if_::if_nametoindex;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The C library's default nameserver (resolv.conf(5)).
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// Makes the gateway the nameserver of programs inside, and returns the machine's first nameserver. Call it once, since it reads the file it mounts over.
/// Without an `/etc/resolv.conf` there is nothing to mount over: programs query their own loopback, as they would outside.
///
/// # Errors
/// [`EmuError::System`].
pub fn install(server: Addresses, mtu: u16) -> Result<SocketAddr, EmuError> {
    let Ok(original) = fs::read(RESOLV_CONF) else { return Ok(DEFAULT) };
    let original = String::from_utf8_lossy(&original);
    mount_over(RESOLV_CONF, resolv_conf(&original, resolver(server), mtu >= IPV6_MTU).as_bytes())?;
    Ok(first_nameserver(&original).unwrap_or(DEFAULT))
}

/// The content of `/etc/resolv.conf` inside: the machine's search lists and options, with the gateway's resolver.
fn resolv_conf(original: &str, resolver: Addresses, v6: bool) -> String {
    let v4 = format!("nameserver {}\n", resolver.v4);
    let mut text = if v6 { format!("{v4}nameserver {}\n", resolver.v6) } else { v4 };
    for line in original.lines().filter(|line| !line.trim_start().starts_with("nameserver")) {
        text += line;
        text.push('\n');
    }
    text
}

fn first_nameserver(text: &str) -> Option<SocketAddr> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            return None;
        }
        let word = words.next()?;
        if let Ok(address) = word.parse::<IpAddr>() {
            return Some(SocketAddr::new(address, 53));
        }
        // A link-local address has its interface after a %.
        let (address, interface) = word.split_once('%')?;
        let scope = if_nametoindex(interface).ok().or_else(|| interface.parse().ok())?;
        Some(SocketAddrV6::new(address.parse::<Ipv6Addr>().ok()?, 53, 0, scope).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::addresses;
    use proptest::prelude::*;

    const MACHINES: &str = "# made by a program\nnameserver 127.0.0.53\n  nameserver 192.0.2.1\noptions edns0\nsearch example.org\n";

    #[test]
    fn the_gateway_replaces_the_machines_nameservers() {
        let (_, server) = addresses(0);
        let expected = "nameserver 100.64.0.53\nnameserver fd62:656e:7470::53\n# made by a program\noptions edns0\nsearch example.org\n";
        assert_eq!(resolv_conf(MACHINES, resolver(server), true), expected);
        assert_eq!(first_nameserver(MACHINES), Some("127.0.0.53:53".parse().unwrap()));
    }

    #[test]
    fn the_first_nameserver_is_parsed() {
        assert_eq!(first_nameserver("nameserver fe80::1%lo\n"), Some(SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 1).into()));
        assert_eq!(first_nameserver("nameserver\t2001:db8::1 \n"), Some("[2001:db8::1]:53".parse().unwrap()));
        assert_eq!(first_nameserver("nameservers 192.0.2.1\nnameserver none\n#nameserver 192.0.2.1\n"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_files_are_parsed(text in "(nameserver[ \t%0-9a-f:.]{0,20}\n|\\PC{0,20}\n){0,5}") {
            let _ = first_nameserver(&text);
            let mine = resolv_conf(&text, resolver(addresses(0).1), false);
            prop_assert_eq!(first_nameserver(&mine), Some("100.64.0.53:53".parse().unwrap()));
        }
    }
}
