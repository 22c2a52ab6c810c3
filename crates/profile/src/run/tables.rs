//! What a Run leaves: columns, as they go to Parquet. Units are in the names; counters are cumulative.

use crate::path::{Event, EventKind, Profile};
use crate::units::Time;
use sha2::{Digest, Sha256};

/// A column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Column<'a> {
    /// Numbers; NaN where unknown.
    F64(&'a [f64]),
    /// Counters.
    U64(&'a [u64]),
    /// Flow numbers; -1 where all flows or none are meant.
    I64(&'a [i64]),
    /// Names.
    Text(&'a [String]),
}

/// What a sender may be doing about losses, by Linux's number (`enum tcp_ca_state`, `include/uapi/linux/tcp.h`).
pub const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $kind:ident($ty:ty),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$fdoc])* pub $field: Vec<$ty>,)* }

        impl $name {
            /// Names and values, in the order of the file.
            #[must_use]
            pub fn columns(&self) -> Vec<(&'static str, Column<'_>)> {
                vec![$((stringify!($field), Column::$kind(&self.$field)),)*]
            }
        }
    };
}

table! {
    /// One row per flow and sample time.
    Samples {
        /// Since the run's beginning [s].
        t_s: F64(f64),
        /// Which flow.
        flow: U64(u64),
        /// Delivered in order to the receiving application so far.
        goodput_bytes: U64(u64),
        /// Newest RTT.
        rtt_latest_ms: F64(f64),
        /// Smoothed RTT (RFC 6298).
        rtt_smoothed_ms: F64(f64),
        /// Windowed minimum.
        rtt_min_ms: F64(f64),
        /// Mean deviation of the RTT (Linux `tcpi_rttvar`, what iperf3 prints as `rttvar`).
        rtt_var_ms: F64(f64),
        /// Congestion window.
        cwnd_bytes: U64(u64),
        /// Sent, and neither acknowledged nor marked lost.
        inflight_bytes: U64(u64),
        /// Pacing rate; NaN where the flow is not paced.
        pacing_bps: F64(f64),
        /// Newest delivery rate that the application did not limit, or the highest that it did; NaN where none is known yet.
        delivery_bps: F64(f64),
        /// Segments retransmitted so far.
        retransmits: U64(u64),
        /// Segments marked lost so far.
        losses: U64(u64),
        /// CE marks echoed so far.
        marks: U64(u64),
        /// What the sender does about losses: `open`, `disorder`, `cwr`, `recovery` or `loss` (Linux `tcp_ca_state`).
        state: Text(String),
        /// Time limited by the congestion window so far.
        cwnd_limited_s: F64(f64),
        /// Time limited by the receive window so far.
        receiver_limited_s: F64(f64),
        /// Time limited by the application or the send buffer so far.
        sender_limited_s: F64(f64),
    }
}

/// Stands for the hop in rows of packets that found no route.
pub const NO_ROUTE: &str = "no_route";

table! {
    /// One row per window, hop and direction that carried traffic (`flow` -1), one per flow in it, and one for all cross traffic (`flow` -2). From the first
    /// packet on that found no route also one row per window and direction with the hop [`NO_ROUTE`].
    Links {
        /// End of the window, since the run's beginning [s].
        t_s: F64(f64),
        /// Role of the Profile.
        profile: Text(String),
        /// Name of the hop.
        hop: Text(String),
        /// `up` or `down`.
        direction: Text(String),
        /// Which flow; -1: all; -2: cross traffic.
        flow: I64(i64),
        /// Capacity at the end of the window; NaN: never the bottleneck.
        capacity_bps: F64(f64),
        /// Bytes that wait at the end of the window.
        backlog_bytes: U64(u64),
        /// Most bytes that waited at any moment of the window.
        backlog_max_bytes: U64(u64),
        /// Bytes that left downstream so far (rows of one flow: 0).
        delivered_bytes: U64(u64),
        /// Packets lost in a full queue so far.
        drops_queue: U64(u64),
        /// Packets lost in loss episodes so far.
        drops_loss: U64(u64),
        /// Packets lost to handovers and outages so far.
        drops_event: U64(u64),
        /// Packets that the queue's discipline gave up so far.
        drops_aqm: U64(u64),
        /// Packets that found no route so far (rows of a hop: 0).
        drops_no_route: U64(u64),
        /// Packets marked (`CE`) by a control law so far: `CoDel`'s, RED's; of all flows, or of this one.
        marks_law: U64(u64),
        /// Packets marked beyond a threshold so far.
        marks_threshold: U64(u64),
        /// Packets that left in this window.
        delay_n: U64(u64),
        /// Their time in the hop.
        delay_mean_ms: F64(f64),
        /// Median.
        delay_p50_ms: F64(f64),
        /// 95th percentile.
        delay_p95_ms: F64(f64),
        /// Largest.
        delay_max_ms: F64(f64),
    }
}

