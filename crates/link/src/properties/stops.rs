//! Stops inside a path ([`Network::set_stops`]) against a path without them.

use super::{MS, back_and_forth, drive, hop, network_of, profile, side, tail, two_hop_handover};
use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;

/// Three hops without events.
fn three_hops() -> Profile {
    let sides =
        [side(&[5, 9, 3], &[10], 0, false, tail(QueueLimit::Packets(20))), side(&[2], &[8], 0, false, tail(QueueLimit::Packets(20)))];
    let wire = side(&[10], &[], 0, false, tail(QueueLimit::Packets(20)));
    profile(
        vec![hop("a", &sides[0]), hop("b", &sides[1]), hop("wire", &wire)],
        vec![RouteEntry { at_ns: Time(0), hops: vec![0, 1, 2] }],
        vec![],
    )
}

/// Send packets both ways, and pass each on at once at every stop. Returns what left at the ends, and how often packets stopped.
fn drive_with_stops(network: &mut Network, sends: &[(u64, u32)]) -> (Vec<(Outcome, Packet)>, usize) {
    let (mut out, mut left, mut stopped) = (Vec::new(), Vec::new(), 0);
    let mut sends = sends.iter().zip(0..).peekable();
    loop {
        let send = sends.peek().map_or(Time::MAX, |((at, _), _)| Time(*at));
        let now = network.wake_at().unwrap_or(Time::MAX).min(send);
        if now == Time::MAX {
            return (left, stopped);
        }
        network.run_until(now, &mut out);
        for (outcome, packet) in out.drain(..) {
            match network.stop_of(&packet).filter(|_| outcome == Outcome::Delivered) {
                Some(stop) => {
                    stopped += 1;
                    if let Err(packet) = network.send_from(stop, packet) {
                        left.push((Outcome::Dropped(DropCause::NoRoute), packet));
                    }
                }
                None => left.push((outcome, packet)),
            }
        }
        if send == now
            && let Some((&(at, bytes), body)) = sends.next()
        {
            let direction = if body % 3 == 0 { Direction::Up } else { Direction::Down };
            let mut packet = Packet::new(Time(at), 0, direction, body % 2, bytes, body);
            packet.ecn = if super::supports_ecn(body) { Ecn::Ect } else { Ecn::NotEct };
            if let Err(packet) = network.send(packet) {
                left.push((Outcome::Dropped(DropCause::NoRoute), packet));
            }
        }
    }
}

#[test]
fn packets_that_pass_on_at_once_lose_no_time_at_a_stop() {
    let sends: Vec<_> = (0..400).map(|n| (n * MS / 3, 700)).collect();
    let mut plain = drive(&mut network_of(&[&three_hops()]), &sends, 0);
    let mut network = network_of(&[&three_hops()]);
    network.set_stops(0, &[vec![1, 2]]).unwrap();
    let (mut left, stopped) = drive_with_stops(&mut network, &sends);
    assert!(stopped > 600, "{stopped}");
    for out in [&mut plain, &mut left] {
        out.sort_by_key(|(_, packet)| packet.body);
    }
    assert_eq!(left, plain);
}

#[test]
fn stops_that_a_path_cannot_have_are_refused() {
    let mut network = network_of(&[&two_hop_handover(Fate::LOSSLESS, 10, tail(QueueLimit::Packets(10)), 0)]);
    let mut error = |path, places: &[Vec<u16>]| network.set_stops(path, places).err().map(|error| error.to_string());
    assert_eq!(error(1, &[]).unwrap(), "stops of path 1: it does not exist; expected 0 to 0");
    for places in [vec![vec![1]], vec![vec![1], vec![2]], vec![vec![0], vec![1]], vec![vec![1], vec![1, 1]]] {
        let expected = "stops of path 0: its routes do not have these places; expected as many places inside each route that has hops, in ascending order";
        assert_eq!(error(0, &places).unwrap(), expected, "{places:?}");
    }
    assert_eq!(error(0, &[vec![1], vec![1]]), None);
    assert!(error(0, &[vec![1], vec![1]]).unwrap().contains("it has stops already"));
}

proptest! {
    /// Whatever a handover does to packets, each leaves once, and only once it has crossed its path.
    #[test]
    fn every_packet_leaves_once_across_handovers_with_stops(
        gaps in prop::collection::vec((1_u64..60, 0_u64..20), 0..4),
        migrates in any::<bool>(),
        sends in prop::collection::vec((0_u64..200 * MS, 60_u32..1500), 1..150),
    ) {
        let base = back_and_forth(&gaps, migrates, tail(QueueLimit::Packets(30)));
        let mut hops = base.hops().to_vec();
        hops.push(hop("wire", &side(&[10], &[], 0, false, tail(QueueLimit::Packets(30)))));
        let routes: Vec<_> = base.routes().iter().map(|route| RouteEntry { at_ns: route.at_ns, hops: vec![route.hops[0], 2] }).collect();
        let path = profile(hops, routes, base.events().to_vec());
        let mut network = network_of(&[&path]);
        network.set_stops(0, &vec![vec![1]; path.routes().len()]).unwrap();
        let mut sends = sends;
        sends.sort_unstable();
        let (left, _) = drive_with_stops(&mut network, &sends);
        let mut bodies: Vec<_> = left.iter().map(|(_, packet)| packet.body).collect();
        bodies.sort_unstable();
        prop_assert_eq!(bodies, (0..u32::try_from(sends.len()).unwrap()).collect::<Vec<_>>());
        prop_assert_eq!(network.packets(), 0);
    }
}
