//! The tables of a Run: columns, as they are written to Parquet. Names end in their units. Counters are cumulative: they count from the start of
//! the run. Times are in seconds since the start of the run.

use crate::event::{Event, EventKind};
use crate::network::NetworkSpec;
use crate::profile::Profile;
use crate::units::Time;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column<'a> {
    /// Numbers; NaN: unknown.
    F64(&'a [f64]),
    /// Counters.
    U64(&'a [u64]),
    /// Flow numbers; negative: not a single flow.
    I64(&'a [i64]),
    /// Names.
    Text(&'a [String]),
}

/// Congestion control states of a sender, by Linux's number (`enum tcp_ca_state`, `include/uapi/linux/tcp.h`).
pub const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// The type of a value in a row: a table owns its text, a row borrows it.
macro_rules! value {
    ($life:lifetime Text) => { &$life str };
    ($life:lifetime F64) => { f64 };
    ($life:lifetime U64) => { u64 };
    ($life:lifetime I64) => { i64 };
}

/// A row's value as its column stores it.
macro_rules! stored {
    (Text $value:expr) => {
        $value.to_owned()
    };
    ($kind:ident $value:expr) => {
        $value
    };
}

/// A column's value as a row has it.
macro_rules! viewed {
    (Text $value:expr) => {
        $value.as_str()
    };
    ($kind:ident $value:expr) => {
        $value
    };
}

macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $(#[$row_doc:meta])* $row:ident { $($(#[$fdoc:meta])* $field:ident: $kind:ident($ty:ty),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$fdoc])* pub $field: Vec<$ty>,)* }

        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        pub struct $row<'a> { $($(#[$fdoc])* pub $field: value!('a $kind),)* }

        impl $name {
            /// Return the columns' names and values, in the order of the file.
            #[must_use]
            pub fn columns(&self) -> Vec<(&'static str, Column<'_>)> {
                vec![$((stringify!($field), Column::$kind(&self.$field)),)*]
            }

            /// Append a row.
            pub fn push(&mut self, row: &$row<'_>) {
                $(self.$field.push(stored!($kind row.$field));)*
            }

            /// Return a row by its index.
            ///
            /// # Panics
            /// There is no such row.
            #[must_use]
            pub fn row(&self, index: usize) -> $row<'_> {
                $row { $($field: viewed!($kind self.$field[index]),)* }
            }

            /// Return all rows, in order.
            pub fn rows(&self) -> impl Iterator<Item = $row<'_>> {
                (0..self.flow.len()).map(|index| self.row(index))
            }

            /// Replace the row at an index.
            ///
            /// # Panics
            /// There is no such row.
            pub fn replace(&mut self, index: usize, row: &$row<'_>) {
                $(self.$field[index] = stored!($kind row.$field);)*
            }
        }
    };
}

table! {
    /// State of the senders over time: one row per flow and sample time.
    Samples,
    /// A row of [`Samples`].
    SampleRow {
        /// Time of the sample, since the start of the run [s].
        t_s: F64(f64),
        /// Number of the flow, in the order of the Experiment, from 0.
        flow: U64(u64),
        /// Bytes delivered in order to the receiving application so far.
        goodput_bytes: U64(u64),
        /// Most recent RTT sample [ms]; NaN: none yet.
        rtt_latest_ms: F64(f64),
        /// Smoothed RTT (RFC 6298) [ms]; NaN: none yet.
        rtt_smoothed_ms: F64(f64),
        /// Minimum RTT in the sender's window [ms]; NaN: none yet.
        rtt_min_ms: F64(f64),
        /// Mean deviation of the RTT [ms] (Linux `tcpi_rttvar`, `rttvar` of iperf3); NaN: none yet.
        rtt_var_ms: F64(f64),
        /// Congestion window [bytes].
        cwnd_bytes: U64(u64),
        /// Bytes sent that are neither acknowledged nor marked lost.
        inflight_bytes: U64(u64),
        /// Pacing rate [bit/s]; NaN: the flow is not paced.
        pacing_bps: F64(f64),
        /// Delivery rate [bit/s]: the most recent sample that was not application-limited, or a higher one that was; NaN: none yet.
        delivery_bps: F64(f64),
        /// Segments retransmitted so far.
        retransmits: U64(u64),
        /// Segments marked lost so far.
        losses: U64(u64),
        /// CE marks that the receiver has echoed so far (RFC 3168, RFC 9768).
        marks: U64(u64),
        /// Congestion control state: `open`, `disorder`, `cwr`, `recovery` or `loss` (Linux `tcp_ca_state`).
        state: Text(String),
        /// Time so far in which the congestion window limited the flow [s].
        cwnd_limited_s: F64(f64),
        /// Time so far in which the receive window limited the flow [s].
        receiver_limited_s: F64(f64),
        /// Time so far in which the application or the send buffer limited the flow [s].
        sender_limited_s: F64(f64),
    }
}

