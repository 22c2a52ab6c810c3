//! What the path did with a packet, in words.

use super::Fate;
use bentpipe_link::DropCause;
use bentpipe_profile::{EventKind, Nanos, Profile, Time};

/// Of the packet where it was sent: its number among those of its direction, and its fate.
#[must_use]
pub(super) fn sent(profile: &Profile, number: u64, fate: &Fate) -> String {
    let what = match *fate {
        Fate::Delivered { delay, taken, route, .. } => {
            let refused = if taken { "" } else { ", but not taken by the kernel behind it" };
            format!("delivered: {} ms one way over {}{refused}", ms(delay), route_name(profile, route))
        }
        Fate::Dropped { cause, after, at, route, position } => {
            let hop = profile.routes().get(usize::from(route)).and_then(|r| r.hops.get(usize::from(position)).copied());
            format!("dropped: {} of {}, {} ms after it was sent", why(profile, cause, hop, at), hop_name(profile, hop), ms(after))
        }
        Fate::NoRoute => "dropped: no route".to_owned(),
        Fate::Held => "held: on its way when the run ended".to_owned(),
    };
    format!("#{number} {what}")
}

/// Of the packet where it was received; `sent_unix_ns`: when it was sent.
#[must_use]
pub(super) fn received(number: u64, sent_unix_ns: u64, delay: Nanos, late: Nanos) -> String {
    let (seconds, rest) = (sent_unix_ns / 1_000_000_000, sent_unix_ns % 1_000_000_000);
    format!("#{number} sent at {seconds}.{rest:09}, due after {} ms one way, handed on {} ms late", ms(delay), ms(late))
}

/// Milliseconds to the nanosecond.
fn ms(span: Nanos) -> String {
    format!("{}.{:06}", span.0 / 1_000_000, span.0 % 1_000_000)
}

fn route_name(profile: &Profile, route: u16) -> String {
    let hops = profile.routes().get(usize::from(route)).map_or(&[][..], |route| &route.hops);
    hops.iter().map(|&hop| hop_name(profile, Some(hop))).collect::<Vec<_>>().join(" > ")
}

fn hop_name(profile: &Profile, hop: Option<usize>) -> &str {
    hop.and_then(|hop| profile.hops().get(hop)).map_or("an unknown hop", |hop| &hop.name)
}

fn why(profile: &Profile, cause: DropCause, hop: Option<usize>, at: Time) -> &'static str {
    match cause {
        DropCause::QueueFull => "queue full",
        DropCause::Loss => "loss process",
        DropCause::NoRoute => "no route",
        DropCause::Event => event(profile, hop, at),
    }
}

/// The event that struck the hop at that moment.
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
