//! An end host: a thread in its own network namespace, with one of the relay's devices. Sockets and processes made by the thread live there.

use crate::address::{Addresses, router};
use crate::device::Device;
use crate::error::EmuError;
use crate::interface::{Dropped, Kind, configure, dropped};
use crate::sysctl::{set_sysctl, try_set_sysctl};
use crate::veth::DropCounter;
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
    overflow: Option<DropCounter>,
    offload_refused: Option<String>,
    qdisc: String,
}

impl Host {
    /// Starts a host and configures its device. `has_default_route`: whether all destinations are behind the path, or its peer alone.
    ///
    /// # Errors
    /// [`EmuError::Isolation`], [`EmuError::Device`], [`EmuError::Interface`].
    pub fn start(end: &'static str, addresses: Addresses, mtu: u16, has_default_route: bool) -> Result<(Self, Device), EmuError> {
        let (jobs, job_queue) = channel::<Job>();
        let mut host = Self { end, jobs, device: Kind::Tun, overflow: None, offload_refused: None, qdisc: String::new() };
        let spawned = thread::Builder::new().name(end.to_owned()).spawn(move || job_queue.into_iter().for_each(|job| job()));
        spawned.map_err(|source| EmuError::System { operation: "thread of a host", source })?;
        let (device, qdisc) = host.run(move || -> Result<(Device, String), EmuError> {
            enter_network_namespace()?;
            let device = Device::create(end, DEVICE, mtu, router(addresses.v4.octets()[2]))?;
            // Unprivileged ping, for the only group inside.
            try_set_sysctl("ipv4/ping_group_range", &format!("{0} {0}", nix::unistd::getegid()));
            try_set_sysctl(&format!("ipv6/conf/{DEVICE}/router_solicitations"), "0");
            let qdisc = configure(end, (DEVICE, device.kind()), addresses, mtu, has_default_route)?;
            Ok((device, qdisc))
        })?;
        host.device = device.kind();
        host.overflow = device.overflow()?;
        host.offload_refused = device.offload_refused().map(str::to_owned);
        host.qdisc = qdisc;
        Ok((host, device))
    }

    /// Adds the device of a path beside the first, to its peer alone.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn add_path(&self, addresses: Addresses, mtu: u16) -> Result<Device, EmuError> {
        let end = self.end;
        self.run(move || {
            let device = Device::create(end, BESIDE, mtu, router(addresses.v4.octets()[2]))?;
            try_set_sysctl(&format!("ipv6/conf/{BESIDE}/router_solicitations"), "0");
            configure(end, (BESIDE, device.kind()), addresses, mtu, false)?;
            Ok(device)
        })
    }

    /// Runs `job` in the host's namespace and waits for it.
    ///
    /// # Panics
    /// If the host's thread has panicked.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        self.jobs.send(Box::new(move || drop(done.send(job())))).expect("the host's thread lives as long as the host");
        result.recv().expect("the host's thread answers")
    }

    /// Packets that the device has dropped without an error to the relay. Call it once, while the relay has the device.
    ///
    /// # Errors
    /// [`EmuError::Interface`], [`EmuError::System`].
    pub fn dropped(&self) -> Result<Dropped, EmuError> {
        let (end, device) = (self.end, self.device);
        let interface = self.run(move || dropped(end, DEVICE, device))?;
        let overflow = self.overflow.as_ref().map_or(Ok(0), DropCounter::count)?;
        Ok(Dropped { unread: interface.unread + overflow, ..interface })
    }

    /// Datagrams that arrived at programs here, and were dropped at full receive buffers; 0 where the kernel does not say.
    #[must_use]
    pub fn datagrams_unread(&self) -> u64 {
        self.run(|| {
            let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
            receive_buffer_errors(&read("snmp"), &read("snmp6"))
        })
    }

    /// Why unsupported offloads could not be disabled; `None`: they are disabled.
    #[must_use]
    pub fn offload_refused(&self) -> Option<&str> {
        self.offload_refused.as_deref()
    }

    /// The device's queueing discipline, by its kernel name.
    #[must_use]
    pub fn qdisc(&self) -> &str {
        &self.qdisc
    }

    /// The kind of device.
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

/// Return `RcvbufErrors` of UDP: `snmp` has a line of names and one of values for each protocol, `snmp6` one name and value a line.
fn receive_buffer_errors(snmp: &str, snmp6: &str) -> u64 {
    let mut udp = snmp.lines().filter_map(|line| line.strip_prefix("Udp:")).map(str::split_whitespace);
    let (names, values) = (udp.next().into_iter().flatten(), udp.next().into_iter().flatten());
    let four = names.zip(values).find(|(name, _)| *name == "RcvbufErrors").map(|(_, value)| value);
    let six = snmp6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors")).map(str::trim);
    [four, six].into_iter().flatten().filter_map(|value| value.parse::<u64>().ok()).sum()
}

/// Buckets of a host's TCP hash table. Each dump of the socket table walks all of them, ten times a second. The machine's own table has hundreds of
/// thousands (262,144 at 24 GiB), where four walks take 2 ms. Chosen here: four for each numbered connection ([`crate::flows`]).
const EHASH_ENTRIES: &str = "16384";

/// Settings that the kernel derives from the table's size (`tcp_set_hashinfo` in `net/ipv4/tcp_ipv4.c`); they are restored to the usual values.
const DERIVED: [&str; 2] = ["ipv4/tcp_max_tw_buckets", "ipv4/tcp_max_syn_backlog"];

/// Moves the calling thread to a new network namespace, with a small TCP hash table where the kernel supports that (Linux 6.1). The setting belongs to
/// the parent namespace, so there is an intermediate one.
fn enter_network_namespace() -> Result<(), EmuError> {
    let enter = || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| EmuError::Isolation {
            operation: "network namespace",
            reason: e.desc().to_owned(),
            hint: "run as root, or on a machine that allows user namespaces".to_owned(),
        })
    };
    enter()?;
    if set_sysctl("ipv4/tcp_child_ehash_entries", EHASH_ENTRIES).is_ok() {
        let usual = DERIVED.map(|name| fs::read_to_string(format!("/proc/sys/net/{name}")));
        enter()?;
        for (name, value) in DERIVED.into_iter().zip(usual) {
            if let Ok(value) = value {
                try_set_sysctl(name, value.trim());
            }
        }
    }
    Ok(())
}

/// Name of the device in both namespaces.
pub const DEVICE: &str = "bentpipe";

/// Name of the device of a path beside it.
pub const BESIDE: &str = "bentpipe1";

#[cfg(test)]
mod tests {
    use super::receive_buffer_errors;

    #[test]
    fn drops_at_full_buffers_are_those_of_both_protocols() {
        let snmp = "Ip: A\nIp: 9\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 5 0 3 7 3\nUdpLite: RcvbufErrors\nUdpLite: 8\n";
        let snmp6 = "Udp6InDatagrams    \t4\nUdp6RcvbufErrors   \t11\n";
        assert_eq!(receive_buffer_errors(snmp, snmp6), 14);
        assert_eq!(receive_buffer_errors("", snmp6), 11);
        assert_eq!(receive_buffer_errors(snmp, ""), 3);
        assert_eq!(receive_buffer_errors("Udp: RcvbufErrors\nUdp: x\n", "Udp6RcvbufErrors"), 0);
    }
}
