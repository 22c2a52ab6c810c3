//! Streams and the messages on them, and datagrams.

use bentpipe_profile::Bytes;

/// A stream, which is a connection, as one end knows it. Each end numbers its streams by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u32);

impl StreamId {
    /// Number of the first stream that the other end opened; below are those that this end opened.
    pub const ACCEPTED: u32 = 1 << 31;
}

/// A message on a stream. Its first bytes are a header with the three numbers; the rest has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Size with the header; at least [`bentpipe_profile::app::MESSAGE_HEADER`]. [`Bytes::MAX`]: it never ends.
    pub bytes: Bytes,
    /// Number given by the application, such as that of a request.
    pub id: u64,
    /// Size of the answer that the sender of the message wants [bytes]; 0: none. An answer is a message on the same stream with the same number.
    pub answer_bytes: u64,
}

/// A datagram between the two ends of a flow. It may be lost, late or before others, and nobody retransmits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// What the application reads and writes; the rest of the datagram has no meaning.
    pub content: Box<[u8]>,
    /// Size: payload of UDP [bytes], at most 65,507.
    pub bytes: u32,
}
