//! Replacement for a TUN device: a pair of virtual Ethernet devices, one end in the host's namespace, the other in an empty namespace, where a packet
//! socket reads and writes it.
//!
//! The host's end has a TUN device's features: no ARP, TCP segmentation offload, checksum offload.

use crate::error::{EmuError, system};
use crate::netlink::{index, with_netlink};
use crate::offload;
use crate::ring::{Frame, GSO_BYTES, Ring};
use crate::segments::HEADER;
use crate::sysctl::try_set_sysctl;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, bind, getsockopt, setsockopt, socket};
use nix::sys::uio::writev;
use nix::unistd::gettid;
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{LinkUnspec, LinkVeth};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

sockopt_impl!(
    /// Puts a virtio header in front of each frame, as a TUN device does.
    VirtioHeader,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VNET_HDR,
    libc::c_int
);
sockopt_impl!(
    /// Keeps the socket from receiving its own frames.
    IgnoreOutgoing,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_IGNORE_OUTGOING,
    libc::c_int
);
sockopt_impl!(
    /// Received and dropped packets since the last read.
    Statistics,
    GetOnly,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats
);

/// `ETH_MAX_MTU` (Linux' `include/uapi/linux/if_ether.h`) [bytes].
const LARGEST_MTU: u32 = 65_535;

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;

/// Name of the relay's end.
const FAR: &str = "relay";

/// Addresses of the two ends, the same in every run (locally administered: IEEE 802 §8.4).
const NEAR_ADDRESS: [u8; 6] = [0x02, b'b', b'e', b'n', b't', 1];
const FAR_ADDRESS: [u8; 6] = [0x02, b'b', b'e', b'n', b't', 2];

/// `EtherType` of each version (RFC 894, RFC 2464).
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Input of the packet socket.
pub enum Received<'a> {
    /// An IP packet: its virtio header, the length of the link header (virtio offsets include it), and the packet.
    Ip(&'a [u8; HEADER], u16, &'a mut [u8]),
    /// A frame that is not IP.
    Other,
    /// A frame larger than the ring's.
    Cut,
}

/// See the module.
pub struct Veth {
    socket: OwnedFd,
    ring: Ring,
    /// Why unsupported offloads could not be disabled; `None`: they are disabled.
    offload_refused: Option<String>,
    /// Headers in front of an IPv4 and an IPv6 packet: an empty virtio header, then the link header.
    fronts: [Vec<u8>; 2],
}

impl Veth {
    /// Creates the device `name` in the calling thread's network namespace, and its other end.
    ///
    /// # Errors
    /// [`EmuError::Interface`], [`EmuError::System`].
    pub fn create(end: &'static str, name: &'static str, mtu: u16) -> Result<Self, EmuError> {
        let host = gettid().as_raw();
        // Without /proc a thread cannot return to its namespace, so another thread makes the new one. The socket keeps that namespace alive.
        let spawned = thread::scope(|scope| scope.spawn(|| Self::create_in_new_namespace(end, name, mtu, host)).join());
        spawned.map_err(|_| EmuError::Interface { end, operation: "veth pair", reason: "its thread failed".to_owned() })?
    }

