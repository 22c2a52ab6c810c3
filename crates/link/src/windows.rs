//! Rows of the Run's `links` table: what each hop carried in a window, the same in both drivers.

use crate::element::DropCause;
use crate::network::Network;
use crate::stats::DelayHistogram;
use bentpipe_profile::run::Links;
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{Direction, Nanos, Profile, Time};

/// Length of a window.
pub const LINK_WINDOW: Nanos = Nanos::from_secs(1);

/// Writes the rows of the window that ends at `at` (`t_s` since the run's beginning) for the network's path number `path`, and begins the next of its delays; the driver begins that of the backlogs
/// ([`Network::begin_window`]) when it has all paths' rows.
#[allow(clippy::cast_possible_wrap)] // far fewer than 2^63 flows
pub fn record_window(network: &mut Network, path: usize, profile: &Profile, role: &str, at: Time, t_s: f64, links: &mut Links) {
    let route = network.route(path).to_vec();
    let crowd = network.counted_flows() as usize;
    for (index, hop) in profile.hops().iter().enumerate() {
        for direction in Direction::BOTH {
            let backlog = network.backlog_bytes(path, index, direction);
            let most = network.most_backlog_bytes(path, index, direction);
            let stats = network.stats_mut(path, index, direction);
            let carried: u64 = stats.delays.iter().map(DelayHistogram::n).sum();
            let in_route = route.iter().any(|&h| usize::from(h) == index);
            if carried == 0 && most == 0 && !in_route {
                continue;
            }
            let capacity = hop.side(direction).capacity.as_ref().map_or(f64::NAN, |c| c.at(&mut Cursor::default(), at) as f64);
            let drops = |cause| stats.drops.of(cause);
            let counters = (stats.delivered_bytes, drops(DropCause::QueueFull), drops(DropCause::Loss), drops(DropCause::Event));
            let rows = stats.delays.iter().enumerate().filter(|(_, d)| d.n() > 0);
            let mut all = DelayHistogram::default();
            for (_, delays) in rows.clone() {
                all.merge(delays);
            }
            let all = [(-1, &all)];
            for (flow, delays) in all.into_iter().chain(rows.map(|(flow, d)| (if flow == crowd { -2 } else { flow as i64 }, d))) {
                let l = &mut *links;
                let total = flow == -1;
                l.t_s.push(t_s);
                l.profile.push(role.to_owned());
                l.hop.push(hop.name.clone());
                l.direction.push(direction.name().to_owned());
                l.flow.push(flow);
                l.capacity_bps.push(capacity);
                l.backlog_bytes.push(backlog);
                l.backlog_max_bytes.push(most);
                l.delivered_bytes.push(if total { counters.0 } else { 0 });
                l.drops_queue.push(if total { counters.1 } else { 0 });
                l.drops_loss.push(if total { counters.2 } else { 0 });
                l.drops_event.push(if total { counters.3 } else { 0 });
                l.delay_n.push(delays.n());
                l.delay_mean_ms.push(delays.mean_ms());
                l.delay_p50_ms.push(delays.quantile_ms(50, 100));
                l.delay_p95_ms.push(delays.quantile_ms(95, 100));
                l.delay_max_ms.push(delays.max_ms());
            }
            stats.clear_delays();
        }
    }
}
