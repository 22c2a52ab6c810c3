//! Timing models of a host: what its scheduler and its processor take, besides TCP's own rules.
//!
//! | model | what it is | source |
//! |---|---|---|
//! | `linux-vm` | [`LINUX_VM`] | captures and kernel events of one machine: Linux 6.18 on two virtual processors; `backlog`, `reader` and `turnaround` say what was measured |
//! | `ideal` | none of these times | – |

use bentpipe_profile::experiment::HostTiming;
use bentpipe_profile::{Nanos, Streams};

/// Times that a host takes. `backlog`, `reader` and `turnaround` explain how they act.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostTimes {
    /// Kernel time to process one acknowledgement and send what it releases.
    pub ack_processing: Nanos,
    /// Kernel time to queue one acknowledgement while the application owns the socket.
    pub ack_queueing: Nanos,
    /// Probability that the sending application wakes up on the processor that does not process the acknowledgements.
    pub other_cpu_probability: f64,
    /// Its wake-up time there: a minimum …
    pub writer_wakeup_min: Nanos,
    /// … plus an exponential time with this mean.
    pub writer_wakeup_extra_mean: Nanos,
    /// Rate at which `sendmsg` copies and sends [bytes/µs].
    pub write_bytes_per_micro: u64,
    /// Mean wake-up time of the receiving application (exponential).
    pub reader_wakeup_mean: Nanos,
    /// Kernel time per received burst.
    pub burst: Nanos,
    /// Mean time of each host in an RTT sample (exponential).
    pub turnaround_mean: Nanos,
    /// Resolution of the RTT clock (`tcp_clock_us`).
    pub rtt_tick: Nanos,
}

/// Measured on one machine: Linux 6.18 on two virtual processors.
pub const LINUX_VM: HostTimes = HostTimes {
    ack_processing: Nanos::from_micros(9),
    ack_queueing: Nanos::from_micros(2),
    other_cpu_probability: 0.4,
    writer_wakeup_min: Nanos::from_micros(15),
    writer_wakeup_extra_mean: Nanos::from_micros(25),
    write_bytes_per_micro: 7_000,
    reader_wakeup_mean: Nanos::from_micros(70),
    burst: Nanos::from_micros(10),
    turnaround_mean: Nanos::from_micros(10),
    rtt_tick: Nanos::from_micros(1),
};

/// A host's times, and the random streams from which a connection draws them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnTimes {
    /// The model.
    pub times: HostTimes,
    /// The connection's random streams.
    pub streams: Streams,
}

impl DrawnTimes {
    /// Return the times of a named model; `None`: the host takes no time.
    #[must_use]
    pub const fn of(timing: HostTiming, streams: Streams) -> Option<Self> {
        match timing {
            HostTiming::LinuxVm => Some(Self { times: LINUX_VM, streams }),
            HostTiming::Ideal => None,
        }
    }
}
