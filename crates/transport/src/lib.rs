//! A TCP as a modern kernel has it; its congestion controllers are the crate `bentpipe-cc`. Sans I/O: time and random streams are arguments.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | segments and acknowledgements, with their size on the wire |
//! | [`sender`] | the sending end: what is sent when, and what an acknowledgement means |
//! | [`receiver`] | the receiving end: reassembly, acknowledgements, the receive window |
//! | [`config`], [`stats`] | what a host brings; what an observer sees |
//!
//! The parts, one idea each: `ecn` has both ends of it; `scoreboard`, `arrivals`, `rack`, `tlp`, `prr`, `rto`, `undo`, `rate_sampler`, `min_rtt`, `turnaround`, `backlog`, `pacing`, `cwnd_usage`
//! and `sndbuf` make the sender; `reassembly`, `ack_policy`, `reader` and `rcvbuf` the receiver. What is modelled against Linux, item by item, and what is not:
//! `docs/concepts/transport.md`.

mod ack_policy;
mod arrivals;
mod backlog;
pub mod config;
mod cwnd_usage;
mod ecn;
mod min_rtt;
mod pacing;
mod prr;
mod rack;
mod rate_sampler;
mod rcvbuf;
mod reader;
mod reassembly;
pub mod receiver;
mod rto;
mod scoreboard;
pub mod sender;
mod sndbuf;
pub mod stats;
mod tlp;
mod turnaround;
mod undo;
pub mod wire;

pub use config::{ReceiverConfig, SenderConfig};
pub use receiver::Receiver;
pub use sender::Sender;
pub use stats::{FlowEvent, SenderStats, UndoCause};
pub use wire::{Ack, SackBlocks, Segment, SegmentEcn};
