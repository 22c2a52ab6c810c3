//! The relay's device in one namespace: whole IP packets in, whole IP packets out.
//!
//! It is a TUN device, or a veth pair ([`crate::veth`]) where TUN is unavailable. The kernel may hand over a burst of segments in one buffer, as to a
//! network card (GSO); it is split ([`crate::segments`]), so that every element sees packets of the path's MTU. In the other direction each packet is
//! written alone when it is due, except packets due at nearly the same time ([`crate::gro`]).

use crate::address::Addresses;
use crate::error::{EmuError, system};
use crate::gro::GroBuffer;
use crate::interface::Kind;
use crate::packets::too_big;
use crate::segments::{HEADER, LARGEST, Split, SplitBuffers, SplitError};
use crate::veth::{DropCounter, Received, Veth};
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice, checksum};

/// Room for a TUN device's virtio header in front of each packet.
const HEADROOM: usize = HEADER;

/// `VIRTIO_NET_HDR_F_DATA_VALID` (virtio 1.2, 5.1.6): the checksum is valid. A kernel may verify it nevertheless, as Linux' TUN does.
const CHECKED: u8 = 2;

/// A packet with headroom.
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    is_checksum_computed: bool,
}

impl Buffer {
    /// The IP packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.bytes[HEADROOM..HEADROOM + self.length]
    }

    /// Whether the relay computed the transport checksum. If not, the checksum is the sender's, right or wrong.
    #[must_use]
    pub const fn is_checksum_computed(&self) -> bool {
        self.is_checksum_computed
    }

    /// The IP packet, to rewrite it. The caller updates its checksums.
    #[must_use]
    pub fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADROOM..HEADROOM + self.length]
    }
}

enum Backend {
    Tun { tun: SyncDevice, aggregate: Vec<u8> },
    Veth(Veth),
}

/// Counters of input that does not enter the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectedPackets {
    /// Packets larger than the path's MTU.
    pub too_large: u64,
    /// Buffers that could not be split, or did not fit the ring's frames.
    pub malformed: u64,
    /// Frames that are not IP.
    pub other: u64,
}

/// See the module.
pub struct Device {
    end: &'static str,
    backend: Backend,
    mtu: u16,
    /// Source addresses of ICMP "packet too big" messages.
    routers: Addresses,
    parts: SplitBuffers,
    spare_buffers: Vec<Vec<u8>>,
    rejected: RejectedPackets,
    reported_drops: u64,
}

/// Result of one read.
enum Read {
    Nothing,
    Packets(Split),
    /// A frame that is not IP.
    Other,
    Malformed,
    /// With the ICMP message for its sender.
    TooLarge(Option<Vec<u8>>),
}

impl Device {
    /// Creates the device `name` in the calling thread's network namespace, which belongs to the host `end`. It carries packets of up to `mtu` bytes and
    /// answers larger ones with ICMP from `routers`.
    ///
    /// # Errors
    /// [`EmuError::Device`]: neither kind can be created.
    pub fn create(end: &'static str, name: &'static str, mtu: u16, routers: Addresses) -> Result<Self, EmuError> {
        let backend = match tun(name) {
            Ok(tun) => Backend::Tun { tun, aggregate: vec![0; HEADER + LARGEST] },
            Err(tun) => match Veth::create(end, name, mtu) {
                Ok(veth) => Backend::Veth(veth),
                Err(veth) => return Err(EmuError::Device { tun: tun.to_string(), veth: veth.to_string() }),
            },
        };
        Ok(Self {
            end,
            backend,
            mtu,
            routers,
            parts: SplitBuffers::new(HEADROOM, mtu.into()),
            spare_buffers: Vec::new(),
            rejected: RejectedPackets::default(),
            reported_drops: 0,
        })
    }

