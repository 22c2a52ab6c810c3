//! Packet comments: a packet's fate on the path as text.

use super::{Fate, StageTime};
use bentpipe_link::DropCause;
use bentpipe_profile::{EventKind, Nanos, Profile, Time};

/// Comment of a packet in its sender's capture: its number in its direction, its fate, and its time in each stage.
#[must_use]
pub(super) fn sent(profile: &Profile, number: u64, fate: &Fate, stage_times: &[StageTime]) -> String {
    let outcome = match *fate {
        Fate::Delivered { delay, is_accepted, route, .. } => {
            let refused = if is_accepted { "" } else { ", but rejected by the kernel behind it" };
            format!("delivered: {} ms one way over {}{refused}", ms(delay), route_name(profile, route))
        }
        Fate::Dropped { cause, after, at, route, position } => {
            let hop = hop_of(profile, route, position);
            format!("dropped: {} of {}, {} ms after it was sent", cause_name(profile, cause, hop, at), hop_name(profile, hop), ms(after))
        }
        Fate::NoRoute => "dropped: no route".to_owned(),
        Fate::Held => "held: on its way when the run ended".to_owned(),
    };
    format!("#{number} {outcome}{}", describe_stages(profile, stage_times))
}

/// Time in each stage, by hop and part, in path order.
fn describe_stages(profile: &Profile, stage_times: &[StageTime]) -> String {
    let at = |one: &StageTime| hop_of(profile, one.route, one.position);
    let hops = stage_times.chunk_by(|a, b| at(a) == at(b)).map(|parts| {
        let named = parts.iter().map(|one| format!("{} ms {}", ms(one.span), one.part.name())).collect::<Vec<_>>();
        format!("{}: {}", hop_name(profile, at(&parts[0])), named.join(", "))
    });
    let text = hops.collect::<Vec<_>>().join("; ");
    if text.is_empty() { text } else { format!(" [{text}]") }
}

/// Comment of a packet in its receiver's capture; `sent_unix_ns`: when it was sent.
#[must_use]
pub(super) fn received(number: u64, sent_unix_ns: u64, delay: Nanos, late: Nanos) -> String {
    let (seconds, rest) = (sent_unix_ns / 1_000_000_000, sent_unix_ns % 1_000_000_000);
    format!("#{number} sent at {seconds}.{rest:09}, due after {} ms one way, handed on {} ms late", ms(delay), ms(late))
}

/// Formats a time in milliseconds with nanosecond precision.
fn ms(span: Nanos) -> String {
    format!("{}.{:06}", span.0 / 1_000_000, span.0 % 1_000_000)
}

fn route_name(profile: &Profile, route: u16) -> String {
    let hops = profile.routes().get(usize::from(route)).map_or(&[][..], |route| &route.hops);
    hops.iter().map(|&hop| hop_name(profile, Some(hop))).collect::<Vec<_>>().join(" > ")
}

fn hop_of(profile: &Profile, route: u16, position: u16) -> Option<usize> {
    profile.routes().get(usize::from(route)).and_then(|r| r.hops.get(usize::from(position)).copied())
}

fn hop_name(profile: &Profile, hop: Option<usize>) -> &str {
    hop.and_then(|hop| profile.hops().get(hop)).map_or("an unknown hop", |hop| &hop.name)
}

fn cause_name(profile: &Profile, cause: DropCause, hop: Option<usize>, at: Time) -> &'static str {
    match cause {
        DropCause::QueueFull => "queue full",
        DropCause::Aqm => "queue discipline",
        DropCause::Loss => "loss process",
        DropCause::NoRoute => "no route",
        DropCause::Event => event(profile, hop, at),
    }
}

