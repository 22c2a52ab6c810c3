//! Errors of networks.

/// Why a network cannot be built or changed.
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
    /// Elements for the ends of a link that cannot have them.
    #[error("ends of link {link}: {problem}; expected {expected}")]
    Ends {
        /// Index of the link.
        link: usize,
        /// Why not.
        problem: &'static str,
        /// A link that can have them.
        expected: String,
    },
    /// Elements for the ends of a path that cannot have them.
    #[error("ends of path {path}: {problem}; expected {expected}")]
    PathEnds {
        /// Index of the path.
        path: usize,
        /// Why not.
        problem: &'static str,
        /// A path that can have them.
        expected: String,
    },
    /// Stops of a path that cannot have them.
    #[error("stops of path {path}: {problem}; expected {expected}")]
    Stops {
        /// Index of the path.
        path: usize,
        /// Why not.
        problem: &'static str,
        /// Stops that it can have.
        expected: String,
    },
}
