//! Network settings of the calling thread's namespace (`/proc/sys/net`).

use crate::error::EmuError;
use std::fs;

/// Writes a network setting of the calling thread's namespace; ignores a setting that is missing or read-only.
pub fn try_set_sysctl(name: &str, value: &str) {
    let _ = set_sysctl(name, value);
}

/// Writes a network setting of the calling thread's namespace, which the request needs.
///
/// # Errors
/// [`EmuError::Isolation`].
pub fn set_sysctl(name: &str, value: &str) -> Result<(), EmuError> {
    let place = format!("/proc/sys/net/{name}");
    fs::write(&place, value).map_err(|e| EmuError::Isolation {
        operation: "settings of the hosts",
        reason: format!("{place} = {value}: {e}"),
        hint: "use a kernel that has this setting, where /proc/sys may be written in a network namespace of its own".to_owned(),
    })
}
