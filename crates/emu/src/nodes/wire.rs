//! Wires between nodes: a veth pair between two network namespaces, with a packet socket at each end.
//!
//! The nodes' kernels have no addresses on them: all forwarding is the nodes' own.

use super::envelope::HOP_MTU;
use super::plan::Role;
use crate::error::{EmuError, system};
use crate::netlink::{index, with_netlink};
use crate::ring::{Frame, Ring};
use crate::segments::HEADER;
use crate::sysctl::try_set_sysctl;
use crate::veth::{DropCounter, packet_socket};
use nix::errno::Errno;
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{bind, getsockopt};
use nix::sys::uio::writev;
use rtnetlink::{LinkUnspec, LinkVeth};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const ETHERNET: usize = 14;
/// `EtherType` of IPv6 (RFC 2464).
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Addresses of the two ends (locally administered: IEEE 802 §8.4): of the node that makes the pair, and of the other.
const ADDRESSES: [[u8; 6]; 2] = [[0x02, b'n', b'o', b'd', b'e', 1], [0x02, b'n', b'o', b'd', b'e', 2]];

/// Make a pair in the calling thread's network namespace, and move its other end to the namespace of the process `pid`.
///
/// # Errors
/// [`EmuError::Interface`].
pub fn make_pair(name: &str, far_name: &str, pid: u32) -> Result<(), EmuError> {
    const END: &str = "node";
    let (name, far_name) = (name.to_owned(), far_name.to_owned());
    with_netlink(END, |handle| async move {
        let failed = |operation| move |e: rtnetlink::Error| EmuError::Interface { end: END, operation, reason: e.to_string() };
        // Under a name of its own until it has moved: several far ends have the same name, each in its own namespace.
        let pair = LinkVeth::new(&name, "far").address(ADDRESSES[0].to_vec()).mtu(HOP_MTU.into()).arp(false).build();
        handle.link().add(pair).execute().await.map_err(failed("veth pair"))?;
        let far = index(&handle, "far").await.map_err(failed("veth pair"))?;
        let far =
            LinkUnspec::new_with_index(far).name(far_name).address(ADDRESSES[1].to_vec()).mtu(HOP_MTU.into()).arp(false).setns_by_pid(pid);
        handle.link().set(far.build()).execute().await.map_err(failed("far end of the veth pair"))
    })
}

/// The receiving side of a wire.
pub struct Receiver {
    /// The node at the other end.
    pub peer: Role,
    socket: OwnedFd,
    ring: Ring,
}

/// The sending side of a wire.
pub struct Sender {
    /// The node at the other end.
    pub peer: Role,
    socket: OwnedFd,
    /// An empty virtio header and the link header.
    front: Vec<u8>,
    /// Frames that the kernel did not take.
    pub refused: u64,
}

/// Open the wire to `peer` at the interface `name`. `is_maker`: this node made the pair. `ring_bytes`: memory for received frames.
///
/// # Errors
/// [`EmuError::Interface`], [`EmuError::System`].
pub fn open(peer: Role, name: &str, is_maker: bool, ring_bytes: usize) -> Result<(Receiver, Sender), EmuError> {
    const END: &str = "node";
    try_set_sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), "1");
    let device = name.to_owned();
    with_netlink(END, |handle| async move {
        let failed = |e: rtnetlink::Error| EmuError::Interface { end: END, operation: "wire up", reason: e.to_string() };
        let number = index(&handle, &device).await.map_err(failed)?;
        handle.link().set(LinkUnspec::new_with_index(number).up().build()).execute().await.map_err(failed)
    })?;
    let socket = packet_socket().map_err(system("packet socket of a node"))?;
    let ring = Ring::map_bytes(&socket, ETHERNET + usize::from(HOP_MTU), ring_bytes).map_err(system("ring of a node's packet socket"))?;
    let interface = nix::ifaddrs::getifaddrs()
        .map_err(system("interfaces of a node"))?
        .filter(|interface| interface.interface_name == name)
        .find_map(|interface| interface.address?.as_link_addr().copied());
    let interface = interface.ok_or_else(|| EmuError::Interface { end: END, operation: "wire", reason: format!("no interface {name}") })?;
    bind(socket.as_raw_fd(), &interface).map_err(system("packet socket of a node"))?;
    let [own, other] = if is_maker { ADDRESSES } else { [ADDRESSES[1], ADDRESSES[0]] };
    let front = [&[0; HEADER][..], &other, &own, &IPV6].concat();
    let sending = socket.try_clone().map_err(system("descriptor of a packet socket"))?;
    Ok((Receiver { peer, socket, ring }, Sender { peer, socket: sending, front, refused: 0 }))
}

impl Receiver {
    /// Pass the IPv6 packet of the next frame to `read`; `None`: the frame is not IPv6, or was cut. False: no frame waits.
    ///
    /// # Errors
    /// The kernel's error for the interface.
    pub fn receive(&mut self, read: impl FnOnce(Option<&[u8]>)) -> io::Result<bool> {
        let taken = self.ring.read_frame(|frame| match frame {
            Some(Frame { bytes, .. }) => {
                read(bytes.split_at_checked(ETHERNET).filter(|(link, _)| link[12..] == IPV6).map(|(_, packet)| packet));
            }
            None => read(None),
        });
        if taken.is_none() {
            match getsockopt(&self.socket, SocketError)? {
                0 => {}
                error => return Err(Errno::from_raw(error).into()),
            }
        }
        Ok(taken.is_some())
    }

    /// A counter of frames that did not fit the ring.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn overflow(&self) -> Result<DropCounter, EmuError> {
        DropCounter::of(&self.socket)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sender {
    /// Send a frame of these parts of a packet.
    pub fn send(&mut self, headers: &[u8], inner: &[u8]) {
        let parts = [IoSlice::new(&self.front), IoSlice::new(headers), IoSlice::new(inner)];
        self.refused += u64::from(writev(&self.socket, &parts).is_err());
    }

    /// Return the link header of its frames.
    #[must_use]
    pub fn link_header(&self) -> &[u8] {
        &self.front[HEADER..]
    }
}
