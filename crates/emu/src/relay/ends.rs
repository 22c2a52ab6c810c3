//! The two ends of the path: packets' bytes while they are on the path, and their delivery to the kernel or the gateway.

use super::report::RelayReport;
use crate::capture::{Content, Tap};
use crate::clock::Clock;
use crate::device::{Buffer, Device};
use crate::ecn;
use crate::error::EmuError;
use crate::gateway::{Disposition, Gateway};
use crate::gro::GroBuffer;
use crate::lateness::Lateness;
use bentpipe_link::{Ecn, Outcome, Packet};
use bentpipe_profile::{Direction, Nanos, Time};

/// Packets that leave the path at nearly the same time.
#[derive(Default)]
struct Burst {
    buffer: GroBuffer,
    /// Its packets, each with its due time and its bytes for the capture.
    packets: Vec<(Packet, Time, Option<Content>)>,
}

/// Counters of [`RelayReport`].
#[derive(Default)]
struct Counts {
    delivered: u64,
    lost: u64,
    kernel_rejected: u64,
    coalesced: u64,
}

/// See the module.
pub struct PathEnds {
    /// The relay's clock, once it runs.
    pub clock: Clock,
    /// Indexed by the direction of the packets read from it: the client's, the server's.
    pub devices: [Device; 2],
    /// At the server's end.
    pub gateway: Option<Gateway>,
    /// The capture.
    pub tap: Option<Tap>,
    bodies: Vec<Option<Buffer>>,
    free: Vec<u32>,
    /// By direction.
    bursts: [Burst; 2],
    lateness: Lateness,
    counts: Counts,
}

impl PathEnds {
    /// Creates the ends without packets and without a capture.
    pub fn new(devices: [Device; 2], gateway: Option<Gateway>) -> Self {
        Self {
            clock: Clock::starting_at(Time::ZERO, Nanos(0)),
            devices,
            gateway,
            tap: None,
            bodies: Vec::new(),
            free: Vec::new(),
            bursts: Default::default(),
            lateness: Lateness::default(),
            counts: Counts::default(),
        }
    }

    /// Keeps a packet's bytes while it is on the path; returns its length and the number under which it is kept.
    #[allow(clippy::cast_possible_truncation)] // packets and their number are small
    pub fn store(&mut self, buffer: Buffer) -> (u32, u32) {
        let bytes = buffer.packet().len() as u32;
        let body = self.free.pop().unwrap_or_else(|| {
            self.bodies.push(None);
            self.bodies.len() as u32 - 1
        });
        self.bodies[body as usize] = Some(buffer);
        (bytes, body)
    }

    fn release(&mut self, body: u32, direction: Direction) {
        if let Some(buffer) = self.bodies[body as usize].take() {
            self.free.push(body);
            self.devices[direction as usize].recycle(buffer);
        }
    }

    /// Records in the capture that the path refused a packet, and forgets it.
    pub fn refuse(&mut self, body: u32, direction: Direction, now: Time) {
        if let (Some(tap), Some(buffer)) = (&mut self.tap, &self.bodies[body as usize]) {
            tap.refused(direction, buffer.packet(), now);
        }
        self.release(body, direction);
    }

    /// Writes a SYN that left the path earlier to the server's kernel.
    ///
    /// # Errors
    /// As [`Device::send`].
    pub fn admit(&mut self, syn: &[u8]) -> Result<(), EmuError> {
        let device = &mut self.devices[Direction::Up.reverse() as usize];
        let Some(buffer) = device.wrap(syn) else { return Ok(()) };
        if !device.send(&buffer)? {
            self.counts.kernel_rejected += 1;
        }
        device.recycle(buffer);
        Ok(())
    }

    /// Delivers or drops packets that left the network. Later packets enter at `now` or after.
    pub fn deliver(&mut self, outcomes: &mut Vec<(Outcome, Packet)>, shift: Nanos, now: Time) -> Result<(), EmuError> {
        let may_coalesce = outcomes.len() > 1;
        for (outcome, packet) in outcomes.drain(..) {
            match outcome {
                Outcome::Delivered => self.deliver_packet(packet, packet.at + shift, may_coalesce, now)?,
                Outcome::Dropped(cause) => {
                    self.counts.lost += 1;
                    if let (Some(tap), Some(buffer)) = (&mut self.tap, &self.bodies[packet.body as usize]) {
                        tap.dropped(&packet, buffer.packet(), cause, now);
                    }
                }
            }
            self.release(packet.body, packet.direction);
        }
        Direction::BOTH.into_iter().try_for_each(|direction| self.flush_burst(direction, now))
    }

