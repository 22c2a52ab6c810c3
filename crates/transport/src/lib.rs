//! A TCP sender and receiver modelled on Linux, and a model of QUIC; the congestion controllers are in the crate `bentpipe-cc`. Sans I/O: time and random streams
//! are arguments.
//!
//! | module | holds |
//! |---|---|
//! | [`endpoint`] | the interface between a host and its transports |
//! | [`quic`] | one end of a QUIC connection with streams |
//! | [`tcp`] | one end of a connection: a sender and a receiver |
//! | [`wire`] | segments and acknowledgements, with their size on the wire |
//! | [`sender`] | the sending end: transmission, acknowledgement processing, loss recovery |
//! | [`receiver`] | the receiving end: reassembly, acknowledgements, the receive window |
//! | [`config`], [`host_timing`], [`stats`], [`handshake`] | host settings; times that hosts take; counters and events of a flow; what a handshake tells |
//!
//! One module per mechanism. `ecn` serves both ends. The sender uses `scoreboard` (of `sent_packet`s), `arrivals`, `rack`, `tlp`, `prr`, `rto`, `undo`,
//! `rate_sampler`, `min_rtt`, `turnaround`, `backlog`, `pacing`, `cwnd_usage` and `sndbuf`; the receiver uses `reassembly`, `ack_policy`,
//! `reader` and `rcvbuf`. `docs/concepts/transport.md` lists, item by item, what is modelled on Linux and what is not.

mod ack_policy;
mod arrivals;
mod backlog;
pub mod config;
mod cwnd_usage;
mod ecn;
pub mod endpoint;
pub mod handshake;
pub mod host_timing;
mod min_rtt;
mod pacing;
mod prr;
pub mod quic;
mod rack;
mod rate_sampler;
mod rcvbuf;
mod reader;
mod reassembly;
pub mod receiver;
mod rto;
mod scoreboard;
pub mod sender;
mod sent_packet;
mod sndbuf;
pub mod stats;
pub mod tcp;
mod tlp;
mod turnaround;
mod undo;
pub mod wire;

pub use config::{ReceiverConfig, SenderConfig};
pub use endpoint::{Arrival, Endpoint};
pub use quic::Quic;
pub use quic::wire::QuicPacket;
pub use receiver::Receiver;
pub use sender::{Occupancy, Sender};
pub use stats::{FlowEvent, SenderStats, UndoCause};
pub use tcp::Tcp;
pub use wire::{Ack, Piggyback, SackBlocks, Segment, SegmentEcn, TcpPacket};
