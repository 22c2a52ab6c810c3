//! Limit of file descriptors. The gateway needs two for each connection, but the soft limit is usually 1024, for programs that use `select`. So this
//! process raises its own to the hard limit, and programs inside get the original.

#![expect(unsafe_code, reason = "a child's limit is set between fork and exec, for which the standard library has an unsafe hook only")]

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

/// Original soft and hard limit.
static BEFORE: OnceLock<(u64, u64)> = OnceLock::new();

/// Raises the soft limit of this process to the hard one, if the kernel allows it.
pub fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && BEFORE.set((soft, hard)).is_ok()
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// The current soft limit.
#[must_use]
pub fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// Gives `child` the limit from before [`raise_limit`].
pub fn restore_limit(child: &mut Command) {
    if let Some(&(soft, hard)) = BEFORE.get() {
        // SAFETY: `setrlimit` is a plain system call: it allocates no memory and takes no lock.
        unsafe { child.pre_exec(move || setrlimit(Resource::RLIMIT_NOFILE, soft, hard).map_err(Into::into)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_the_original_limit() {
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
