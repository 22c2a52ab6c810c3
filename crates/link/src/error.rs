//! Errors of networks.

/// Why a network cannot be built.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// More paths, links, hops or routes than the index fields can hold.
    #[error("{items}: {count} given; expected at most {max}")]
    TooMany {
        /// Paths, links, hops or routes.
        items: &'static str,
        /// How many there are.
        count: usize,
        /// The limit.
        max: usize,
    },
}
