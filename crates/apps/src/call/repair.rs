//! Redundancy of the video (FEC): how many repair packets follow the packets of a frame, after libwebrtc's hybrid of retransmission and ULPFEC
//! (`VCMNackFecMethod`), and which packets each repairs.
//!
//! Repair packets exist only after losses: their share follows the largest loss of the last ten seconds. Each is the XOR of every n-th packet of its
//! frame, n being the number of repair packets (RFC 5109 leaves the masks open; libwebrtc's tables for up to twelve packets spread likewise). Left
//! out: repair packets over several frames, which libwebrtc makes of frames of less than four packets.

use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// A loss is measured over at least so many packets (`SendSideBandwidthEstimation`), and the largest one counts for this time.
const LEAST_REPORTED: usize = 20;
const LOSS_SPAN: Nanos = Nanos::from_secs(10);
/// Below this RTT retransmissions come soon enough.
const LOW_RTT: Nanos = Nanos::from_millis(20);
/// Smaller frames are not protected, unless the RTT is at least this.
const LEAST_FRAME_BYTES: f64 = 700.0;
const HIGH_RTT: Nanos = Nanos::from_millis(200);
/// Share of all packets of a frame that are repair packets: least and largest.
const LEAST_SHARE: f64 = 0.2;
const MOST_SHARE: f64 = 127.0 / 255.0;
/// The share grows with the loss and with the bits per frame: a line through libwebrtc's table `kFecRateTable`, from 0.6 to 3 Mbit/s at 30 frames
/// per second within 0.1 of it. The table's rows are steps of 5 kbit per frame at 704 × 576, and shift with the size of the picture; that of
/// 640 × 360 counts here.
const SHARE_OFFSET: f64 = 0.11;
const SHARE_SLOPE: f64 = 1.7;
const SHARE_BITS: f64 = 30_000.0;
const SHARE_POWER: f64 = 0.6;
/// A key frame has this multiple of the share.
const KEY_FRAME: f64 = 2.0;

/// The sender's decision.
#[derive(Debug, Default)]
pub struct Protection {
    /// Transmissions reported since the last loss was measured: all, and the lost ones.
    reported: usize,
    lost: usize,
    /// Losses of the last [`LOSS_SPAN`], those alone that no later one exceeds.
    losses: VecDeque<(Time, f64)>,
}

impl Protection {
    /// Take in a report: transmissions that it covers, and those that did not arrive.
    pub fn on_report(&mut self, now: Time, reported: usize, lost: usize) {
        self.reported += reported;
        self.lost += lost;
        if self.reported < LEAST_REPORTED {
            return;
        }
        let loss = self.lost as f64 / self.reported as f64;
        (self.reported, self.lost) = (0, 0);
        while self.losses.back().is_some_and(|&(_, before)| before <= loss) {
            self.losses.pop_back();
        }
        self.losses.push_back((now, loss));
    }

    /// Return the share of a frame's packets that are to be repair packets [0, 1].
    pub fn share(&mut self, now: Time, rtt: Nanos, mean_bytes: f64, is_key: bool) -> f64 {
        while self.losses.front().is_some_and(|&(at, _)| now.since(at) > LOSS_SPAN) {
            self.losses.pop_front();
        }
        let loss = self.losses.front().map_or(0.0, |&(_, loss)| loss);
        if loss * 255.0 < 1.0 || (rtt < LOW_RTT && !is_key) || (mean_bytes < LEAST_FRAME_BYTES && rtt < HIGH_RTT) {
            return 0.0;
        }
        let growth = SHARE_SLOPE * libm::pow(mean_bytes * 8.0 / SHARE_BITS, SHARE_POWER);
        let share = (SHARE_OFFSET + growth * loss).clamp(LEAST_SHARE, MOST_SHARE);
        if is_key { (share * KEY_FRAME).min(MOST_SHARE) } else { share }
    }
}

/// Return the number of repair packets after `count` packets, at a share of all packets.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not above `count`
pub fn repairs(count: u16, share: f64) -> u16 {
    if share <= 0.0 {
        return 0;
    }
    let wanted = (f64::from(count) * share / (1.0 - share) + 0.5) as u16;
    wanted.clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Media, Repair};
    use super::*;

    const RTT: Nanos = Nanos::from_millis(60);
    /// A frame of 1 Mbit/s.
    const MEAN: f64 = 4167.0;

    fn after(lost: usize) -> f64 {
        let mut protection = Protection::default();
        protection.on_report(Time::ZERO, 20, lost);
        protection.share(Time(1), RTT, MEAN, false)
    }

    #[test]
    fn the_share_follows_the_loss() {
        assert!(after(0).abs() < 1e-9);
        // One of 20 and five of 20: 38 and 113 of 255 in libwebrtc's table.
        assert!((after(1) - 0.2).abs() < 0.1, "{}", after(1));
        assert!((after(5) - 113.0 / 255.0).abs() < 0.1, "{}", after(5));
        assert!((after(20) - MOST_SHARE).abs() < 1e-9);
    }

    #[test]
    fn the_largest_loss_of_ten_seconds_counts() {
        let mut protection = Protection::default();
        protection.on_report(Time::ZERO, 10, 1);
        assert!(protection.share(Time(1), RTT, MEAN, false).abs() < 1e-9); // not measured yet
        protection.on_report(Time::ZERO, 10, 3);
        protection.on_report(Time(5_000_000_000), 20, 1);
        let shares = [6, 11, 16].map(|at_s| protection.share(Time(at_s * 1_000_000_000), RTT, MEAN, false));
        assert!((shares[0] - after(4)).abs() < 1e-9 && (shares[1] - after(1)).abs() < 1e-9 && shares[2].abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn short_rtts_and_small_frames_are_not_protected() {
        let mut protection = Protection::default();
        protection.on_report(Time::ZERO, 20, 5);
        let mut share = |rtt, mean_bytes, is_key| protection.share(Time(1), rtt, mean_bytes, is_key);
        assert!(share(Nanos::from_millis(5), MEAN, false).abs() < 1e-9 && share(Nanos::from_millis(5), MEAN, true) > 0.2);
        assert!(share(RTT, 500.0, false).abs() < 1e-9 && share(HIGH_RTT, 500.0, false) > 0.1);
    }

    #[test]
    fn repair_packets_cover_each_packet_once() {
        assert_eq!([repairs(4, 0.0), repairs(4, 0.2), repairs(1, 0.2), repairs(4, MOST_SHARE)], [0, 1, 1, 4]);
        let of = Media { number: 7, sent_as: 0, frame: 1, first: 7, count: 5, is_key: false, captured: Time::ZERO, rtt: RTT, bytes: 900 };
        let covered: Vec<Vec<u32>> = (0..2).map(|index| Repair { of, index, count: 2 }.covers().collect()).collect();
        assert_eq!(covered, [vec![7, 9, 11], vec![8, 10]]);
    }
}