    /// Delivers a packet to the kernel or the gateway at its end of the path. With `may_coalesce` it may wait for the next packet of this call.
    fn deliver_packet(&mut self, packet: Packet, due: Time, may_coalesce: bool, now: Time) -> Result<(), EmuError> {
        let Some(buffer) = &mut self.bodies[packet.body as usize] else { return Ok(()) };
        if packet.ecn == Ecn::Ce {
            ecn::mark(buffer.packet_mut());
        }
        // Copied before the gateway, which may rewrite its addresses.
        let captured = self.tap.as_mut().and_then(|tap| tap.copy(packet.body, buffer.packet()));
        let way_out = self.gateway.as_mut().filter(|_| packet.direction == Direction::Up);
        if way_out.is_some_and(|gateway| gateway.outbound(buffer.packet_mut()) == Disposition::Consumed) {
            self.record_delivery(&packet, due, captured, true, now);
            return Ok(());
        }
        let device = packet.direction.reverse() as usize;
        // Coalescing recomputes the checksum, and a sender's wrong checksum must stay wrong.
        if may_coalesce && buffer.is_checksum_computed() && self.devices[device].accepts_bursts() {
            for _ in 0..2 {
                let Some(buffer) = &self.bodies[packet.body as usize] else { return Ok(()) };
                let burst = &mut self.bursts[packet.direction as usize];
                if burst.buffer.append(buffer.packet(), due) {
                    burst.packets.push((packet, due, captured));
                    return Ok(());
                }
                if burst.buffer.is_empty() {
                    break;
                }
                self.flush_burst(packet.direction, now)?; // earlier packets go first
            }
        }
        let Some(buffer) = &self.bodies[packet.body as usize] else { return Ok(()) };
        let is_accepted = self.devices[device].send(buffer)?;
        self.record_delivery(&packet, due, captured, is_accepted, now);
        Ok(())
    }

    /// Writes the coalesced packets to the kernel at the end of `direction`.
    fn flush_burst(&mut self, direction: Direction, now: Time) -> Result<(), EmuError> {
        let burst = &mut self.bursts[direction as usize];
        if burst.buffer.is_empty() {
            return Ok(());
        }
        let is_accepted = self.devices[direction.reverse() as usize].send_burst(&mut burst.buffer)?.unwrap_or(false);
        let mut packets = std::mem::take(&mut burst.packets);
        self.counts.coalesced += packets.len() as u64 - 1;
        for (packet, due, captured) in packets.drain(..) {
            self.record_delivery(&packet, due, captured, is_accepted, now);
        }
        self.bursts[direction as usize].packets = packets;
        Ok(())
    }

    fn record_delivery(&mut self, packet: &Packet, due: Time, captured: Option<Content>, is_accepted: bool, now: Time) {
        let handed_at = self.clock.now();
        let late = handed_at.since(due);
        self.lateness.record(late);
        if is_accepted {
            self.counts.delivered += 1;
        } else {
            self.counts.kernel_rejected += 1;
        }
        if let Some(tap) = &mut self.tap {
            tap.delivered(packet, captured, handed_at, late, is_accepted, now);
        }
    }

    /// Ends the capture; packets still on the path are in it.
    pub fn close_capture(&mut self, now: Time) {
        if let Some(tap) = &mut self.tap {
            tap.close(&self.bodies, now);
        }
    }

    /// Writes the counters and the lateness of deliveries into `report`.
    pub fn report(&self, report: &mut RelayReport) {
        let Counts { delivered, lost, kernel_rejected, coalesced } = self.counts;
        (report.delivered, report.lost) = (delivered, lost);
        (report.kernel_rejected, report.coalesced) = (kernel_rejected, coalesced);
        (report.lateness_n, report.late) = (self.lateness.n(), self.lateness.late());
        report.lateness_p50_ms = self.lateness.quantile_ms(50, 100);
        report.lateness_p99_ms = self.lateness.quantile_ms(99, 100);
        report.lateness_p999_ms = self.lateness.quantile_ms(999, 1000);
        report.lateness_max_ms = self.lateness.max_ms();
    }
}
