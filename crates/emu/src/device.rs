//! The device of one namespace that the relay reads and writes: whole IP packets in, whole IP packets out.
//!
//! A TUN device, or where that cannot be had a veth pair ([`crate::veth`]). The kernel may hand over one buffer for a burst of segments, as it does to a
//! network card; it is split ([`crate::segments`]), so that every element sees packets of the path's MTU. In the other direction every packet goes in
//! alone, when it is due, but for what is due at once ([`crate::merge`]).

use crate::error::{EmuError, system};
use crate::gateway::replies::too_big;
use crate::interface::Addresses;
use crate::merge::Merge;
use crate::segments::{HEADER, LARGEST, Parts, Refused, Split};
use crate::veth::{Overflow, Received, Veth};
use nix::errno::Errno;
use serde::Serialize;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Room for a TUN device's virtio header in front of each packet.
const HEADROOM: usize = HEADER;

/// `VIRTIO_NET_HDR_F_DATA_VALID` (virtio 1.2, 5.1.6): its checksum is right. A kernel may look nevertheless, as Linux' TUN does.
const CHECKED: u8 = 2;

/// A packet with room in front of it.
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    is_summed: bool,
}

impl Buffer {
    /// The IP packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.bytes[HEADROOM..HEADROOM + self.length]
    }

    /// Whether its transport's checksum was made by the relay: then it is right, and else what its sender wrote.
    #[must_use]
    pub const fn is_summed(&self) -> bool {
        self.is_summed
    }

    /// To be rewritten, with its checksums.
    #[must_use]
    pub fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADROOM..HEADROOM + self.length]
    }
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `/dev/net/tun`.
    Tun,
    /// A pair of virtual Ethernet devices and a packet socket.
    Veth,
}

enum Way {
    Tun { tun: SyncDevice, aggregate: Vec<u8> },
    Veth(Veth),
}

/// What came to a device and does not enter the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Packets larger than the path's MTU.
    pub too_large: u64,
    /// Buffers that could not be taken apart, or did not fit where the kernel puts them.
    pub malformed: u64,
    /// Frames that were no IP.
    pub other: u64,
}

/// See the module.
pub struct Device {
    end: &'static str,
    way: Way,
    mtu: u16,
    /// In whose name the sender of what is too large is told.
    routers: Addresses,
    parts: Parts,
    spare: Vec<Vec<u8>>,
    strays: Strays,
    told_lost: u64,
}

/// One read of a device.
enum Read {
    Nothing,
    Packets(Split),
    /// A frame that is no IP.
    Other,
    Malformed,
    /// With what its sender is to be told.
    TooLarge(Option<Vec<u8>>),
}

impl Device {
    /// Creates the device `name` in the calling thread's network namespace, that of the host `end`; it carries packets of up to `mtu` bytes, and
    /// says in the name of `routers` which are larger.
    ///
    /// # Errors
    /// [`EmuError::Device`]: neither kind can be had.
    pub fn create(end: &'static str, name: &'static str, mtu: u16, routers: Addresses) -> Result<Self, EmuError> {
        let way = match tun(name) {
            Ok(tun) => Way::Tun { tun, aggregate: vec![0; HEADER + LARGEST] },
            Err(tun) => match Veth::create(end, name, mtu) {
                Ok(veth) => Way::Veth(veth),
                Err(veth) => return Err(EmuError::Device { tun: tun.to_string(), veth: veth.to_string() }),
            },
        };
        Ok(Self {
            end,
            way,
            mtu,
            routers,
            parts: Parts::new(HEADROOM, mtu.into()),
            spare: Vec::new(),
            strays: Strays::default(),
            told_lost: 0,
        })
    }

