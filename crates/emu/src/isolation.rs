//! Namespaces: a kernel network of one's own, without root where the kernel allows it.
//!
//! In order: [`isolate`] in a process with one thread; then a fork, whose child is process 1 of the new PID namespace, so that nothing outlives
//! it; there, [`set_up_init`].

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
    /// The process may make namespaces as it is.
    Own,
    /// In a user namespace of its own, with its own uid and gid mapped to themselves.
    UserNamespace,
}

/// Leaves the machine's mount and PID namespaces (children only, of the latter), if need be by a user namespace. Files and uid stay as they are.
///
/// # Errors
/// [`EmuError::Isolation`] with what to do about it.
pub fn isolate() -> Result<Privilege, EmuError> {
    let namespaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    // Root of the machine needs no user namespace; root of a container may not be allowed, then the other way is tried.
    let privilege = if geteuid().is_root() && unshare(namespaces).is_ok() {
        Privilege::Own
    } else {
        user_namespace(namespaces)?;
        Privilege::UserNamespace
    };
    // Nothing mounted here may show outside.
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

/// What keeps user namespaces away, as far as the machine tells, and the way out.
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

/// What a program inside may do beyond what its user may outside; all of it counts only within the emulation's network. To listen on ports below 1024,
/// as servers do; raw and packet sockets, as `ping` and `tcpdump` need; and to change its own network (`ip`, `tc`, `tcpdump`'s promiscuous mode).
const PROGRAM_CAPABILITIES: [Capability; 3] = [Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN];

/// In process 1 of the namespaces: dies with its parent, has its own `/proc`, and hands what of its capabilities is for them to the programs that it
/// starts ([`PROGRAM_CAPABILITIES`]).
///
/// # Errors
/// [`EmuError::System`].
pub fn set_up_init(privilege: Privilege) -> Result<(), EmuError> {
    set_pdeathsig(Signal::SIGKILL).map_err(system("PR_SET_PDEATHSIG"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if let Err(e) = mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>) {
        // Containers with masked /proc forbid it. Programs then see the outer processes' numbers; the path is the same.
        let _ = writeln!(std::io::stderr(), "bentpipe: warning: no /proc of its own ({}): tools that look at processes may err", e.desc());
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