/// Value of `hop` in the rows that count packets without a route.
pub const NO_ROUTE: &str = "no_route";

table! {
    /// Traffic on the hops over time, in windows of 1 s.
    ///
    /// For each window, hop and direction with traffic: one row for all flows (`flow` -1), one for each flow, and one for all cross traffic (`flow` -2). Once
    /// a packet has found no route, also one row per window and direction with the hop [`NO_ROUTE`].
    Links,
    /// A row of [`Links`].
    LinkRow {
        /// End of the window, since the start of the run [s].
        t_s: F64(f64),
        /// Role of the Profile in the Experiment.
        profile: Text(String),
        /// Name of the hop in the Profile.
        hop: Text(String),
        /// `up` (terminal to Internet) or `down`.
        direction: Text(String),
        /// Number of the flow; -1: all flows; -2: cross traffic.
        flow: I64(i64),
        /// Capacity at the end of the window [bit/s]; NaN: unlimited.
        capacity_bps: F64(f64),
        /// Bytes that wait for capacity at the end of the window, of all flows.
        backlog_bytes: U64(u64),
        /// Peak backlog: most bytes that waited at any moment of the window, of all flows.
        backlog_max_bytes: U64(u64),
        /// Bytes that left the hop downstream so far (only in rows with `flow` -1, otherwise 0).
        delivered_bytes: U64(u64),
        /// Tail drops so far: packets dropped because the queue was full (only in rows with `flow` -1, otherwise 0).
        drops_queue: U64(u64),
        /// Random losses in loss episodes so far (only in rows with `flow` -1, otherwise 0).
        drops_loss: U64(u64),
        /// Packets dropped by handovers, outages and other events so far (only in rows with `flow` -1, otherwise 0).
        drops_event: U64(u64),
        /// AQM drops so far: packets that the queue's control law dropped (only in rows with `flow` -1, otherwise 0).
        drops_aqm: U64(u64),
        /// Packets that found no route so far (only in rows with the hop `no_route`, otherwise 0).
        drops_no_route: U64(u64),
        /// Packets marked (CE) by the queue's control law (`CoDel`, FQ-CoDel, RED) so far, of the flows of the row.
        marks_law: U64(u64),
        /// Packets marked (CE) beyond the queue's threshold (step) so far, of the flows of the row.
        marks_threshold: U64(u64),
        /// Packets that left the hop downstream in this window, of the flows of the row.
        delay_n: U64(u64),
        /// Mean time of these packets in the hop, with queueing and propagation [ms]; NaN: no packet.
        delay_mean_ms: F64(f64),
        /// Median of that time [ms].
        delay_p50_ms: F64(f64),
        /// 95th percentile of that time [ms].
        delay_p95_ms: F64(f64),
        /// Maximum of that time [ms].
        delay_max_ms: F64(f64),
    }
}

table! {
    /// Events of the path and of the flows, in order of time.
    Events,
    /// A row of [`Events`].
    EventRow {
        /// Time of the event, since the start of the run [s].
        t_s: F64(f64),
        /// Number of the flow; -1: the path.
        flow: I64(i64),
        /// Kind: `handover`, `reconfiguration`, `outage`, `recovery`, `rto`, `state`, …
        kind: Text(String),
        /// Description for people.
        detail: Text(String),
    }
}

