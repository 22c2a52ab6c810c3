//! Errors of networks.

/// Why Profiles cannot form one network.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// Two hops with one shared id differ in capacity or queue.
    #[error("shared id {id:?}: hops differ in capacity or queue ({direction}); expected the same in every Profile that shares the hop")]
    SharedDiffers {
        /// The shared id.
        id: String,
        /// The direction in which they differ.
        direction: &'static str,
    },
    /// A handover or outage of one user would strike the queue that all users share.
    #[error("hop {hop:?} is shared ({id:?}) and events strike it; expected a shared hop that no handover or outage names")]
    SharedWithEvents {
        /// The hop.
        hop: String,
        /// Its shared id.
        id: String,
    },
    /// More Profiles, hops or routes than the index fields of a packet can hold.
    #[error("{items}: {count} given; expected at most {max}")]
    TooMany {
        /// Profiles, hops or routes.
        items: &'static str,
        /// How many there are.
        count: usize,
        /// The limit.
        max: usize,
    },
}
