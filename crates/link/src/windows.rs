//! Rows of the Run's `links` table: one hop's traffic in one window. Both drivers write them the same way.

use crate::cause::{DropCause, MarkCause};
use crate::network::Network;
use crate::stats::FlowStats;
use bentpipe_profile::run::{Links, NO_ROUTE};
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{Direction, Nanos, Profile, Time};

/// Duration of a window.
pub const LINK_WINDOW: Nanos = Nanos::from_secs(1);

/// Append the rows of the window that ends at `at` for path number `path`, and start the next window of its delays. `t_s`: seconds since the run began.
///
/// The driver starts the next window of the backlogs ([`Network::begin_window`]) after it has recorded all paths.
pub fn record_window(network: &mut Network, path: usize, profile: &Profile, role: &str, at: Time, t_s: f64, links: &mut Links) {
    let route = network.route(path).to_vec();
    let cross_traffic = network.separate_flows();
    for (index, hop) in profile.hops().iter().enumerate() {
        for direction in Direction::BOTH {
            let backlog = network.backlog_bytes(path, index, direction);
            let peak = network.peak_backlog_bytes(path, index, direction);
            let stats = network.stats_mut(path, index, direction);
            let carried: u64 = stats.flows().map(|(_, flow)| flow.delays.n()).sum();
            let in_route = route.iter().any(|&h| usize::from(h) == index);
            if carried == 0 && peak == 0 && !in_route {
                continue;
            }
            let capacity = hop.side(direction).capacity.as_ref().map_or(f64::NAN, |c| c.at(&mut Cursor::default(), at) as f64);
            let drops = |cause| stats.drops.of(cause);
            let counters = (
                stats.delivered_bytes,
                drops(DropCause::QueueFull),
                drops(DropCause::Loss),
                drops(DropCause::Event),
                drops(DropCause::Aqm),
            );
            let mut all = FlowStats::default();
            for (_, flow) in stats.flows() {
                all.marks = all.marks.plus(&flow.marks);
                all.delays.merge(&flow.delays);
            }
            let number = |flow| if flow == cross_traffic { -2 } else { i64::from(flow) };
            let flows = stats.flows().filter(|(_, flow)| flow.delays.n() > 0).map(|(flow, stats)| (number(flow), stats));
            for (flow, FlowStats { marks, delays }) in [(-1, &all)].into_iter().chain(flows) {
                let row = &mut *links;
                let total = flow == -1;
                row.t_s.push(t_s);
                row.profile.push(role.to_owned());
                row.hop.push(hop.name.clone());
                row.direction.push(direction.name().to_owned());
                row.flow.push(flow);
                row.capacity_bps.push(capacity);
                row.backlog_bytes.push(backlog);
                row.backlog_max_bytes.push(peak);
                row.delivered_bytes.push(if total { counters.0 } else { 0 });
                row.drops_queue.push(if total { counters.1 } else { 0 });
                row.drops_loss.push(if total { counters.2 } else { 0 });
                row.drops_event.push(if total { counters.3 } else { 0 });
                row.drops_aqm.push(if total { counters.4 } else { 0 });
                let marked = Some(marks).filter(|_| flow != -2);
                row.drops_no_route.push(0);
                row.marks_law.push(marked.map_or(0, |m| m.of(MarkCause::Law)));
                row.marks_threshold.push(marked.map_or(0, |m| m.of(MarkCause::Threshold)));
                row.delay_n.push(delays.n());
                row.delay_mean_ms.push(delays.mean_ms());
                row.delay_p50_ms.push(delays.quantile_ms(50, 100));
                row.delay_p95_ms.push(delays.quantile_ms(95, 100));
                row.delay_max_ms.push(delays.max_ms());
            }
            stats.clear_delays();
        }
    }
    for direction in Direction::BOTH {
        record_no_route(network.no_route_drops(path, direction), direction, role, t_s, links);
    }
}

/// Append the row of packets that found no route, if there were any.
fn record_no_route(drops: u64, direction: Direction, role: &str, t_s: f64, links: &mut Links) {
    if drops == 0 {
        return;
    }
    links.t_s.push(t_s);
    links.profile.push(role.to_owned());
    links.hop.push(NO_ROUTE.to_owned());
    links.direction.push(direction.name().to_owned());
    links.flow.push(-1);
    links.capacity_bps.push(f64::NAN);
    links.drops_no_route.push(drops);
    for counter in [
        &mut links.backlog_bytes,
        &mut links.backlog_max_bytes,
        &mut links.delivered_bytes,
        &mut links.drops_queue,
        &mut links.drops_loss,
        &mut links.drops_event,
        &mut links.drops_aqm,
        &mut links.marks_law,
        &mut links.marks_threshold,
        &mut links.delay_n,
    ] {
        counter.push(0);
    }
    for unknown in [&mut links.delay_mean_ms, &mut links.delay_p50_ms, &mut links.delay_p95_ms, &mut links.delay_max_ms] {
        unknown.push(f64::NAN);
    }
}
