//! Tests of the relay's side; the test takes the part of the gateway's thread.

use super::events::{EventSender, channel};
use super::*;
use crate::address::addresses;
use crate::packets::{Unreachable, datagram};
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use tokio::sync::mpsc::Receiver;

struct Fixture {
    gateway: Gateway,
    requests: Receiver<Request>,
    events: EventSender,
    counters: Arc<Counters>,
}

fn fixture() -> Fixture {
    let (client, server) = addresses(0);
    let counters = Arc::<Counters>::default();
    let (events, listener) = channel(Arc::clone(&counters)).unwrap();
    let (sender, requests) = tokio::sync::mpsc::channel(4);
    Fixture { gateway: Gateway::new(client, server, sender, listener, Arc::clone(&counters)), requests, events, counters }
}

fn count(fixture: &Fixture, name: &str) -> u64 {
    serde_json::to_value(&*fixture.counters).unwrap()[name].as_u64().unwrap()
}

fn segment(from: SocketAddr, to: SocketAddr, syn: bool) -> Vec<u8> {
    let builder = match (from.ip(), to.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), 64),
        (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a.octets(), b.octets(), 64),
        _ => panic!("one family"),
    };
    let tcp = builder.tcp(from.port(), to.port(), 100, 1000);
    let mut packet = Vec::new();
    if syn { tcp.syn() } else { tcp.ack(1) }.write(&mut packet, &[]).unwrap();
    packet
}

fn ends(v6: bool) -> [SocketAddr; 3] {
    let all = if v6 {
        ["[fd62:656e:7470::2]:40000", "[fd62:656e:7470::1]:65535", "[2001:db8::1]:443"]
    } else {
        ["100.64.0.2:40000", "100.64.0.1:65535", "192.0.2.1:443"]
    };
    all.map(|end| end.parse().unwrap())
}

#[test]
fn a_connection_waits_for_its_destination_and_is_rewritten_both_ways() {
    for v6 in [false, true] {
        let mut fixture = fixture();
        let [client, proxy, outside] = ends(v6);
        assert_eq!(fixture.gateway.outbound(&mut segment(client, outside, true)), Disposition::Consumed);
        let Ok(Request::Connect { alias, destination }) = fixture.requests.try_recv() else { panic!("connect") };
        assert_eq!((alias, destination), (client, outside));
        assert_eq!(fixture.gateway.outbound(&mut segment(client, outside, true)), Disposition::Consumed, "repeated");
        assert!(fixture.requests.try_recv().is_err(), "requested once");
        assert_eq!(fixture.gateway.next_action(), None);

        fixture.events.send(GatewayEvent::Opened(alias));
        let Some(Action::Admit { packet, client: seen, server }) = fixture.gateway.next_action() else { panic!("admit") };
        assert_eq!(packet, segment(client, proxy, true));
        assert_eq!((seen.client, seen.server), (client, outside));
        assert_eq!((server.client, server.server), (client, proxy));

        let mut up = segment(client, outside, false);
        assert_eq!(fixture.gateway.outbound(&mut up), Disposition::Device);
        assert_eq!(up, segment(client, proxy, false));
        let mut down = segment(proxy, client, false);
        fixture.gateway.inbound(&mut down);
        assert_eq!(down, segment(outside, client, false));
    }
}

#[test]
fn the_servers_packets_are_unchanged() {
    for v6 in [false, true] {
        let mut fixture = fixture();
        let [client, proxy, _] = ends(v6);
        let server = SocketAddr::new(proxy.ip(), 80);
        for packet in [segment(client, server, true), segment(client, server, false), datagram(client, server, 0, b"hello").unwrap()] {
            let mut seen = packet.clone();
            assert_eq!(fixture.gateway.outbound(&mut seen), Disposition::Device);
            assert_eq!(seen, packet);
        }
        for packet in [segment(server, client, false), segment(proxy, client, false)] {
            let mut seen = packet.clone();
            fixture.gateway.inbound(&mut seen);
            assert_eq!(seen, packet, "no such connection");
        }
    }
}

#[test]
fn a_failure_is_reported_to_the_client() {
    for v6 in [false, true] {
        for cause in [Failure::Refused, Failure::Unreachable(Unreachable::Network), Failure::NoReply] {
            let mut fixture = fixture();
            let [client, _, outside] = ends(v6);
            fixture.gateway.outbound(&mut segment(client, outside, true));
            fixture.events.send(GatewayEvent::Failed(client, cause));
            let action = fixture.gateway.next_action();
            if cause == Failure::NoReply {
                assert_eq!(action, None);
            } else {
                let Some(Action::EnterPath(packet)) = action else { panic!("no reply to {cause:?}") };
                let sliced = SlicedPacket::from_ip(&packet).unwrap();
                match sliced.transport {
                    Some(TransportSlice::Tcp(tcp)) => assert!(cause == Failure::Refused && tcp.rst() && tcp.acknowledgment_number() == 101),
                    Some(TransportSlice::Icmpv4(_) | TransportSlice::Icmpv6(_)) => assert_ne!(cause, Failure::Refused),
                    _ => panic!("no transport"),
                }
            }
            fixture.requests.try_recv().unwrap();
            fixture.gateway.outbound(&mut segment(client, outside, true));
            assert!(fixture.requests.try_recv().is_ok(), "the client may try again");
        }
    }
}

#[test]
fn unexpected_packets_are_counted() {
    let mut fixture = fixture();
    let [client, _, outside] = ends(false);
    assert_eq!(fixture.gateway.outbound(&mut segment(client, outside, false)), Disposition::Consumed);
    assert!(matches!(fixture.gateway.next_action(), Some(Action::EnterPath(_))), "a reset");
    assert_eq!(count(&fixture, "dropped_no_connection"), 1);
    let stranger = "100.64.0.9:1".parse().unwrap();
    assert_eq!(fixture.gateway.outbound(&mut segment(stranger, outside, true)), Disposition::Consumed);
    assert_eq!(count(&fixture, "dropped_foreign_source"), 1);
    for _ in 0..5 {
        fixture.gateway.outbound(&mut datagram(client, outside, 0, b"x").unwrap());
    }
    assert_eq!(count(&fixture, "dropped_busy"), 1, "four wait");
    let mut fragment = segment(client, outside, true);
    fragment[6] = 0x20;
    fixture.gateway.outbound(&mut fragment);
    assert_eq!(count(&fixture, "dropped_malformed"), 1);
}

proptest! {
    #[test]
    fn arbitrary_packets_do_not_panic(version in prop::sample::select(vec![0x45_u8, 0x4f, 0x60, 0]), rest in prop::collection::vec(any::<u8>(), 0..90)) {
        let mut fixture = fixture();
        let mut packet = vec![version];
        packet.extend(rest);
        if packet.len() > 20 {
            packet[9] = TCP;
            packet[12..16].copy_from_slice(&[100, 64, 0, 2]);
        }
        fixture.gateway.outbound(&mut packet);
        fixture.gateway.inbound(&mut packet);
        fixture.gateway.next_action();
    }
}
