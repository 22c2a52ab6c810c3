//! What a flow's tables need of a connection, whatever its transport.

use bentpipe_transport::SenderStats;

/// Figures of the ends of a connection that send and receive data in the flow's direction.
#[derive(Clone, Copy, Debug)]
pub struct DataEnds {
    /// Of the sender; `None`: it never wrote.
    pub stats: Option<SenderStats>,
    /// Payload delivered in order.
    pub delivered: u64,
    /// Data packets that arrived CE-marked.
    pub marks: u64,
}
