//! How many descriptors a process may have. The gateway needs two for each connection, and the soft limit is kept low, mostly at 1024, for programs
//! that use `select`: ours is raised to the hard one, and what runs inside gets the one that it would have had.

#![expect(
    unsafe_code,
    reason = "a limit of a child's own is set between fork and exec, for which the standard library has an unsafe hook only"
)]

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

/// Soft and hard limit as they were.
static BEFORE: OnceLock<(u64, u64)> = OnceLock::new();

/// Raises the soft limit of this process to the hard one. Where the kernel refuses it stays.
pub fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && BEFORE.set((soft, hard)).is_ok()
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// How many there may be now.
#[must_use]
pub fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// Gives `child` the limit from before [`raise`].
pub fn restore_limit(child: &mut Command) {
    if let Some(&(soft, hard)) = BEFORE.get() {
        // SAFETY: `setrlimit` is a system call and nothing more: no memory is asked for, no lock taken.
        unsafe { child.pre_exec(move || setrlimit(Resource::RLIMIT_NOFILE, soft, hard).map_err(Into::into)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_the_limit_from_before() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        raise_limit();
        assert_eq!(limit(), hard);
        let mut child = Command::new("/bin/sh");
        child.args(["-c", "ulimit -Sn"]);
        restore_limit(&mut child);
        let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
        let soft = if soft == nix::libc::RLIM_INFINITY { "unlimited".to_owned() } else { soft.to_string() };
        assert_eq!(output.trim(), soft);
    }
}