table! {
    /// Items of the applications: transfers, messages, requests. One row per item, in the order in which they began.
    Applications,
    /// A row of [`Applications`].
    ApplicationRow {
        /// Number of the flow.
        flow: U64(u64),
        /// Kind of the item: `transfer`, `message`, `request`, or the name that an application in Python gives; empty: unknown.
        kind: Text(String),
        /// Number of the item in its flow.
        id: U64(u64),
        /// When it began, since the start of the run [s]; NaN: unknown.
        start_s: F64(f64),
        /// When its first byte arrived [s]; NaN: not known, or not complete.
        first_byte_s: F64(f64),
        /// When it was complete [s]; NaN: it was not.
        completed_s: F64(f64),
        /// Its size [bytes]; 0: unknown.
        bytes: U64(u64),
    }
}

impl ApplicationRow<'_> {
    /// Return the row of an item of which nothing is known.
    #[must_use]
    pub const fn unknown(flow: u64, id: u64) -> Self {
        Self { flow, kind: "", id, start_s: f64::NAN, first_byte_s: f64::NAN, completed_s: f64::NAN, bytes: 0 }
    }
}

impl Events {
    /// Return the Profile's events between `start` and `end`. An interruption that began earlier and lasts beyond `start` counts from `start`.
    #[must_use]
    pub fn of_path(profile: &Profile, start: Time, end: Time) -> Self {
        let mut events = Self::default();
        events.push_path_events(profile.events(), |hop| &profile.hops()[hop].name, start, end);
        events
    }

    /// Return the events of a network as [`Events::of_path`] does, path by path. An event of a link has one row, however many paths use the link.
    #[must_use]
    pub fn of_network(network: &NetworkSpec, start: Time, end: Time) -> Self {
        let mut all = Self::default();
        let mut is_recorded = vec![false; network.topology().links.len()];
        for path in network.paths() {
            let mut events = path.link_events(network.topology());
            events.retain(|event| !is_recorded[path.hops[event.hop].link]);
            events.extend(path.events.iter().cloned());
            events.sort_by_key(|event| event.at_ns);
            all.push_path_events(&events, |hop| &network.topology().links[path.hops[hop].link].hop.name, start, end);
            path.hops.iter().for_each(|hop| is_recorded[hop.link] = true);
        }
        all
    }

    /// Append events of one path. `name`: names of its hops.
    fn push_path_events<'a>(&mut self, events: &[Event], name: impl Fn(usize) -> &'a str, start: Time, end: Time) {
        let lasts = |e: &&Event| e.at_ns + e.interruption_ns > start;
        for event in events.iter().filter(|e| (e.at_ns >= start || lasts(e)) && e.at_ns < end) {
            let t_s = event.at_ns.max(start).since(start).as_secs_f64();
            let (hop, gap_ms) = (name(event.hop), event.interruption_ns.as_millis_f64());
            let (kind, detail) = match &event.kind {
                EventKind::Handover { to_hop, .. } if *to_hop == event.hop => ("reconfiguration", format!("{hop}, {gap_ms} ms")),
                EventKind::Handover { to_hop, .. } => ("handover", format!("{hop} to {}, {gap_ms} ms", name(*to_hop))),
                EventKind::Outage => ("outage", format!("{hop}, {gap_ms} ms")),
                EventKind::Obstruction => ("obstruction", format!("{hop}, {gap_ms} ms")),
                EventKind::Rain => ("rain", format!("{hop}, {gap_ms} ms")),
            };
            self.push(&EventRow { t_s, flow: -1, kind, detail: &detail });
        }
    }

    /// Sort by time. At the same time the path's events are first; others keep their order.
    pub fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.t_s.len()).collect();
        order.sort_by(|&a, &b| self.t_s[a].total_cmp(&self.t_s[b]).then_with(|| (self.flow[a] >= 0).cmp(&(self.flow[b] >= 0))));
        *self = Self {
            t_s: order.iter().map(|&i| self.t_s[i]).collect(),
            flow: order.iter().map(|&i| self.flow[i]).collect(),
            kind: order.iter().map(|&i| self.kind[i].clone()).collect(),
            detail: order.iter().map(|&i| self.detail[i].clone()).collect(),
        };
    }
}

/// Add every bit of a table to a hash.
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
