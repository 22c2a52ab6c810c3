//! Datagrams at given times over a Profile, with loss recovery inside the network: the simulator's counterpart of a program that sends at both ends.

use crate::error::SimError;
use bentpipe_link::{Network, Outcome, Packet};
use bentpipe_profile::experiment::RecoverySpec;
use bentpipe_profile::{Direction, Nanos, NetworkSpec, Profile, ProfileError, Streams, Time};
use bentpipe_recovery::registry::install;

/// Hash of the datagrams' flow: `FSeq` is counted by it and the direction. Any number but 0, which packets without a flow have.
const FLOW_HASH: u32 = 1;

/// Return the one-way delay of each datagram, by direction; `None`: it was lost, or there was no path.
///
/// Datagrams of `bytes` (IP header included) enter the path at `sent_s` [s since the Profile's start], in either direction's order. After the Profile's end
/// its last values hold until the last one arrives. `seed` decides the per-packet draws, as in a run.
///
/// # Errors
/// A time outside the Profile, an unknown scheme, or any error of [`Network::new`].
pub fn one_way_delays(
    profile: &Profile,
    sent_s: [&[f64]; 2],
    bytes: u32,
    recovery: Option<&RecoverySpec>,
    seed: u64,
) -> Result<[Vec<Option<Nanos>>; 2], SimError> {
    let mut sends = Vec::with_capacity(sent_s[0].len() + sent_s[1].len());
    for direction in Direction::BOTH {
        for (number, &t_s) in (0..).zip(sent_s[direction as usize]) {
            sends.push((within(profile, t_s)?, direction, number));
        }
    }
    sends.sort_unstable_by_key(|&(at, direction, number)| (at, direction as usize, number));
    let spec = NetworkSpec::from_profiles(&[profile])?;
    let mut network = Network::new(&spec, Streams::new(seed))?;
    if let Some(recovery) = recovery {
        install(&recovery.scheme, &recovery.options, &mut network, &spec)?;
    }
    let (mut delays, mut outcomes) = (sent_s.map(|sent| vec![None; sent.len()]), Vec::new());
    let mut take = |outcomes: &mut Vec<(Outcome, Packet)>| {
        for (outcome, packet) in outcomes.drain(..) {
            if outcome == Outcome::Delivered {
                delays[packet.direction as usize][packet.body as usize] = Some(packet.at.since(packet.entered));
            }
        }
    };
    for (at, direction, number) in sends {
        network.run_until(at, &mut outcomes);
        take(&mut outcomes);
        // An error means that there is no path: the datagram is lost.
        let _ = network.send(Packet { flow_hash: FLOW_HASH, ..Packet::new(at, 0, direction, 0, bytes, number) });
    }
    while let Some(at) = network.wake_at().filter(|_| network.packets() > 0) {
        network.run_until(at, &mut outcomes);
        take(&mut outcomes);
    }
    Ok(delays)
}

fn within(profile: &Profile, t_s: f64) -> Result<Time, ProfileError> {
    let span_s = profile.duration().as_secs_f64();
    let outside = || ProfileError::OutsideSpan { item: "the datagram".to_owned(), at_s: t_s, span_s };
    Time::from_secs_f64(t_s).filter(|at| at.0 <= profile.duration().0).ok_or_else(outside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::handover_path;
    use std::collections::BTreeMap;

    fn delays(loss: u64, scheme: &str, sent_s: &[f64]) -> [Vec<Option<Nanos>>; 2] {
        let recovery = RecoverySpec { scheme: scheme.to_owned(), options: BTreeMap::new() };
        one_way_delays(&handover_path(10, loss), [sent_s, sent_s], 1000, Some(&recovery), 1).unwrap()
    }

    #[test]
    fn a_datagram_alone_has_the_delay_of_its_hops() {
        // 5 + 10 ms; 1000 bytes take 400 µs at 20 Mbit/s.
        for direction in one_way_delays(&handover_path(10, 0), [&[0.5, 1.0]; 2], 1000, None, 0).unwrap() {
            assert_eq!(direction, [Some(Nanos(15_400_000)); 2]);
        }
    }

    #[test]
    fn recovery_conceals_losses_for_some_delay() {
        let sent: Vec<f64> = (0..2000).map(|n| f64::from(n) / 1000.0).collect();
        let lost = |delays: &[Option<Nanos>]| delays.iter().filter(|delay| delay.is_none()).count();
        let (plain, concealed) = (delays(10_000_000, "none", &sent), delays(10_000_000, "satguard", &sent));
        for (plain, concealed) in plain.iter().zip(&concealed) {
            assert!(lost(plain) > 4 * (lost(concealed) + 1), "{} {}", lost(plain), lost(concealed));
            assert!(concealed.iter().flatten().max() > plain.iter().flatten().max());
        }
    }

    #[test]
    fn times_outside_the_profile_are_refused() {
        for sent in [[&[0.0][..], &[10.1]], [&[f64::NAN], &[]]] {
            assert!(one_way_delays(&handover_path(10, 0), sent, 1000, None, 0).is_err());
        }
    }
}