/// The event at the hop at that time.
fn event(profile: &Profile, hop: Option<usize>, at: Time) -> &'static str {
    let first = profile.events().partition_point(|event| event.at_ns < at);
    let mut then = profile.events()[first..].iter().take_while(|event| event.at_ns == at);
    match then.find(|event| Some(event.hop) == hop).map(|event| (&event.kind, event.hop)) {
        Some((EventKind::Handover { to_hop, .. }, hop)) if *to_hop == hop => "reconfiguration",
        Some((EventKind::Handover { .. }, _)) => "handover",
        Some((EventKind::Outage, _)) => "outage",
        Some((EventKind::Obstruction, _)) => "obstruction",
        Some((EventKind::Rain, _)) => "rain",
        None => "event",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_link::{Network, Outcome, Packet};

    use bentpipe_profile::{
        Basis, Direction, Event, Fate as EventFate, Hop, HopDirection, InFlightFate, LOSS_ONE, NetworkSpec, Provenance, QueueDiscipline,
        QueueFate, QueueLimit, QueueSpec, RouteEntry, Series, Streams, Utc,
    };

    fn hop(name: &str, loss: u64) -> Hop {
        let side = HopDirection {
            delay: Series::constant(10_000_000),
            capacity: None,
            queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(10) },
            jitter: None,
            loss: Some(Series::constant(loss)),
        };
        Hop { name: name.to_owned(), shared_id: None, up: side.clone(), down: side }
    }

    fn profile(loss: u64, kind: EventKind) -> Profile {
        let provenance = Provenance {
            kind: "preset".to_owned(),
            description: "test".to_owned(),
            made_by: "bentpipe test".to_owned(),
            seed: None,
            includes: Vec::new(),
            recipe: serde_json::Value::Null,
        };
        let harsh = EventFate { queue: QueueFate::Drop, in_flight: InFlightFate::Drop, ..EventFate::LOSSLESS };
        let event = Event { at_ns: Time(5_000_000), interruption_ns: Nanos(1_000_000), hop: 0, kind, up: harsh, down: harsh };
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0, 1] }];
        let (start, duration) = (Utc(0), Nanos::from_secs(60));
        let hops = vec![hop("access", 0), hop("transit", loss)];
        Profile::new("p".to_owned(), start, duration, Basis::OneWay, provenance, hops, routes, vec![event]).unwrap()
    }

    /// The comment of a packet sent up at `at`.
    fn comment_for(profile: &Profile, at: Time) -> String {
        let mut network = Network::new(&NetworkSpec::from_profiles(&[profile]).unwrap(), Streams::new(0)).unwrap();
        network.record_stages();
        let mut out = Vec::new();
        network.run_until(at, &mut out);
        network.send(Packet::new(at, 0, Direction::Up, 0, 100, 0)).unwrap();
        network.run_until(Time(1_000_000_000), &mut out);
        let [(outcome, packet)] = out[..] else { panic!("{out:?}") };
        let delay = packet.at.since(packet.entered);
        let mut until = packet.entered;
        let stage_times = network.take_stages().filter_map(|stage| {
            let span = stage.until.since(std::mem::replace(&mut until, stage.until));
            (span.0 > 0).then_some(StageTime { route: stage.route, position: stage.position, part: stage.part, span })
        });
        let stage_times: Vec<_> = stage_times.collect();
        let fate = match outcome {
            Outcome::Delivered => Fate::Delivered { delay, handed_at: packet.at, late: Nanos(0), is_accepted: true, route: packet.route },
            Outcome::Dropped(cause) => Fate::Dropped { cause, after: delay, at: packet.at, route: packet.route, position: packet.position },
        };
        sent(profile, 7, &fate, &stage_times)
    }

    #[test]
    fn a_comment_states_the_packets_fate() {
        let after_it = Time(20_000_000);
        let outage = profile(0, EventKind::Outage);
        let delivered = "#7 delivered: 20.000000 ms one way over access > transit [access: 10.000000 ms propagation; transit: 10.000000 ms propagation]";
        assert_eq!(comment_for(&outage, after_it), delivered);
        let dropped = "of access, 3.000000 ms after it was sent [access: 3.000000 ms propagation]";
        assert_eq!(comment_for(&outage, Time(2_000_000)), format!("#7 dropped: outage {dropped}"));
        assert_eq!(comment_for(&profile(0, EventKind::Rain), Time(2_000_000)), format!("#7 dropped: rain {dropped}"));
        let struck = Time(5_200_000); // while the hop is interrupted
        let waited = "#7 delivered: 20.800000 ms one way over access > transit [access: 0.800000 ms queue, 10.000000 ms propagation; transit: 10.000000 ms propagation]";
        assert_eq!(comment_for(&outage, struck), waited);
        let back = EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop: 0 };
        assert!(comment_for(&profile(0, back), Time(2_000_000)).starts_with("#7 dropped: reconfiguration of access"));
        let lossy = profile(LOSS_ONE, EventKind::Outage);
        let lost = "#7 dropped: loss process of transit, 10.000000 ms after it was sent [access: 10.000000 ms propagation]";
        assert_eq!(comment_for(&lossy, after_it), lost);
        assert_eq!(sent(&lossy, 1, &Fate::NoRoute, &[]), "#1 dropped: no route");
    }

    #[test]
    fn a_received_packets_comment_has_its_send_time() {
        let text = received(3, 1_778_403_600_000_000_042, Nanos(15_000_001), Nanos(31));
        assert_eq!(text, "#3 sent at 1778403600.000000042, due after 15.000001 ms one way, handed on 0.000031 ms late");
    }
}
