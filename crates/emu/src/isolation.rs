//! Namespaces: an isolated kernel network, without root where the kernel allows it.
//!
//! In order: [`isolate`] in a process with one thread; then a fork, whose child is process 1 of the new PID namespace, so that nothing outlives
//! it; and in the child, [`set_up_init`].

use crate::error::{EmuError, system};
use caps::{CapSet, Capability};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getegid, geteuid};
use std::fs;
use std::io::Write as _;

/// Whether a user namespace was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// The process may make namespaces with its own rights.
    Own,
    /// The process is in a new user namespace, with its uid and gid mapped to themselves.
    UserNamespace,
}

/// Leaves the machine's mount and PID namespaces (the latter for children only), in a user namespace if necessary. Files and uid are unchanged.
///
/// # Errors
/// [`EmuError::Isolation`] with a remedy.
pub fn isolate() -> Result<Privilege, EmuError> {
    let namespaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    // Root of the machine needs no user namespace. Root of a container may be refused, and then uses one.
    let privilege = if geteuid().is_root() && unshare(namespaces).is_ok() {
        Privilege::Own
    } else {
        user_namespace(namespaces)?;
        Privilege::UserNamespace
    };
    // Mounts inside must not propagate outside.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|e| isolation("private mounts", e.desc()))?;
    Ok(privilege)
}

fn user_namespace(namespaces: CloneFlags) -> Result<(), EmuError> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | namespaces).map_err(|e| isolation("user namespace", e.desc()))?;
    for (file, line) in [("setgroups", "deny".to_owned()), ("uid_map", format!("{uid} {uid} 1")), ("gid_map", format!("{gid} {gid} 1"))] {
        fs::write(format!("/proc/self/{file}"), line).map_err(|e| isolation("map of the user namespace", &e.to_string()))?;
    }
    Ok(())
}

fn isolation(operation: &'static str, reason: &str) -> EmuError {
    EmuError::Isolation { operation, reason: reason.to_owned(), hint: remedy() }
}

/// The remedy for refused user namespaces, by the machine's settings.
fn remedy() -> String {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned());
    if setting("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        "AppArmor restricts user namespaces here: run as root, or `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or give the program \
         an AppArmor profile with `userns,`"
            .to_owned()
    } else if setting("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        "run as root, or `sysctl kernel.unprivileged_userns_clone=1`".to_owned()
    } else if setting("user/max_user_namespaces").as_deref() == Some("0") {
        "run as root, or `sysctl user.max_user_namespaces=10000`".to_owned()
    } else if setting("user/max_net_namespaces").as_deref() == Some("0") {
        "`sysctl user.max_net_namespaces=10000`".to_owned()
    } else {
        "run as root, or on a machine (or in a container) that allows user namespaces".to_owned()
    }
}

/// Capabilities of a program inside; they are valid only in the emulation's network. Listening on ports below 1024, as servers do; raw and packet
/// sockets, as `ping` and `tcpdump` need; changing its own network (`ip`, `tc`, `tcpdump`'s promiscuous mode).
const PROGRAM_CAPABILITIES: [Capability; 3] = [Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN];

/// Sets up process 1 of the namespaces: it dies with its parent, mounts its own `/proc`, and passes [`PROGRAM_CAPABILITIES`] on to the programs that it
/// starts.
///
/// # Errors
/// [`EmuError::System`].
pub fn set_up_init(privilege: Privilege) -> Result<(), EmuError> {
    set_pdeathsig(Signal::SIGKILL).map_err(system("PR_SET_PDEATHSIG"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if let Err(e) = mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>) {
        // Containers with a masked /proc forbid it. Programs then see the PIDs outside; the path is the same.
        let _ = writeln!(
            std::io::stderr(),
            "bentpipe: warning: /proc cannot be mounted ({}): tools that read processes may show those outside",
            e.desc()
        );
    }
    if privilege == Privilege::UserNamespace {
        let failed = |e: caps::errors::CapsError| EmuError::System { operation: "ambient capabilities", source: std::io::Error::other(e) };
        let permitted = caps::read(None, CapSet::Permitted).map_err(failed)?;
        let passed_on = permitted.intersection(&PROGRAM_CAPABILITIES.into()).copied().collect();
        caps::set(None, CapSet::Inheritable, &passed_on).map_err(failed)?;
        caps::set(None, CapSet::Ambient, &passed_on).map_err(failed)?;
    }
    Ok(())
}