    /// The kind of device.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.backend {
            Backend::Tun { .. } => Kind::Tun,
            Backend::Veth(_) => Kind::Veth,
        }
    }

    /// Why unsupported offloads could not be disabled; `None`: they are disabled.
    #[must_use]
    pub fn offload_refused(&self) -> Option<&str> {
        match &self.backend {
            Backend::Tun { .. } => None,
            Backend::Veth(veth) => veth.offload_refused(),
        }
    }

    /// Counter of packets that the relay read too late, if the interface's own counters lack them.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn overflow(&self) -> Result<Option<DropCounter>, EmuError> {
        match &self.backend {
            Backend::Tun { .. } => Ok(None),
            Backend::Veth(veth) => veth.overflow().map(Some),
        }
    }

    /// Reads the next packets: one, or the segments of one aggregate. False: none are waiting.
    ///
    /// # Errors
    /// [`EmuError::DeviceGone`], [`EmuError::System`].
    pub fn receive(&mut self, mut each: impl FnMut(Buffer)) -> Result<bool, EmuError> {
        let parts = match self.read()? {
            Read::Nothing => return Ok(false),
            Read::Packets(parts) => parts,
            // The fault is the packet's, not the device's: the next one may be good.
            Read::Other => {
                self.rejected.other += 1;
                return Ok(true);
            }
            Read::Malformed => {
                self.rejected.malformed += 1;
                return Ok(true);
            }
            Read::TooLarge(answer) => {
                self.rejected.too_large += 1;
                if let Some(answer) = answer.and_then(|answer| self.wrap(&answer)) {
                    self.send(&answer)?;
                    self.recycle(answer);
                }
                return Ok(true);
            }
        };
        for index in 0..parts.count {
            let (bytes, length) = self.parts.take(index, self.spare_buffers.pop());
            each(buffer_with_headroom(bytes, length, parts.is_checksum_computed));
        }
        Ok(true)
    }

    fn read(&mut self) -> Result<Read, EmuError> {
        let (parts, mtu, routers) = (&mut self.parts, self.mtu, self.routers);
        let mut split = |header: &[u8; HEADER], link: u16, packet: &mut [u8]| match parts.split(header, link, packet) {
            Ok(split) => Read::Packets(split),
            Err(SplitError::TooLarge) => Read::TooLarge(too_big(routers, mtu, packet)),
            Err(SplitError::Malformed) => Read::Malformed,
        };
        Ok(match &mut self.backend {
            Backend::Tun { tun, aggregate } => match tun.recv(aggregate) {
                Ok(length) => match aggregate[..length].split_first_chunk_mut() {
                    Some((header, packet)) => split(header, 0, packet),
                    None => Read::Malformed,
                },
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Read::Nothing,
                Err(e) => return Err(failed(self.end, e)),
            },
            Backend::Veth(veth) => match veth.receive(|frame| match frame {
                Received::Ip(header, link, packet) => split(header, link, packet),
                Received::Other => Read::Other,
                Received::Cut => Read::Malformed,
            }) {
                Ok(Some(read)) => read,
                Ok(None) => Read::Nothing,
                Err(e) => return Err(failed(self.end, e)),
            },
        })
    }

    /// Counters of input that did not enter the path.
    #[must_use]
    pub const fn rejected(&self) -> RejectedPackets {
        self.rejected
    }

    /// Packets that the device dropped with an error (`ENOBUFS`). Its own counters include them.
    #[must_use]
    pub const fn reported_drops(&self) -> u64 {
        self.reported_drops
    }

    /// Copies a packet from another source into a buffer. `None`: it is larger than the device's MTU.
    pub fn wrap(&mut self, packet: &[u8]) -> Option<Buffer> {
        let mtu = usize::from(self.mtu);
        if packet.len() > mtu {
            return None;
        }
        let mut bytes = self.spare_buffers.pop().unwrap_or_else(|| vec![0; HEADROOM + mtu]);
        bytes[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
        Some(buffer_with_headroom(bytes, packet.len(), true)) // made by the relay or the gateway
    }

    /// As [`Device::wrap`], for a packet that has crossed nodes: its checksum may be wrong.
    pub fn wrap_unchecked(&mut self, packet: &[u8]) -> Option<Buffer> {
        let Buffer { bytes, length, .. } = self.wrap(packet)?;
        Some(buffer_with_headroom(bytes, length, has_valid_checksum(packet)))
    }

    /// Writes a packet to the kernel. False: the kernel rejected it (malformed, or the device is down).
    ///
    /// # Errors
    /// [`EmuError::System`]: an error of the device rather than of the packet.
    pub fn send(&mut self, buffer: &Buffer) -> Result<bool, EmuError> {
        let sent = match &self.backend {
            Backend::Tun { tun, .. } => tun.send(&buffer.bytes[..HEADROOM + buffer.length]).map(drop),
            Backend::Veth(veth) => veth.send(buffer.packet()).map_err(Into::into),
        };
        self.is_accepted(sent, 1)
    }

    /// Whether the device supports [`Self::send_burst`].
    #[must_use]
    pub const fn accepts_bursts(&self) -> bool {
        matches!(self.backend, Backend::Tun { .. })
    }

    /// Writes the coalesced packets to the kernel, all or none, and empties the buffer. `None`: it was empty.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_burst(&mut self, burst: &mut GroBuffer) -> Result<Option<bool>, EmuError> {
        let Backend::Tun { tun, .. } = &self.backend else { return Ok(None) };
        let packets = burst.count();
        let Some(sent) = burst.finish(CHECKED).map(|bytes| tun.send(bytes).map(drop)) else { return Ok(None) };
        self.is_accepted(sent, packets).map(Some)
    }

    /// Whether the kernel accepted `packets`, by the result of the write.
    fn is_accepted(&mut self, sent: io::Result<()>, packets: u32) -> Result<bool, EmuError> {
        match sent {
            Ok(()) => Ok(true),
            Err(e) => match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOBUFS) => {
                    self.reported_drops += u64::from(packets);
                    Ok(false)
                }
                Some(Errno::EINVAL | Errno::EAGAIN | Errno::EIO | Errno::ENOMEM) => Ok(false),
                _ => Err(system("write to the host's device")(e)),
            },
        }
    }

    /// Keeps the memory of a finished packet for reuse.
    pub fn recycle(&mut self, buffer: Buffer) {
        if self.spare_buffers.len() < 4096 {
            self.spare_buffers.push(buffer.bytes);
        }
    }
}

