//! Where there is no TUN device: a pair of virtual Ethernet devices, one end in the host's namespace, the other in one that nothing else is in, read and
//! written by a packet socket.
//!
//! The host's end says of itself what a TUN device does: no neighbours to be asked for, aggregates of TCP, checksums left to the device.

use crate::error::{EmuError, system};
use crate::interface::{index, with_netlink};
use crate::offload;
use crate::ring::{Frame, GSO_BYTES, Ring};
use crate::segments::HEADER;
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
    /// A virtio header in front of each frame, as a TUN device has it.
    VirtioHeader,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VNET_HDR,
    libc::c_int
);
sockopt_impl!(
    /// What the socket sends does not come back to it.
    IgnoreOutgoing,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_IGNORE_OUTGOING,
    libc::c_int
);
sockopt_impl!(
    /// What was received, and what found no room, since it was last asked.
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

/// What a packet socket brings.
pub enum Received<'a> {
    /// A packet: its virtio header, the bytes before the packet from which that counts, the packet.
    Ip(&'a [u8; HEADER], u16, &'a mut [u8]),
    /// A frame that is no IP.
    Other,
    /// A frame larger than the ring's.
    Cut,
}

/// See the module.
pub struct Veth {
    socket: OwnedFd,
    ring: Ring,
    /// Why the kernel does not finish what the relay cannot; `None`: it does.
    offload_refused: Option<String>,
    /// What goes in front of a packet of either version: an empty virtio header, the link header.
    fronts: [Vec<u8>; 2],
}

impl Veth {
    /// Creates the device `name` in the calling thread's network namespace, and its other end.
    ///
    /// # Errors
    /// [`EmuError::Interface`], [`EmuError::System`].
    pub fn create(end: &'static str, name: &'static str, mtu: u16) -> Result<Self, EmuError> {
        let host = gettid().as_raw();
        // A thread may leave its namespace but, without /proc, not come back: another goes. The socket keeps the namespace that it makes.
        let spawned = thread::scope(|scope| scope.spawn(|| Self::create_in_new_namespace(end, name, mtu, host)).join());
        spawned.map_err(|_| EmuError::Interface { end, operation: "veth pair", reason: "its thread failed".to_owned() })?
    }

    /// In a new namespace, with its near end in that of thread `host`.
    fn create_in_new_namespace(end: &'static str, name: &'static str, mtu: u16, host: i32) -> Result<Self, EmuError> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(system("network namespace of the relay's end"))?;
        let largest = GSO_BYTES.max(mtu.into());
        let offload_refused = with_netlink(end, |handle| async move {
            let failed = |operation| move |e: rtnetlink::Error| EmuError::Interface { end, operation, reason: e.to_string() };
            // A program that gives its own end a larger MTU is to be told of it by the relay, rather than lose its packets in between.
            let pair = LinkVeth::new(FAR, name).address(FAR_ADDRESS.to_vec()).mtu(LARGEST_MTU).arp(false).build();
            handle.link().add(pair).execute().await.map_err(failed("veth pair"))?;
            crate::host::try_set_sysctl(&format!("ipv6/conf/{FAR}/disable_ipv6"), "1");
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

    /// While the host's end is down, so that nothing is missed.
    fn open(largest: usize, offload_refused: Option<String>) -> Result<Self, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
        setsockopt(&socket, VirtioHeader, &1)?;
        setsockopt(&socket, IgnoreOutgoing, &1)?;
        let ring = Ring::map(&socket, usize::from(ETHERNET) + largest)?;
        // An interface's own address names it, without a protocol, so that the socket keeps its.
        let far =
            getifaddrs()?.filter(|i| i.interface_name == FAR).find_map(|i| i.address?.as_link_addr().copied()).ok_or(Errno::ENODEV)?;
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &far)?;
        let front = |kind: [u8; 2]| [&[0; HEADER][..], &NEAR_ADDRESS, &FAR_ADDRESS, &kind].concat();
        Ok(Self { socket, ring, offload_refused, fronts: [front(IPV4), front(IPV6)] })
    }

    /// Hands the next frame to `read`. `None`: there is none now.
    ///
    /// # Errors
    /// What the kernel says of the device.
    pub fn receive<T>(&mut self, read: impl FnOnce(Received<'_>) -> T) -> std::io::Result<Option<T>> {
        let taken = self.ring.read_frame(|frame| {
            let Some(Frame { header, bytes }) = frame else { return read(Received::Cut) };
            match bytes.split_at_mut_checked(ETHERNET.into()) {
                Some((link, packet)) if link[12..] == IPV4 || link[12..] == IPV6 => read(Received::Ip(&header, ETHERNET, packet)),
                _ => read(Received::Other),
            }
        });
        if taken.is_none() {
            // Memory says nothing of a device that is gone.
            match getsockopt(&self.socket, SocketError)? {
                0 => {}
                error => return Err(Errno::from_raw(error).into()),
            }
        }
        Ok(taken)
    }

    /// Hands a packet to the host's kernel.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&self, packet: &[u8]) -> Result<(), Errno> {
        let front = &self.fronts[usize::from(packet.first().is_some_and(|b| b >> 4 == 6))];
        writev(&self.socket, &[IoSlice::new(front), IoSlice::new(packet)]).map(drop)
    }

    /// Why the kernel does not finish before the relay gets it what the relay cannot; `None`: it does.
    #[must_use]
    pub fn offload_refused(&self) -> Option<&str> {
        self.offload_refused.as_deref()
    }

    /// For whoever counts the losses at the end.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn overflow(&self) -> Result<DropCounter, EmuError> {
        self.socket.try_clone().map(DropCounter).map_err(system("descriptor of the packet socket"))
    }
}

impl AsFd for Veth {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What found no room in a device's ring.
pub struct DropCounter(OwnedFd);

impl DropCounter {
    /// Packets, since it was last asked.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn count(&self) -> Result<u64, EmuError> {
        getsockopt(&self.0, Statistics).map(|stats| stats.tp_drops.into()).map_err(system("PACKET_STATISTICS"))
    }
}
