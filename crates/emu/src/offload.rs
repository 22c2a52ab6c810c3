//! Offload features of a veth pair's near end. TCP segmentation and plain checksums stay on, as for a TUN device. The pair also offers features that the
//! relay cannot complete: tunnels, SCTP, GSO lists, VLAN tags; these are switched off.

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::fmt::Debug;
use std::io;

/// Features to switch off (`net/ethtool/common.c`). UDP segmentation too: kernels before 6.2 cannot describe it in a virtio header.
const DISABLED_FEATURES: [&str; 12] = [
    "tx-udp-segmentation",
    "tx-gre-segmentation",
    "tx-gre-csum-segmentation",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-sctp-segmentation",
    "tx-checksum-sctp",
    "tx-gso-list",
    "tx-vlan-hw-insert",
    "tx-vlan-stag-hw-insert",
];

/// `include/uapi/linux/ethtool_netlink.h`.
const FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
const HEADER_DEV_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITSET_BITS_BIT: u16 = 1;
const BITSET_BIT_NAME: u16 = 2;

/// `include/uapi/linux/netlink.h`.
const NLMSG_ERROR: u16 = 2;

/// Switches off [`DISABLED_FEATURES`] of `device` in the calling thread's namespace.
///
/// # Errors
/// The kernel's error. A kernel without the interface (before 5.7), or one that refuses, may hand over buffers that the relay counts as malformed.
pub fn disable_unsupported(device: &str) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let family = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![GenlCtrlAttrs::FamilyName(Features::family_name().to_owned())] };
    send(&socket, GenlMessage::from_payload(family), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<GenlMessage<GenlCtrl>>::deserialize(&answer).map_err(io::Error::other)?;
    let NetlinkPayload::InnerMessage(family) = answer.payload else { return Err(io::ErrorKind::Unsupported.into()) };
    let id = family.payload.nlas.iter().find_map(|nla| match nla {
        GenlCtrlAttrs::FamilyId(id) => Some(*id),
        _ => None,
    });
    let features = Features(device.to_owned());
    let header = GenlHeader { cmd: features.command(), version: features.version() };
    send(&socket, GenlMessage::new(header, features, id.ok_or(io::ErrorKind::Unsupported)?), NLM_F_ACK)?;
    loop {
        // The list of changes and an acknowledgement, or an error.
        let (answer, _) = socket.recv_from_full()?;
        if let Some(verdict) = verdict(&answer) {
            return verdict;
        }
    }
}

/// Result of the request from a reply; `None`: the reply is something else.
fn verdict(answer: &[u8]) -> Option<io::Result<()>> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let Ok(message) = NetlinkBuffer::new_checked(answer) else { return Some(Err(broken())) };
    if message.message_type() != NLMSG_ERROR {
        return None;
    }
    let code = message.payload().first_chunk().map(|code| i32::from_ne_bytes(*code));
    Some(match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(broken()),
    })
}

/// Sends a request. The kernel executes it before this returns.
fn send<F: Debug>(socket: &Socket, message: GenlMessage<F>, flags: u16) -> io::Result<()>
where
    GenlMessage<F>: NetlinkSerializable,
{
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0).map(drop)
}

/// The request to switch off [`DISABLED_FEATURES`] of the device with this name.
#[derive(Debug)]
struct Features(String);

impl Features {
    fn attributes(&self) -> Vec<DefaultNla> {
        let text = |kind, text: &str| DefaultNla::new(kind, [text.as_bytes(), &[0]].concat());
        // A bit named without its value flag is switched off.
        let bits: Vec<_> = DISABLED_FEATURES.iter().map(|name| nest(BITSET_BITS_BIT, &[text(BITSET_BIT_NAME, name)])).collect();
        vec![nest(FEATURES_HEADER, &[text(HEADER_DEV_NAME, &self.0)]), nest(FEATURES_WANTED, &[nest(BITSET_BITS, &bits)])]
    }
}

fn nest(kind: u16, parts: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; parts.buffer_len()];
    parts.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

impl GenlFamily for Features {
    fn family_name() -> &'static str {
        "ethtool"
    }

    fn command(&self) -> u8 {
        FEATURES_SET
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Features {
    fn buffer_len(&self) -> usize {
        self.attributes().as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes().as_slice().emit(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A netlink message with its header.
    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + payload.len()).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], payload].concat()
    }

    #[test]
    fn an_error_is_distinguished_from_an_acknowledgement() {
        let reply = |code: i32| verdict(&message(NLMSG_ERROR, &[&code.to_ne_bytes()[..], &[0; 16]].concat()));
        assert!(reply(0).unwrap().is_ok());
        assert_eq!(reply(-95).unwrap().unwrap_err().raw_os_error(), Some(95));
        assert!(verdict(&message(30, &[12, 1, 0, 0])).is_none(), "the list of changes");
        assert!(verdict(&message(NLMSG_ERROR, &[])).unwrap().is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_replies_do_not_panic(answer in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = verdict(&answer);
        }
    }
}