    /// Which it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.way {
            Way::Tun { .. } => Kind::Tun,
            Way::Veth(_) => Kind::Veth,
        }
    }

    /// Why the kernel does not finish before the relay gets it what the relay cannot; `None`: it does.
    #[must_use]
    pub fn offload_refused(&self) -> Option<&str> {
        match &self.way {
            Way::Tun { .. } => None,
            Way::Veth(veth) => veth.offload_refused(),
        }
    }

    /// Where it counts what the relay was too late for, if its interface does not.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn overflow(&self) -> Result<Option<Overflow>, EmuError> {
        match &self.way {
            Way::Tun { .. } => Ok(None),
            Way::Veth(veth) => veth.overflow().map(Some),
        }
    }

    /// The next packets: one, or the parts of one aggregate. False: there are none now.
    ///
    /// # Errors
    /// What the kernel says, other than that there is nothing.
    pub fn receive(&mut self, mut each: impl FnMut(Buffer)) -> Result<bool, EmuError> {
        let split = match self.read()? {
            Read::Nothing => return Ok(false),
            Read::Packets(split) => split,
            // Not the device's fault but the packet's: none of ours, and the next may be good.
            Read::Other => {
                self.strays.other += 1;
                return Ok(true);
            }
            Read::Malformed => {
                self.strays.malformed += 1;
                return Ok(true);
            }
            Read::TooLarge(answer) => {
                self.strays.too_large += 1;
                if let Some(answer) = answer.and_then(|answer| self.wrap(&answer)) {
                    self.send(&answer)?;
                    self.recycle(answer);
                }
                return Ok(true);
            }
        };
        for index in 0..split.count {
            let (bytes, length) = self.parts.take(index, self.spare.pop());
            each(fresh(bytes, length, split.is_summed));
        }
        Ok(true)
    }

    fn read(&mut self) -> Result<Read, EmuError> {
        let (parts, mtu, routers) = (&mut self.parts, self.mtu, self.routers);
        let mut apart = |header: &[u8; HEADER], link: u16, packet: &mut [u8]| match parts.split(header, link, packet) {
            Ok(split) => Read::Packets(split),
            Err(Refused::TooLarge) => Read::TooLarge(too_big(routers, mtu, packet)),
            Err(Refused::Malformed) => Read::Malformed,
        };
        Ok(match &mut self.way {
            Way::Tun { tun, aggregate } => match tun.recv(aggregate) {
                Ok(length) => match aggregate[..length].split_first_chunk_mut() {
                    Some((header, packet)) => apart(header, 0, packet),
                    None => Read::Malformed,
                },
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Read::Nothing,
                Err(e) => return Err(failed(self.end, e)),
            },
            Way::Veth(veth) => match veth.receive(|frame| match frame {
                Received::Ip(header, link, packet) => apart(header, link, packet),
                Received::Other => Read::Other,
                Received::Cut => Read::Malformed,
            }) {
                Ok(Some(read)) => read,
                Ok(None) => Read::Nothing,
                Err(e) => return Err(failed(self.end, e)),
            },
        })
    }

    /// What came so far and did not enter the path.
    #[must_use]
    pub const fn strays(&self) -> Strays {
        self.strays
    }

    /// Packets that the device lost as they were handed to it, and said so: its own counters have them, too.
    #[must_use]
    pub const fn told_lost(&self) -> u64 {
        self.told_lost
    }

    /// A packet that came another way. `None`: it is larger than the device's MTU.
    pub fn wrap(&mut self, packet: &[u8]) -> Option<Buffer> {
        let mtu = usize::from(self.mtu);
        if packet.len() > mtu {
            return None;
        }
        let mut bytes = self.spare.pop().unwrap_or_else(|| vec![0; HEADROOM + mtu]);
        bytes[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
        Some(fresh(bytes, packet.len(), true)) // the relay's own, or the gateway's
    }

    /// Hands a packet to the kernel. False: the kernel did not take it (it drops what has no receiver, is malformed, or finds the device down).
    ///
    /// # Errors
    /// What the kernel says of the device rather than of the packet.
    pub fn send(&mut self, buffer: &Buffer) -> Result<bool, EmuError> {
        let sent = match &self.way {
            Way::Tun { tun, .. } => tun.send(&buffer.bytes[..HEADROOM + buffer.length]).map(drop),
            Way::Veth(veth) => veth.send(buffer.packet()).map_err(Into::into),
        };
        self.taken(sent, 1)
    }

    /// Whether [`Self::send_burst`] does something.
    #[must_use]
    pub const fn takes_bursts(&self) -> bool {
        matches!(self.way, Way::Tun { .. })
    }

    /// Hands what has been joined to the kernel, all or nothing, and empties it. `None`: there is nothing.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_burst(&mut self, burst: &mut Merge) -> Result<Option<bool>, EmuError> {
        let Way::Tun { tun, .. } = &self.way else { return Ok(None) };
        let packets = burst.count();
        let Some(sent) = burst.finish(CHECKED).map(|bytes| tun.send(bytes).map(drop)) else { return Ok(None) };
        self.taken(sent, packets).map(Some)
    }

    /// Whether the kernel took `packets`, of what it says.
    fn taken(&mut self, sent: io::Result<()>, packets: u32) -> Result<bool, EmuError> {
        match sent {
            Ok(()) => Ok(true),
            Err(e) => match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOBUFS) => {
                    self.told_lost += u64::from(packets);
                    Ok(false)
                }
                Some(Errno::EINVAL | Errno::EAGAIN | Errno::EIO | Errno::ENOMEM) => Ok(false),
                _ => Err(system("write to the host's device")(e)),
            },
        }
    }

    /// Takes back the room of a packet that is gone.
    pub fn recycle(&mut self, buffer: Buffer) {
        if self.spare.len() < 4096 {
            self.spare.push(buffer.bytes);
        }
    }
}

/// A packet of `length` bytes behind its headroom.
fn fresh(mut bytes: Vec<u8>, length: usize, is_summed: bool) -> Buffer {
    bytes[..HEADROOM].fill(0);
    bytes[0] = if is_summed { CHECKED } else { 0 };
    Buffer { bytes, length, is_summed }
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
        match &self.way {
            Way::Tun { tun, .. } => tun.as_fd(),
            Way::Veth(veth) => veth.as_fd(),
        }
    }
}

/// Of a read: a device that is gone (`EBADFD` of a TUN, `ENXIO` of a packet socket), or down (`EIO`, `ENETDOWN`), is its user's doing.
fn failed(end: &'static str, found: io::Error) -> EmuError {
    match found.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBADFD | Errno::ENXIO | Errno::ENODEV | Errno::EIO | Errno::ENETDOWN) => EmuError::DeviceGone { end, found },
        _ => system("read from the path's device")(found),
    }
}
