//! Receive ring of a packet socket, in memory shared with the kernel (`PACKET_RX_RING`, `TPACKET_V2`;
//! `Documentation/networking/packet_mmap.rst`).
//!
//! Without it the socket would hold `net.core.rmem_max` bytes, on most machines fewer than 200 packets.

#![expect(
    unsafe_code,
    reason = "memory shared with the kernel: no crate maps a TPACKET_V2 ring, whose frames come without delay, with virtio headers"
)]

use crate::segments::HEADER;
use nix::errno::Errno;
use nix::libc::{self, tpacket_req, tpacket2_hdr};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use std::ffi::c_void;
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

sockopt_impl!(
    /// Layout of the ring's frames.
    Version,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VERSION,
    libc::c_int
);
sockopt_impl!(
    /// The ring itself.
    ReceiveRing,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_RX_RING,
    tpacket_req
);

/// Memory of a ring [bytes]: about 1800 frames of [`GSO_BYTES`], a quarter of a second of TCP at 1 Gbit/s. Chosen here: it is kernel memory for the whole
/// emulation.
const RING: usize = 32 << 20;

/// Size of the ring's blocks [bytes]: large enough for a frame of 64 KB, small enough for the kernel to allocate contiguously.
const BLOCK: usize = 128 << 10;

/// Largest aggregate in a ring whose MTU is smaller [bytes]: every frame has the size of the largest.
pub const GSO_BYTES: usize = 16_384;

/// Space in front of the link header, rounded up (`TPACKET2_HDRLEN`, alignment and virtio header are 76 bytes) [bytes].
const FRONT: usize = 128;

/// Bytes of a frame's status word.
const STATUS: usize = size_of::<u32>();

/// See the module.
pub struct Ring {
    memory: NonNull<c_void>,
    length: NonZeroUsize,
    frame_bytes: usize,
    frames_per_block: usize,
    frames: usize,
    next: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached through `&mut Ring` alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring for `socket` with frames of up to `largest` bytes, link header included.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn map(socket: &OwnedFd, largest: usize) -> Result<Self, Errno> {
        Self::map_bytes(socket, largest, RING)
    }

    /// As [`Ring::map`], with `memory_bytes` of memory, rounded down to whole blocks.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn map_bytes(socket: &OwnedFd, largest: usize, memory_bytes: usize) -> Result<Self, Errno> {
        let frame_bytes = (FRONT + largest).next_multiple_of(16); // TPACKET_ALIGNMENT
        let frames_per_block = BLOCK / frame_bytes;
        let blocks = (memory_bytes / BLOCK).max(1);
        let frames = frames_per_block * blocks;
        let number = |n: usize| u32::try_from(n).map_err(|_| Errno::EINVAL);
        let request = tpacket_req {
            tp_block_size: number(BLOCK)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(frame_bytes)?,
            tp_frame_nr: number(frames)?,
        };
        setsockopt(socket, Version, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        setsockopt(socket, ReceiveRing, &request)?;
        let length = NonZeroUsize::new(blocks * BLOCK).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping, at an address of the kernel's choice, of the `blocks` blocks that the socket just got.
        let memory = unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, socket.as_fd(), 0)? };
        Ok(Self { memory, length, frame_bytes, frames_per_block, frames, next: 0 })
    }

    /// Passes the next frame to `read`, then returns it to the kernel. `None`: none is waiting.
    pub fn read_frame<T>(&mut self, read: impl FnOnce(Option<Frame<'_>>) -> T) -> Option<T> {
        let at = self.next / self.frames_per_block * BLOCK + self.next % self.frames_per_block * self.frame_bytes;
        // SAFETY: `at + frame_bytes` is within the mapping: `next` is less than `frames`, and `frames_per_block` frames fit into a block.
        let frame = unsafe { self.memory.byte_add(at) };
        // SAFETY: frames begin at multiples of 16 bytes; the kernel and this process both access the word atomically.
        let status = unsafe { AtomicU32::from_ptr(frame.cast().as_ptr()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: between `TP_STATUS_USER` and `TP_STATUS_KERNEL` the frame's bytes are ours alone; the status word is left out, and `read` cannot keep
        // the slice, as it must take any lifetime.
        let bytes = unsafe { slice::from_raw_parts_mut(frame.byte_add(STATUS).cast().as_ptr(), self.frame_bytes - STATUS) };
        let result = read(Frame::parse(bytes));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.frames;
        Some(result)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing that refers to it outlives `self`.
        let _ = unsafe { munmap(self.memory, self.length.get()) };
    }
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The virtio header, whose offsets count from the link header.
    pub header: [u8; HEADER],
    /// Link header and packet.
    pub bytes: &'a mut [u8],
}

impl<'a> Frame<'a> {
    /// Parses `rest`, a ring's frame without its status word. `None`: the packet was truncated, or the frame is malformed.
    fn parse(rest: &'a mut [u8]) -> Option<Self> {
        let word = |at: usize| usize::try_from(u32::from_ne_bytes(rest.get(at - STATUS..)?.get(..4)?.try_into().ok()?)).ok();
        let (length, here) = (word(offset_of!(tpacket2_hdr, tp_len))?, word(offset_of!(tpacket2_hdr, tp_snaplen))?);
        let mac = rest.get(offset_of!(tpacket2_hdr, tp_mac) - STATUS..)?.get(..2)?;
        let link = usize::from(u16::from_ne_bytes(mac.try_into().ok()?));
        let start = link.checked_sub(STATUS + HEADER)?;
        let (header, bytes) = rest.get_mut(start..)?.get_mut(..here.checked_add(HEADER)?)?.split_at_mut(HEADER);
        (here == length).then_some(Self { header: (*header).try_into().ok()?, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_frame_is_parsed_or_rejected(mut rest in prop::collection::vec(any::<u8>(), 0..400), length in 0_u32..500, mac in 0_u16..500) {
            let _ = Frame::parse(&mut rest.clone());
            if rest.len() >= 16 {
                rest[..4].copy_from_slice(&length.to_ne_bytes());
                rest[4..8].copy_from_slice(&length.to_ne_bytes());
                rest[8..10].copy_from_slice(&mac.to_ne_bytes());
                let fits = usize::from(mac) >= STATUS + HEADER && usize::from(mac) - STATUS + length as usize <= rest.len();
                prop_assert_eq!(Frame::parse(&mut rest).map(|f| f.bytes.len()), fits.then_some(length as usize));
            }
        }
    }

    #[test]
    fn a_truncated_frame_is_rejected() {
        let mut rest = [0; 200];
        rest[..4].copy_from_slice(&100_u32.to_ne_bytes());
        rest[4..8].copy_from_slice(&60_u32.to_ne_bytes());
        rest[8..10].copy_from_slice(&76_u16.to_ne_bytes());
        assert_eq!(Frame::parse(&mut rest), None);
    }
}