    /// Creates the pair in a new namespace and moves its near end to the namespace of thread `host`.
    fn create_in_new_namespace(end: &'static str, name: &'static str, mtu: u16, host: i32) -> Result<Self, EmuError> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(system("network namespace of the relay's end"))?;
        let largest = GSO_BYTES.max(mtu.into());
        let offload_refused = with_netlink(end, |handle| async move {
            let failed = |operation| move |e: rtnetlink::Error| EmuError::Interface { end, operation, reason: e.to_string() };
            // The largest MTU: if a program raises its own end's MTU, the relay answers oversized packets, and the pair does not drop them.
            let pair = LinkVeth::new(FAR, name).address(FAR_ADDRESS.to_vec()).mtu(LARGEST_MTU).arp(false).build();
            handle.link().add(pair).execute().await.map_err(failed("veth pair"))?;
            try_set_sysctl(&format!("ipv6/conf/{FAR}/disable_ipv6"), "1");
            let refused = offload::disable_unsupported(name).err().map(|e| e.to_string());
            let near = index(&handle, name).await.map_err(failed("veth pair"))?;
            let near = LinkUnspec::new_with_index(near)
                .address(NEAR_ADDRESS.to_vec())
                .arp(false)
                .append_extra_attribute(LinkAttribute::GsoMaxSize(u32::try_from(largest).unwrap_or(u32::MAX)))
                .setns_by_pid(host.unsigned_abs());
            handle.link().set(near.build()).execute().await.map_err(failed("the host's end of the veth pair"))?;
            let far = index(&handle, FAR).await.map_err(failed("veth pair"))?;
            let far = LinkUnspec::new_with_index(far).up().build();
            handle.link().set(far).execute().await.map_err(failed("the relay's end of the veth pair"))?;
            Ok(refused)
        })?;
        Self::open(largest, offload_refused).map_err(system("packet socket on the veth pair"))
    }

    /// Opens the packet socket, while the host's end is down, so that it misses no packet.
    fn open(largest: usize, offload_refused: Option<String>) -> Result<Self, Errno> {
        let socket = packet_socket()?;
        let ring = Ring::map(&socket, usize::from(ETHERNET) + largest)?;
        // The interface's own address has no protocol, so `bind` keeps the socket's.
        let far =
            getifaddrs()?.filter(|i| i.interface_name == FAR).find_map(|i| i.address?.as_link_addr().copied()).ok_or(Errno::ENODEV)?;
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &far)?;
        let front = |kind: [u8; 2]| [&[0; HEADER][..], &NEAR_ADDRESS, &FAR_ADDRESS, &kind].concat();
        Ok(Self { socket, ring, offload_refused, fronts: [front(IPV4), front(IPV6)] })
    }

    /// Passes the next frame to `read`. `None`: none is waiting.
    ///
    /// # Errors
    /// The kernel's error for the device.
    pub fn receive<T>(&mut self, read: impl FnOnce(Received<'_>) -> T) -> std::io::Result<Option<T>> {
        let taken = self.ring.read_frame(|frame| {
            let Some(Frame { header, bytes }) = frame else { return read(Received::Cut) };
            match bytes.split_at_mut_checked(ETHERNET.into()) {
                Some((link, packet)) if link[12..] == IPV4 || link[12..] == IPV6 => read(Received::Ip(&header, ETHERNET, packet)),
                _ => read(Received::Other),
            }
        });
        if taken.is_none() {
            // The ring does not show that the device is gone.
            match getsockopt(&self.socket, SocketError)? {
                0 => {}
                error => return Err(Errno::from_raw(error).into()),
            }
        }
        Ok(taken)
    }

    /// Writes a packet to the host's kernel.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn send(&self, packet: &[u8]) -> Result<(), Errno> {
        let front = &self.fronts[usize::from(packet.first().is_some_and(|b| b >> 4 == 6))];
        writev(&self.socket, &[IoSlice::new(front), IoSlice::new(packet)]).map(drop)
    }

    /// Why unsupported offloads could not be disabled; `None`: they are disabled.
    #[must_use]
    pub fn offload_refused(&self) -> Option<&str> {
        self.offload_refused.as_deref()
    }

    /// A counter of packets that did not fit the ring.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn overflow(&self) -> Result<DropCounter, EmuError> {
        DropCounter::of(&self.socket)
    }
}

impl AsFd for Veth {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a packet socket whose frames have virtio headers, and that does not receive its own frames.
pub(crate) fn packet_socket() -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    setsockopt(&socket, VirtioHeader, &1)?;
    setsockopt(&socket, IgnoreOutgoing, &1)?;
    Ok(socket)
}

/// Counter of packets that did not fit a device's ring.
pub struct DropCounter(OwnedFd);

impl DropCounter {
    /// The counter of a packet socket.
    pub(crate) fn of(socket: &OwnedFd) -> Result<Self, EmuError> {
        socket.try_clone().map(Self).map_err(system("descriptor of the packet socket"))
    }

    /// Packets dropped since the last call.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn count(&self) -> Result<u64, EmuError> {
        getsockopt(&self.0, Statistics).map(|stats| stats.tp_drops.into()).map_err(system("PACKET_STATISTICS"))
    }
}
