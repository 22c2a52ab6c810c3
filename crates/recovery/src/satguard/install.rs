//! Where the elements of `SatGuard` stand in a network: at the ends of every link that can lose packets, and at the ends of every path.

use super::handover::Handover;
use super::hold::{HoldLimit, HopRtt};
use super::link_end::{Config, LinkEnd};
use super::order::Reorder;
use super::path_end::{Egress, Ingress};
use super::timer::BeamTimer;
use super::upstream::{Detection, Limits};
use super::{DetectionChoice, Hold, Options};
use crate::links::{Change, handovers, kilobytes, lossy_links};
use crate::overhead::Overhead;
use bentpipe_link::{Element, Network, NetworkError};
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{Direction, Event, Nanos, NetworkSpec, Path, PathHop, Rate, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Return the handovers of the paths whose packets enter a link by its `direction`.
pub(super) fn cache(spec: &NetworkSpec, link: usize, direction: Direction, options: &Options) -> Vec<Handover> {
    if !options.migration {
        return Vec::new();
    }
    let mut cache = Vec::new();
    for (number, path) in (0..).zip(spec.paths()) {
        for change in handovers(path).filter(|change| path.hops[change.event.hop].link == link) {
            let event = change.event;
            let own = if path.hops[event.hop].reversed { direction.reverse() } else { direction };
            let capacity = spec.topology().links[link].hop.side(direction).capacity.as_ref();
            let rate = capacity.map_or(Rate::from_mbps(1000), |rate| Rate(rate.at(&mut Cursor::default(), event.at_ns).max(1)));
            let ahead = rate.time_for(kilobytes(options.buffer_kb));
            let (delay, rate, ahead) = if keeps_buffer(spec, path, &change, own) {
                (Nanos::ZERO, None, Nanos::ZERO)
            } else {
                (options.migration_delay, Some(megabits(options.migration_mbps)), ahead)
            };
            let copy_from = Time(event.at_ns.0.saturating_sub(ahead.0));
            cache.push(Handover { copy_from, at: event.at_ns, attach: event.at_ns + event.interruption_ns, path: number, delay, rate });
        }
    }
    cache
}

/// Return whether one node sends in a direction of the path before and after a handover: the terminal upwards, the ground station downwards.
fn keeps_buffer(spec: &NetworkSpec, path: &Path, change: &Change<'_>, own: Direction) -> bool {
    let ends = |hop: usize| {
        let PathHop { link, reversed } = path.hops[hop];
        let [near, far] = spec.topology().links[link].ends;
        if reversed { [far, near] } else { [near, far] }
    };
    let (old, next) = (ends(change.event.hop), ends(change.to_hop));
    // In a bent pipe one hop leads from the terminal to the gateway: its far end stands for the satellite.
    if old == next {
        return own == Direction::Up;
    }
    let sender = own as usize;
    old[sender] == next[sender]
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds of the option
fn megabits(mbps: f64) -> Rate {
    Rate((mbps * 1e6) as u64)
}

/// Return the RTTs of a path's hops with recovery, for packets of one direction.
pub(super) fn hop_rtts(spec: &NetworkSpec, path: &Path, links: &BTreeSet<usize>, direction: Direction, options: &Options) -> HopRtt {
    let timer = |&hop: &usize| {
        let PathHop { link, reversed } = path.hops[hop];
        let (hop, forward) = (&spec.topology().links[link].hop, if reversed { direction.reverse() } else { direction });
        links.contains(&link).then(|| BeamTimer::new(hop.side(forward).clone(), hop.side(forward.reverse()).clone(), options.ack_delay))
    };
    HopRtt::Routes(path.routes.iter().map(|route| (route.at_ns, route.hops.iter().filter_map(timer).collect())).collect())
}

/// Return the end of a link at the start of a direction. `slack`: added to its timers.
pub(super) fn link_end(
    spec: &NetworkSpec,
    link: usize,
    direction: Direction,
    options: &Options,
    slack: Nanos,
    overhead: &Arc<Overhead>,
) -> LinkEnd {
    let hop = &spec.topology().links[link].hop;
    let detection = match (options.detection, &hop.shared_id) {
        (DetectionChoice::Gaps, _) | (DetectionChoice::Auto, None) => Detection::Gaps,
        (DetectionChoice::Timer, _) | (DetectionChoice::Auto, Some(_)) => Detection::BeamTimer,
    };
    #[allow(clippy::cast_possible_truncation)] // at most 16
    let limits = Limits { detection, tries: options.tries as u16, buffer: kilobytes(options.buffer_kb) };
    let config = Config { limits, ack_delay: options.ack_delay, marked: options.marked(), slack };
    let (forward, back) = (hop.side(direction).clone(), hop.side(direction.reverse()).clone());
    let timer = BeamTimer::new(forward, back, options.ack_delay);
    LinkEnd::new(config, timer, cache(spec, link, direction, options), Arc::clone(overhead))
}

/// Return ingress and egress of one direction of a path. `slack`: added to each hold.
pub(super) fn path_ends(path: &Path, mut rtt: HopRtt, options: &Options, slack: Nanos, overhead: &Arc<Overhead>) -> [Box<dyn Element>; 2] {
    // Packets that were lost before a handover arrive over the new link: after the gap and a crossing of that link.
    let mut gap = |event: &Event| {
        let attach = event.at_ns + event.interruption_ns;
        (event.at_ns, attach + rtt.at(attach))
    };
    let gaps: Vec<_> = handovers(path).map(|change| gap(change.event)).collect();
    let reorder = Reorder::new(HoldLimit::new(rtt, options.hold == Hold::Adaptive, gaps).with_slack(slack));
    [Box::new(Ingress::new(options.marked(), Arc::clone(overhead))), Box::new(Egress::new(reorder, options.marked(), Arc::clone(overhead)))]
}

/// Put the elements into a network.
///
/// # Errors
/// A network that carries packets or has ends already.
pub fn install(network: &mut Network, spec: &NetworkSpec, options: &Options) -> Result<Arc<Overhead>, NetworkError> {
    let overhead = Arc::new(Overhead::default());
    let links = lossy_links(spec);
    for &number in &links {
        let end = |direction: Direction| -> Box<dyn Element> {
            Box::new(link_end(spec, number, direction, options, Nanos::ZERO, &overhead))
        };
        network.set_ends(number, Direction::BOTH.map(end))?;
    }
    if !options.order || links.is_empty() {
        return Ok(overhead);
    }
    for (number, path) in spec.paths().iter().enumerate() {
        for direction in Direction::BOTH {
            let rtt = hop_rtts(spec, path, &links, direction, options);
            network.set_path_ends(number, direction, path_ends(path, rtt, options, Nanos::ZERO, &overhead))?;
        }
    }
    Ok(overhead)
}
