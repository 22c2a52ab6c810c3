//! Outages: with a route, and without one.

use super::*;

#[test]
fn an_outage_holds_arrivals_and_drops_packets_in_flight() {
    let only = side(&[10], &[12], 0, false, tail(QueueLimit::Packets(100)));
    let fate = Fate { queue: QueueFate::Keep, in_flight: InFlightFate::Drop, order: OrderFate::Clamp };
    let outage =
        Event { at_ns: Time(5 * MS), interruption_ns: Nanos::from_millis(100), hop: 0, kind: EventKind::Outage, up: fate, down: fate };
    let p = profile(vec![hop("h", &only)], vec![RouteEntry { at_ns: Time(0), hops: vec![0] }], vec![outage]);
    let mut network = network_of(&[&p]);
    // Packets of 1 ms each: four go up (every third), eight down.
    let sends: Vec<_> = (0..12).map(|i| (i, 1500)).collect();
    let out = drive(&mut network, &sends, 0);
    let lost = out.iter().filter(|(o, _)| *o == Outcome::Dropped(DropCause::Event)).count();
    // By 5 ms all upward packets and four downward ones have left the queue and are in flight.
    assert_eq!(lost, 4 + 4);
    let first_after = out.iter().filter(|(o, _)| *o == Outcome::Delivered).map(|(_, p)| p.at.0).min().unwrap();
    assert_eq!(first_after / MS, 105 + 1 + 10);
}

#[test]
fn without_a_route_packets_on_their_way_to_a_dropped_queue_are_dropped() {
    let far = side(&[10], &[12], 0, false, tail(QueueLimit::Packets(100)));
    let fate = Fate { queue: QueueFate::Drop, ..Fate::LOSSLESS };
    let outage =
        Event { at_ns: Time(5 * MS), interruption_ns: Nanos::from_millis(100), hop: 0, kind: EventKind::Outage, up: fate, down: fate };
    let routes = [(0, vec![0, 1]), (5, vec![]), (105, vec![0, 1])].map(|(at, hops)| RouteEntry { at_ns: Time(at * MS), hops });
    let p = profile(vec![hop("sat", &far), hop("ground", &far)], routes.to_vec(), vec![outage]);
    let mut network = network_of(&[&p]);
    network.send(Packet::new(Time(MS), 0, Direction::Down, 0, 1500, 0)).unwrap();
    network.run_until(Time(106 * MS), &mut Vec::new());
    network.send(Packet::new(Time(106 * MS), 0, Direction::Down, 0, 1500, 1)).unwrap();
    let mut out = Vec::new();
    network.run_until(Time(300 * MS), &mut out);
    assert_eq!(out.iter().map(|(outcome, packet)| (*outcome, packet.body)).collect::<Vec<_>>(), [(Outcome::Delivered, 1)]);
    assert_eq!(network.packets(), 0);
}
