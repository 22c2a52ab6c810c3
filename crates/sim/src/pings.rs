//! Echo requests over a Profile: the RTTs that a prober at the terminal would measure, through the same link elements.

use crate::error::SimError;
use bentpipe_link::{Network, Outcome, Packet};
use bentpipe_profile::{Direction, Nanos, NetworkSpec, Profile, ProfileError, Streams, Time};

/// Return the RTT of each echo request; `None` if the request or its reply was lost, or there was no path.
///
/// Requests of `bytes` (IP header included) leave the terminal at `sent_s` [s since the Profile's start, in any order], pass every hop, are
/// answered at once and come back. Requests share the queues: one that waits delays those behind it. After the Profile's end its last values
/// hold until the last reply arrives; where the last capacity is zero, waiting packets are lost. `seed` decides the per-packet draws, as in a
/// run.
///
/// # Errors
/// A time outside the Profile, more than 2^32 requests, or any error of [`Network::new`].
pub fn ping(profile: &Profile, sent_s: &[f64], bytes: u32, seed: u64) -> Result<Vec<Option<Nanos>>, SimError> {
    let mut sends = sent_s.iter().enumerate().map(|(i, &t)| request(profile, t, i)).collect::<Result<Vec<_>, _>>()?;
    sends.sort_unstable();
    let mut network = Network::new(&NetworkSpec::from_profiles(&[profile])?, Streams::new(seed))?;
    let mut rtts = vec![None; sends.len()];
    let (mut next, mut outcomes) = (0, Vec::new());
    while next < sends.len() || network.packets() > 0 {
        let send_at = sends.get(next).map_or(Time::MAX, |&(at, _)| at);
        let wake_at = network.wake_at().unwrap_or(Time::MAX);
        if send_at.min(wake_at) == Time::MAX {
            break; // the remaining packets wait for a capacity that stays zero
        }
        // At equal times the network runs first, as in a run.
        if send_at < wake_at {
            let (at, number) = sends[next];
            next += 1;
            // An error means that there is no path: the request is lost.
            let _ = network.send(Packet::new(at, 0, Direction::Up, 0, bytes, number));
            continue;
        }
        network.run_until(wake_at, &mut outcomes);
        for (outcome, packet) in outcomes.drain(..) {
            match (outcome, packet.direction) {
                (Outcome::Dropped(_), _) => {}
                (Outcome::Delivered, Direction::Up) => {
                    let _ = network.send(reply_to(&packet));
                }
                (Outcome::Delivered, Direction::Down) => rtts[packet.body as usize] = Some(packet.at.since(packet.entered)),
            }
        }
    }
    Ok(rtts)
}

/// Return the reply to a request that arrived: it leaves at once, and has entered the path when the request did.
pub(crate) fn reply_to(request: &Packet) -> Packet {
    let reply = Packet::new(request.at, request.path, Direction::Down, request.flow, u32::from(request.bytes), request.body);
    Packet { entered: request.entered, flow_hash: request.flow_hash, ..reply }
}

/// Return the send time of a request and its number.
fn request(profile: &Profile, t_s: f64, number: usize) -> Result<(Time, u32), ProfileError> {
    let span_s = profile.duration().as_secs_f64();
    let outside = || ProfileError::OutsideSpan { item: "the ping".to_owned(), at_s: t_s, span_s };
    let at = Time::from_secs_f64(t_s).filter(|at| at.0 <= profile.duration().0).ok_or_else(outside)?;
    Ok((at, u32::try_from(number).map_err(|_| outside())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::handover_path;
    use bentpipe_profile::Series;

    const MS: f64 = 1e6;

    #[test]
    fn an_echo_request_passes_every_hop_twice() {
        // 5 + 10 ms of delay each way; 84 bytes take 33.6 µs at 20 Mbit/s each way.
        let rtts = ping(&handover_path(10, 0), &[0.5, 1.0], 84, 0).unwrap();
        assert_eq!(rtts, [Some(Nanos(30_067_200)); 2]);
    }

    #[test]
    fn a_request_delayed_by_an_interruption_delays_the_next() {
        // At 5 s a handover moves the path to a hop of 9 ms that sends nothing for 50 ms.
        let rtts = ping(&handover_path(10, 0), &[5.02, 5.01, 6.0], 84, 0).unwrap();
        let ms: Vec<f64> = rtts.iter().map(|t| t.unwrap().0 as f64 / MS).collect();
        assert!(ms[1] > 75.0 && ms[0] > 65.0 && ms[1] > ms[0] && ms[2] < 39.0, "{ms:?}");
    }

    #[test]
    fn a_packet_in_flight_at_a_handover_that_drops_is_lost() {
        let rtts = ping(&handover_path(10, 0), &[4.998], 84, 0).unwrap();
        assert_eq!(rtts, [None]);
    }

    #[test]
    fn a_capacity_that_ends_in_zero_is_an_outage() {
        let path = handover_path(10, 0);
        let mut hops = path.hops().to_vec();
        for direction in Direction::BOTH {
            hops[1].side_mut(direction).capacity = Some(Series::steps("c", &[(Time(0), 20_000_000), (Time(8_000_000_000), 0)]).unwrap());
        }
        let (routes, events) = (path.routes().to_vec(), path.events().to_vec());
        let (name, provenance) = (path.name().to_owned(), path.provenance().clone());
        let path = Profile::new(name, path.start(), path.duration(), path.basis(), provenance, hops, routes, events).unwrap();
        let rtts = ping(&path, &[7.0, 7.985, 9.0, 10.0], 84, 0).unwrap();
        // The second request passes; its reply comes too late.
        assert_eq!(rtts.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, false]);
    }

    #[test]
    fn random_loss_is_drawn_from_the_seed() {
        let path = handover_path(10, 100_000_000); // 10 % on each of two hops, each way
        let sent: Vec<f64> = (0..400).map(|i| f64::from(i) / 100.0).collect();
        let lost = |seed| ping(&path, &sent, 84, seed).unwrap().iter().map(Option::is_none).collect::<Vec<_>>();
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
        let count = lost(1).into_iter().filter(|&l| l).count() as f64;
        let p = 1.0 - 0.9 * 0.9;
        assert!((count / 400.0 - p).abs() < 4.0 * (p * (1.0 - p) / 400.0).sqrt(), "{count}");
    }

    #[test]
    fn times_outside_the_profile_are_refused_and_an_empty_list_is_accepted() {
        let path = handover_path(10, 0);
        assert!(ping(&path, &[10.1], 84, 0).is_err() && ping(&path, &[f64::NAN], 84, 0).is_err());
        assert_eq!(ping(&path, &[], 84, 0).unwrap(), []);
        assert!(ping(&path, &[10.0], 84, 0).unwrap()[0].is_some());
    }
}
