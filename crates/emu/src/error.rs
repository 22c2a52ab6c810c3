//! What can go wrong, one line each.

use std::io;

/// Anything that keeps an emulation from starting or going on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmuError {
    /// The kernel refuses user or network namespaces.
    #[error("{what}: the kernel refuses it ({found}); {hint}")]
    Isolation {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        found: String,
        /// What to do.
        hint: String,
    },
    /// Neither kind of device.
    #[error(
        "no device for the path: /dev/net/tun: {tun}; {veth}; wanted one of them: load a module (`modprobe tun` or `modprobe veth`), or make \
         /dev/net/tun readable and writable for you"
    )]
    Device {
        /// What the kernel said of a TUN device.
        tun: String,
        /// … and of a veth pair.
        veth: String,
    },
    /// Addresses, routes, socket tables.
    #[error("network of the {end} namespace: {what}: {found}")]
    Interface {
        /// `client` or `server`.
        end: &'static str,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        found: String,
    },
    /// A program that does not start.
    #[error("{program}: cannot start it: {found}")]
    Spawn {
        /// Its first word.
        program: String,
        /// What the kernel said.
        found: String,
    },
    /// A server that does not listen.
    #[error("--server {program:?}: {found}")]
    Server {
        /// As given.
        program: String,
        /// What happened.
        found: String,
    },
    /// A congestion controller that the gateway cannot have.
    #[error("--gateway-cc {name}: {found}; wanted one of /proc/sys/net/ipv4/tcp_available_congestion_control")]
    Controller {
        /// As given.
        name: String,
        /// What the kernel said.
        found: String,
    },
    /// A capture that cannot be written.
    #[error("--capture: {file}: {found}")]
    Capture {
        /// Which file.
        file: String,
        /// What the kernel said.
        found: String,
    },
    /// A flow of a race that could not run.
    #[error("a flow with {controller}: {found}")]
    Flow {
        /// Its controller.
        controller: String,
        /// What the kernel said.
        found: String,
    },
    /// The device was taken away, or set down.
    #[error(
        "the path's device `bentpipe` in the {end}'s namespace is gone, or down ({found}); wanted it up to the end: what runs there is to leave it as it is"
    )]
    DeviceGone {
        /// `client` or `server`.
        end: &'static str,
        /// What the kernel said.
        found: io::Error,
    },
    /// What cannot be, and was.
    #[error("a fault of bentpipe's own: {0}; please report it, with the command")]
    Internal(&'static str),
    /// What the parent sent.
    #[error("the emulation's specification: {0}")]
    Spec(String),
    /// The Profile cannot be a network.
    #[error(transparent)]
    Network(#[from] bentpipe_link::NetworkError),
    /// The Profile is not one.
    #[error(transparent)]
    Profile(#[from] bentpipe_profile::ProfileError),
    /// A system call of the relay.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The parent is gone: nobody is left to hear more.
    #[error("the parent process is gone")]
    Orphaned,
}

impl EmuError {
    /// Whether whoever asked can put it right: the machine's settings, the program's name.
    #[must_use]
    pub const fn is_users(&self) -> bool {
        matches!(
            self,
            Self::Isolation { .. }
                | Self::Device { .. }
                | Self::Spawn { .. }
                | Self::Server { .. }
                | Self::Controller { .. }
                | Self::Capture { .. }
                | Self::DeviceGone { .. }
                | Self::Network(_)
                | Self::Profile(_)
        )
    }
}

/// For `map_err` on system calls.
pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> EmuError {
    move |source| EmuError::System { what, source: source.into() }
}
