//! Host settings of a connection. Defaults are Linux 6.18's.

use crate::host_timing::DrawnTimes;
use crate::rto::RTO_MAX;
use crate::wire::MSS;
use bentpipe_cc::registry;
use bentpipe_profile::experiment::{EcnMode, HostTiming};
use bentpipe_profile::{Bytes, Nanos, Streams};

/// Settings of the sending host.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is a setting of Linux
pub struct SenderConfig {
    /// Maximum segment size [bytes].
    pub mss: u32,
    /// Initial window [segments] (RFC 6928; `TCP_INIT_CWND`).
    pub initial_window: u32,
    /// Whether the qdisc is `fq`, which paces every flow; with `pfifo_fast` only controllers that set a pacing rate are paced.
    pub fq: bool,
    /// Send buffer before autotuning (`tcp_wmem[1]`).
    pub wmem_initial: Bytes,
    /// Largest send buffer (`tcp_wmem[2]`).
    pub wmem_max: Bytes,
    /// Memory per segment of cwnd in send buffer autotuning (`tcp_sndbuf_expand`). It depends on the kernel's build: 1460 bytes,
    /// `MAX_TCP_HEADER` and 320 of `struct skb_shared_info`, rounded up to a power of two, plus 256 of `struct sk_buff`. With drivers for
    /// wireless networks, as in distributions, 4352; without, as in kernels for virtual machines, 2304 (x86-64).
    pub wmem_segment: Bytes,
    /// Largest TSO burst (`gso_max_size`).
    pub gso_max: Bytes,
    /// Pacing in slow start, percent of cwnd / srtt (`tcp_pacing_ss_ratio`).
    pub pacing_slow_start_percent: u64,
    /// Pacing in congestion avoidance, percent of cwnd / srtt (`tcp_pacing_ca_ratio`).
    pub pacing_avoidance_percent: u64,
    /// Whether an idle connection restarts from the initial window (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Whether a short segment waits while another is unacknowledged (Nagle's algorithm, RFC 896, in Minshall's version; off: `TCP_NODELAY`).
    pub nagle: bool,
    /// Smallest retransmission time-out (`TCP_RTO_MIN`; RFC 6298 asks for one second).
    pub rto_min: Nanos,
    /// Largest retransmission time-out (`TCP_RTO_MAX`, `net.ipv4.tcp_rto_max_ms`).
    pub rto_max: Nanos,
    /// Whether new data decide if a time-out was spurious (`tcp_frto`, RFC 5682).
    pub frto: bool,
    /// Window of the minimum RTT that RACK and the rate sampler use (`tcp_min_rtt_wlen`).
    pub min_rtt_window: Nanos,
    /// ECN mode that it requests.
    pub ecn: EcnMode,
    /// Times that the hosts take for a packet and its acknowledgement; `None`: they take none.
    pub host_times: Option<DrawnTimes>,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            mss: MSS,
            initial_window: 10,
            fq: false,
            wmem_initial: Bytes(16_384),
            wmem_max: Bytes(4_194_304),
            wmem_segment: Bytes(4_352),
            gso_max: Bytes(65_536),
            pacing_slow_start_percent: 200,
            pacing_avoidance_percent: 120,
            slow_start_after_idle: true,
            nagle: true,
            rto_min: Nanos::from_millis(200),
            rto_max: RTO_MAX,
            frto: true,
            min_rtt_window: Nanos::from_secs(300),
            ecn: EcnMode::Off,
            host_times: None,
        }
    }
}

impl SenderConfig {
    /// Return the connection's settings for its controller.
    #[must_use]
    pub fn controller_config(&self, streams: Streams) -> registry::Config {
        registry::Config {
            mss: self.mss,
            initial_cwnd: Bytes(u64::from(self.initial_window) * u64::from(self.mss)),
            streams,
            paced: self.fq,
        }
    }
}

/// Settings of the receiving host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Maximum segment size [bytes].
    pub mss: u32,
    /// Receive buffer before autotuning (`tcp_rmem[1]`).
    pub rmem_initial: Bytes,
    /// Largest receive buffer (`tcp_rmem[2]`).
    pub rmem_max: Bytes,
    /// Memory of a full segment (`skb->truesize`; 2304 bytes for a 1500-byte packet in a 2 kB page fragment, as with most drivers).
    pub segment_truesize: Bytes,
    /// Most segments of one instant that GRO merges into one. 1: no GRO; 45: as many of 1448 bytes as an IP packet holds.
    pub gro_segments: u32,
    /// Longest delay of a compressed ACK (`tcp_comp_sack_delay_ns`).
    pub sack_compression_delay: Nanos,
    /// Most ACKs compressed into one (`tcp_comp_sack_nr`).
    pub sack_compression_count: u32,
    /// Most capable ECN mode that it accepts. Linux's default (`tcp_ecn` = 2) answers a request for accurate feedback with classic; here a
    /// flow gets the mode it requests, unless its host is set otherwise.
    pub ecn: EcnMode,
    /// Times of its application; `None`: it takes none.
    pub host_times: Option<DrawnTimes>,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            mss: MSS,
            rmem_initial: Bytes(131_072),
            rmem_max: Bytes(33_554_432),
            segment_truesize: Bytes(2304),
            gro_segments: 45,
            sack_compression_delay: Nanos::from_millis(1),
            sack_compression_count: 44,
            ecn: EcnMode::Accurate,
            host_times: DrawnTimes::of(HostTiming::LinuxVm, Streams::new(0)),
        }
    }
}
