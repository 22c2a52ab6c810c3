//! A TUN device of one namespace: whole IP packets in, whole IP packets out.
//!
//! The kernel may hand over one buffer of up to 64 KB for a burst of TCP or UDP segments (TSO, USO), as it does to a network card; it is split
//! here, so that every element sees packets of the path's MTU. In the other direction every packet goes in alone, when it is due: nothing is
//! merged, since merging would show the receiver fewer arrivals than there were.

use crate::error::{EmuError, system};
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice, VIRTIO_NET_HDR_LEN};

/// Room for the kernel's per-packet header in front of each packet.
const HEADROOM: usize = VIRTIO_NET_HDR_LEN;

/// `VIRTIO_NET_HDR_F_DATA_VALID` (virtio 1.2, 5.1.6): its checksum was right when it left its sender and nothing here changes it.
const CHECKED: u8 = 2;

/// Largest aggregate that the kernel hands over [bytes].
const LARGEST: usize = 65_536;

/// Least payload of an aggregate's segments [bytes], whatever the MTU (`TCP_MIN_MSS`; UDP allows at most 128 segments).
const LEAST_SEGMENT: usize = 48;

/// A packet with room in front of it.
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    /// The IP packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.bytes[HEADROOM..HEADROOM + self.length]
    }

    /// To be rewritten, with its checksums.
    #[must_use]
    pub fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADROOM..HEADROOM + self.length]
    }
}

/// See the module.
pub struct Device {
    tun: SyncDevice,
    mtu: usize,
    aggregate: Vec<u8>,
    parts: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    spare: Vec<Vec<u8>>,
    malformed: u64,
}

impl Device {
    /// Creates the device `name` in the calling thread's network namespace; it carries packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// [`EmuError::Tun`].
    pub fn create(name: &str, mtu: u16) -> Result<Self, EmuError> {
        let mut builder = DeviceBuilder::new().name(name).layer(Layer::L3);
        builder = builder.with(|options| {
            options.offload(true);
        });
        let tun = builder.enable(false).build_sync().map_err(|e| EmuError::Tun { found: e.to_string() })?;
        tun.set_nonblocking(true).map_err(system("O_NONBLOCK on the TUN device"))?;
        let mtu = usize::from(mtu);
        let most = LARGEST / LEAST_SEGMENT + 1;
        let parts = (0..most).map(|_| vec![0; HEADROOM + mtu]).collect();
        Ok(Self { tun, mtu, aggregate: vec![0; HEADROOM + LARGEST], parts, sizes: vec![0; most], spare: Vec::new(), malformed: 0 })
    }

    /// The next packets: one, or the parts of one aggregate. False: there are none now.
    ///
    /// # Errors
    /// What the kernel says, other than that there is nothing.
    pub fn receive(&mut self, mut each: impl FnMut(Buffer)) -> Result<bool, EmuError> {
        let count = match self.tun.recv_multiple(&mut self.aggregate, &mut self.parts, &mut self.sizes, HEADROOM) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // Not the device's fault but the aggregate's: no packet of ours, and the next may be good.
            Err(e) if e.raw_os_error().is_none() => {
                self.malformed += 1;
                return Ok(true);
            }
            Err(e) => return Err(system("read from the TUN device")(e)),
        };
        for (part, &length) in self.parts.iter_mut().zip(&self.sizes).take(count) {
            let fresh = self.spare.pop().unwrap_or_else(|| vec![0; HEADROOM + self.mtu]);
            let mut bytes = std::mem::replace(part, fresh);
            bytes[..HEADROOM].fill(0);
            bytes[0] = CHECKED;
            each(Buffer { bytes, length });
        }
        Ok(true)
    }

    /// Aggregates so far that could not be taken apart.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// A packet that came another way. `None`: it is larger than the device's MTU.
    pub fn wrap(&mut self, packet: &[u8]) -> Option<Buffer> {
        if packet.len() > self.mtu {
            return None;
        }
        let mut bytes = self.spare.pop().unwrap_or_else(|| vec![0; HEADROOM + self.mtu]);
        bytes[..HEADROOM].fill(0);
        bytes[0] = CHECKED;
        bytes[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
        Some(Buffer { bytes, length: packet.len() })
    }

    /// Hands a packet to the kernel. False: the kernel did not take it (it drops what has no receiver, is malformed, or finds the device down).
    ///
    /// # Errors
    /// What the kernel says of the device rather than of the packet.
    pub fn send(&self, buffer: &Buffer) -> Result<bool, EmuError> {
        match self.tun.send(&buffer.bytes[..HEADROOM + buffer.length]) {
            Ok(_) => Ok(true),
            Err(e) => match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINVAL | Errno::ENOBUFS | Errno::EAGAIN | Errno::EIO | Errno::ENOMEM) => Ok(false),
                _ => Err(system("write to the TUN device")(e)),
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

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
