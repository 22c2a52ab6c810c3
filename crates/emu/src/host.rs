//! An end host: a thread in a network namespace of its own, with a device of the relay's. What is made or started by its thread lives there.

use crate::device::{Device, Kind};
use crate::error::EmuError;
use crate::interface::{Addresses, Dropped, configure, dropped, router};
use crate::veth::Overflow;
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
pub struct Host {
    end: &'static str,
    jobs: Sender<Job>,
    device: Kind,
    overflow: Option<Overflow>,
    offload_refused: Option<String>,
}

impl Host {
    /// A host with its device up and addressed; `everywhere`: whether all destinations are behind the path, or its peer alone.
    ///
    /// # Errors
    /// [`EmuError::Isolation`], [`EmuError::Device`], [`EmuError::Interface`].
    pub fn start(end: &'static str, addresses: Addresses, mtu: u16, everywhere: bool) -> Result<(Self, Device), EmuError> {
        let (jobs, inbox) = channel::<Job>();
        let mut host = Self { end, jobs, device: Kind::Tun, overflow: None, offload_refused: None };
        let spawned = thread::Builder::new().name(end.to_owned()).spawn(move || inbox.into_iter().for_each(|job| job()));
        spawned.map_err(|source| EmuError::System { what: "thread of a host", source })?;
        let device = host.run(move || -> Result<Device, EmuError> {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| EmuError::Isolation {
                what: "network namespace",
                found: e.desc().to_owned(),
                hint: "run as root, or on a machine that allows user namespaces".to_owned(),
            })?;
            let device = Device::create(end, DEVICE, mtu, router(addresses.v4.octets()[2]))?;
            // Ping without privileges, for every group that there may be here.
            set("ipv4/ping_group_range", &format!("{0} {0}", nix::unistd::getegid()));
            set(&format!("ipv6/conf/{DEVICE}/router_solicitations"), "0");
            configure(end, DEVICE, addresses, mtu, everywhere)?;
            Ok(device)
        })?;
        host.device = device.kind();
        host.overflow = device.overflow()?;
        host.offload_refused = device.offload_refused().map(str::to_owned);
        Ok((host, device))
    }

    /// Does `job` in the host's namespace and waits for it.
    ///
    /// # Panics
    /// Where the host's thread is gone, which only a panic in it brings about.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        self.jobs.send(Box::new(move || drop(done.send(job())))).expect("the host's thread lives as long as the host");
        result.recv().expect("the host's thread answers")
    }

    /// Packets that the device lost without the relay's knowing, so far. To be asked once, while the relay has the device.
    ///
    /// # Errors
    /// [`EmuError::Interface`], [`EmuError::System`].
    pub fn dropped(&self) -> Result<Dropped, EmuError> {
        let (end, device) = (self.end, self.device);
        let interface = self.run(move || dropped(end, DEVICE, device))?;
        let overflow = self.overflow.as_ref().map_or(Ok(0), Overflow::count)?;
        Ok(Dropped { unread: interface.unread + overflow, ..interface })
    }

    /// Why its kernel may hand over packets that the relay cannot take apart; `None`: it does not.
    #[must_use]
    pub fn offload_refused(&self) -> Option<&str> {
        self.offload_refused.as_deref()
    }

    /// What the device is.
    #[must_use]
    pub const fn device(&self) -> Kind {
        self.device
    }

    /// `client` or `server`.
    #[must_use]
    pub const fn end(&self) -> &'static str {
        self.end
    }
}

/// Name of the device in both namespaces.
pub const DEVICE: &str = "bentpipe";

/// Writes a network setting of the calling thread's namespace; one that this kernel does not have, or does not let us change, stays as it is.
pub fn set(name: &str, value: &str) {
    let _ = require(name, value);
}

/// The same of one without which the hosts would not be what was asked for.
///
/// # Errors
/// [`EmuError::Isolation`].
pub fn require(name: &str, value: &str) -> Result<(), EmuError> {
    let place = format!("/proc/sys/net/{name}");
    fs::write(&place, value).map_err(|e| EmuError::Isolation {
        what: "settings of the hosts",
        found: format!("{place} = {value}: {e}"),
        hint: "use a kernel that has this setting, where /proc/sys may be written in a network namespace of one's own".to_owned(),
    })
}
