//! Errors of the emulator; each prints as one line.

use std::io;

/// Why an emulation cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmuError {
    /// The kernel refuses user or network namespaces.
    #[error("{operation}: the kernel refuses it ({reason}); {hint}")]
    Isolation {
        /// The operation.
        operation: &'static str,
        /// The error.
        reason: String,
        /// The remedy.
        hint: String,
    },
    /// Neither a TUN device nor a veth pair can be created.
    #[error(
        "no device for the path: /dev/net/tun: {tun}; {veth}; expected one of them; try to load a module (`modprobe tun` or `modprobe veth`), or to make \
         /dev/net/tun readable and writable for you"
    )]
    Device {
        /// The kernel's error for a TUN device.
        tun: String,
        /// The kernel's error for a veth pair.
        veth: String,
    },
    /// Addresses, routes or socket tables could not be set or read.
    #[error("network of the {end} namespace: {operation}: {reason}")]
    Interface {
        /// `client` or `server`.
        end: &'static str,
        /// The operation.
        operation: &'static str,
        /// The error.
        reason: String,
    },
    /// A program did not start.
    #[error("{program}: cannot start it: {reason}")]
    Spawn {
        /// Its name.
        program: String,
        /// The error.
        reason: String,
    },
    /// The server does not listen.
    #[error("--server {program:?}: {reason}")]
    Server {
        /// Its command line.
        program: String,
        /// Why not.
        reason: String,
    },
    /// The kernel does not have the gateway's congestion controller.
    #[error("--gateway-cc {name}: {reason}; expected one of /proc/sys/net/ipv4/tcp_available_congestion_control")]
    Controller {
        /// Its name.
        name: String,
        /// The error.
        reason: String,
    },
    /// The capture cannot be written.
    #[error("--capture: {file}: {reason}")]
    Capture {
        /// Its path.
        file: String,
        /// The error.
        reason: String,
    },
    /// A flow of a race failed.
    #[error("a flow with {controller}: {reason}")]
    Flow {
        /// Its controller.
        controller: String,
        /// The error.
        reason: String,
    },
    /// An application asked for something impossible.
    #[error(transparent)]
    Misuse(#[from] bentpipe_apps::Misuse),
    /// An application in Python failed.
    #[error("{0}")]
    App(String),
    /// The path's device was removed or set down.
    #[error(
        "the path's device `bentpipe` in the {end}'s namespace is gone, or down ({reason}); expected it up to the end; try not to change it from a program inside"
    )]
    DeviceGone {
        /// `client` or `server`.
        end: &'static str,
        /// The error.
        reason: io::Error,
    },
    /// A bug in bentpipe.
    #[error("a fault of bentpipe's own: {0}; please report it, with the command")]
    Internal(&'static str),
    /// The parent's request is malformed.
    #[error("the emulation's specification: {0}")]
    Spec(String),
    /// The Profile or the request cannot be run on nodes.
    #[error("--nodes: {problem}; expected {expected}")]
    Nodes {
        /// What is wrong.
        problem: String,
        /// What would do.
        expected: &'static str,
    },
    /// A node's process ended, or failed.
    #[error("node {node}: {reason}")]
    Node {
        /// Its name.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The Profile does not make a network.
    #[error(transparent)]
    Network(#[from] bentpipe_link::NetworkError),
    /// The recovery scheme does not exist, or not so.
    #[error(transparent)]
    Recovery(#[from] bentpipe_recovery::registry::SchemeError),
    /// The Profile is not valid.
    #[error(transparent)]
    Profile(#[from] bentpipe_profile::ProfileError),
    /// A system call failed.
    #[error("{operation}: {source}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The parent process ended.
    #[error("the parent process is gone")]
    Orphaned,
}

impl EmuError {
    /// Who can fix it: `user` (the machine's settings, the program's name), `app` (the author of an application in Python) or `emulator`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::App(_) | Self::Misuse(_) => "app",
            Self::Isolation { .. }
            | Self::Device { .. }
            | Self::Spawn { .. }
            | Self::Server { .. }
            | Self::Controller { .. }
            | Self::Capture { .. }
            | Self::DeviceGone { .. }
            | Self::Network(_)
            | Self::Nodes { .. }
            | Self::Recovery(_)
            | Self::Profile(_) => "user",
            Self::Interface { .. }
            | Self::Node { .. }
            | Self::Flow { .. }
            | Self::Internal(_)
            | Self::Spec(_)
            | Self::System { .. }
            | Self::Orphaned => "emulator",
        }
    }
}

/// Returns a function for `map_err` on the result of a system call.
pub(crate) fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> EmuError {
    move |source| EmuError::System { operation, source: source.into() }
}