table! {
    /// What happened, in order of time.
    Events {
        /// Since the run's beginning [s].
        t_s: F64(f64),
        /// Which flow; -1: the path.
        flow: I64(i64),
        /// `handover`, `outage`, `recovery`, `rto`, `state`, …
        kind: Text(String),
        /// For people.
        detail: Text(String),
    }
}

impl Events {
    /// The Profile's own events between `start` and `end`. What began earlier and lasts into it counts from its beginning.
    pub fn push_path(&mut self, profile: &Profile, start: Time, end: Time) {
        let lasts = |e: &&Event| e.at_ns + e.interruption_ns > start;
        for event in profile.events().iter().filter(|e| (e.at_ns >= start || lasts(e)) && e.at_ns < end) {
            let t_s = event.at_ns.max(start).since(start).as_secs_f64();
            let hop = &profile.hops()[event.hop].name;
            let gap_ms = event.interruption_ns.as_millis_f64();
            let (kind, detail) = match &event.kind {
                EventKind::Handover { to_hop, .. } if *to_hop == event.hop => ("reconfiguration", format!("{hop}, {gap_ms} ms")),
                EventKind::Handover { to_hop, .. } => ("handover", format!("{hop} to {}, {gap_ms} ms", profile.hops()[*to_hop].name)),
                EventKind::Outage => ("outage", format!("{hop}, {gap_ms} ms")),
                EventKind::Obstruction => ("obstruction", format!("{hop}, {gap_ms} ms")),
                EventKind::Rain => ("rain", format!("{hop}, {gap_ms} ms")),
            };
            self.push(t_s, -1, kind, detail);
        }
    }

    /// One more.
    pub fn push(&mut self, t_s: f64, flow: i64, kind: &str, detail: String) {
        self.t_s.push(t_s);
        self.flow.push(flow);
        self.kind.push(kind.to_owned());
        self.detail.push(detail);
    }

    /// In order of time; of one time, in the order of arrival.
    pub fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.t_s.len()).collect();
        order.sort_by(|&a, &b| self.t_s[a].total_cmp(&self.t_s[b]));
        *self = Self {
            t_s: order.iter().map(|&i| self.t_s[i]).collect(),
            flow: order.iter().map(|&i| self.flow[i]).collect(),
            kind: order.iter().map(|&i| self.kind[i].clone()).collect(),
            detail: order.iter().map(|&i| self.detail[i].clone()).collect(),
        };
    }
}

/// Adds every bit of a table to a hash.
pub fn hash_columns(hash: &mut Sha256, columns: &[(&'static str, Column<'_>)]) {
    for (name, column) in columns {
        hash.update(name.as_bytes());
        match column {
            Column::F64(values) => values.iter().for_each(|v| hash.update(v.to_bits().to_le_bytes())),
            Column::U64(values) => values.iter().for_each(|v| hash.update(v.to_le_bytes())),
            Column::I64(values) => values.iter().for_each(|v| hash.update(v.to_le_bytes())),
            Column::Text(values) => values.iter().for_each(|v| {
                hash.update((v.len() as u64).to_le_bytes());
                hash.update(v.as_bytes());
            }),
        }
    }
}

/// The three tables of a Run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTables {
    /// Per flow over time.
    pub samples: Samples,
    /// Per hop over time.
    pub links: Links,
    /// What happened.
    pub events: Events,
}

impl RunTables {
    /// All tables by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Vec<(&'static str, Column<'_>)>); 3] {
        [("samples", self.samples.columns()), ("links", self.links.columns()), ("events", self.events.columns())]
    }
}
