//! Where the elements of `LinkGuardian` stand: at the ends of every link that can lose packets.

use super::link_end::{Config, LinkEnd};
use super::{Options, Order};
use crate::links::{kilobytes, lossy_links};
use crate::marking::Marked;
use crate::overhead::Overhead;
use crate::satguard::timer::BeamTimer;
use bentpipe_link::{Element, Network, NetworkError};
use bentpipe_profile::{Direction, HopDirection, LOSS_ONE, Nanos, NetworkSpec, Series, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Return the mean of a loss series over a span.
fn mean_loss(loss: &Series, span: Nanos) -> f64 {
    let points: Vec<(Time, u64)> = loss.points().map(|(at, value, _)| (at, value)).collect();
    let ends = points.iter().skip(1).map(|(at, _)| *at).chain([Time::ZERO + span]);
    let total: f64 = points.iter().zip(ends).map(|((at, value), end)| *value as f64 * end.since(*at).0 as f64).sum();
    total / LOSS_ONE as f64 / (span.0.max(1)) as f64
}

/// Return the number of retransmissions for a mean loss: the public code's table.
fn copies(loss: f64) -> u32 {
    if loss >= 1e-3 { 2 } else { 1 }
}

/// Put the elements into a network.
///
/// # Errors
/// A network that carries packets or has ends already.
pub fn install(network: &mut Network, spec: &NetworkSpec, options: &Options) -> Result<Arc<Overhead>, NetworkError> {
    let overhead = Arc::new(Overhead::default());
    let mut beams: BTreeMap<(&str, Direction), Arc<AtomicU64>> = BTreeMap::new();
    for number in lossy_links(spec) {
        let hop = &spec.topology().links[number].hop;
        let mut end = |direction: Direction| -> Box<dyn Element> {
            let (forward, back) = (hop.side(direction), hop.side(direction.reverse()));
            let timer = |a: &HopDirection, b: &HopDirection| BeamTimer::new(a.clone(), b.clone(), options.ack_delay);
            let port = match &hop.shared_id {
                Some(id) => Arc::clone(beams.entry((id, direction)).or_default()),
                None => Arc::default(),
            };
            let loss = forward.loss.as_ref().map_or(0.0, |loss| mean_loss(loss, spec.duration()));
            let config = Config {
                is_ordered: options.mode == Order::Ordered,
                copies: if options.copies == 0 { copies(loss) } else { options.copies },
                holes: u64::from(options.holes),
                dummies: options.dummies,
                dummy_after: options.dummy_after,
                ack_delay: options.ack_delay,
                timeout_rtts: options.timeout,
                buffer: kilobytes(options.buffer_kb),
                marked: Marked { first: options.marked_flows },
                port,
            };
            Box::new(LinkEnd::new(config, [timer(forward, back), timer(back, forward)], Arc::clone(&overhead)))
        };
        let ends = Direction::BOTH.map(&mut end);
        network.set_ends(number, ends)?;
    }
    Ok(overhead)
}
