//! Rows of the Run's `links` table: one hop's traffic in one window. Both drivers make them the same way.

use crate::cause::{DropCause, MarkCause};
use crate::network::Network;
use crate::stats::FlowStats;
use bentpipe_profile::run::{LinkRow, NO_ROUTE, Row, RunSink};
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{Direction, Nanos, Profile, Time};

/// Duration of a window.
pub const LINK_WINDOW: Nanos = Nanos::from_secs(1);

/// Give the rows of the window that ends at `at` for path number `path` to a sink, and start the next window of its delays. `t_s`: seconds since the run began.
///
/// The driver starts the next window of the backlogs ([`Network::begin_window`]) after it has recorded all paths.
pub fn record_window(network: &mut Network, path: usize, profile: &Profile, role: &str, at: Time, t_s: f64, sink: &mut dyn RunSink) {
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
                let total = flow == -1;
                let marked = Some(marks).filter(|_| flow != -2);
                sink.row(&Row::Link(LinkRow {
                    t_s,
                    profile: role,
                    hop: &hop.name,
                    direction: direction.name(),
                    flow,
                    capacity_bps: capacity,
                    backlog_bytes: backlog,
                    backlog_max_bytes: peak,
                    delivered_bytes: if total { counters.0 } else { 0 },
                    drops_queue: if total { counters.1 } else { 0 },
                    drops_loss: if total { counters.2 } else { 0 },
                    drops_event: if total { counters.3 } else { 0 },
                    drops_aqm: if total { counters.4 } else { 0 },
                    drops_no_route: 0,
                    marks_law: marked.map_or(0, |m| m.of(MarkCause::Law)),
                    marks_threshold: marked.map_or(0, |m| m.of(MarkCause::Threshold)),
                    delay_n: delays.n(),
                    delay_mean_ms: delays.mean_ms(),
                    delay_p50_ms: delays.quantile_ms(50, 100),
                    delay_p95_ms: delays.quantile_ms(95, 100),
                    delay_max_ms: delays.max_ms(),
                }));
            }
            stats.clear_delays();
        }
    }
    for direction in Direction::BOTH {
        record_no_route(network.no_route_drops(path, direction), direction, role, t_s, sink);
    }
}

/// Give the row of packets that found no route to a sink, if there were any.
fn record_no_route(drops: u64, direction: Direction, role: &str, t_s: f64, sink: &mut dyn RunSink) {
    if drops == 0 {
        return;
    }
    sink.row(&Row::Link(LinkRow {
        t_s,
        profile: role,
        hop: NO_ROUTE,
        direction: direction.name(),
        flow: -1,
        capacity_bps: f64::NAN,
        backlog_bytes: 0,
        backlog_max_bytes: 0,
        delivered_bytes: 0,
        drops_queue: 0,
        drops_loss: 0,
        drops_event: 0,
        drops_aqm: 0,
        drops_no_route: drops,
        marks_law: 0,
        marks_threshold: 0,
        delay_n: 0,
        delay_mean_ms: f64::NAN,
        delay_p50_ms: f64::NAN,
        delay_p95_ms: f64::NAN,
        delay_max_ms: f64::NAN,
    }));
}