/// A packet of `length` bytes behind its headroom.
fn buffer_with_headroom(mut bytes: Vec<u8>, length: usize, is_checksum_computed: bool) -> Buffer {
    bytes[..HEADROOM].fill(0);
    bytes[0] = if is_checksum_computed { CHECKED } else { 0 };
    Buffer { bytes, length, is_checksum_computed }
}

/// Whether a TCP or UDP packet in one piece has a valid transport checksum.
fn has_valid_checksum(packet: &[u8]) -> bool {
    let (protocol, addresses, payload) = match packet {
        [first, ..] if first >> 4 == 4 && packet.len() >= 20 && matches!([packet[6] & 0x3f, packet[7]], [0, 0]) => {
            (packet[9], &packet[12..20], packet.get(usize::from(first & 15) * 4..).unwrap_or_default())
        }
        [first, ..] if first >> 4 == 6 && packet.len() >= 40 => (packet[6], &packet[8..40], &packet[40..]),
        _ => return false,
    };
    let is_absent = protocol == 17 && payload.get(6..8) == Some(&[0, 0]);
    if !matches!(protocol, 6 | 17) || payload.len() < 8 || is_absent {
        return false;
    }
    let [high, low] = u16::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let pseudo = !checksum(&[addresses, &[0, protocol, high, low]].concat(), 0);
    !checksum(payload, u64::from(pseudo)) == 0xffff
}

fn tun(name: &str) -> io::Result<SyncDevice> {
    let mut builder = DeviceBuilder::new().name(name).layer(Layer::L3);
    builder = builder.with(|options| {
        options.offload(true);
    });
    let tun = builder.enable(false).build_sync()?;
    tun.set_nonblocking(true)?;
    Ok(tun)
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Tun { tun, .. } => tun.as_fd(),
            Backend::Veth(veth) => veth.as_fd(),
        }
    }
}

/// Maps a read error. A device that is gone (`EBADFD` of a TUN, `ENXIO` of a packet socket) or down (`EIO`, `ENETDOWN`) is the user's doing.
fn failed(end: &'static str, reason: io::Error) -> EmuError {
    match reason.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBADFD | Errno::ENXIO | Errno::ENODEV | Errno::EIO | Errno::ENETDOWN) => EmuError::DeviceGone { end, reason },
        _ => system("read from the path's device")(reason),
    }
}
