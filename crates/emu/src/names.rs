//! The name `server`: an `/etc/hosts` of the emulation's own, mounted over the machine's inside the namespace only.

use crate::error::{EmuError, system};
use crate::interface::Addresses;
use nix::mount::{MsFlags, mount};
use nix::unistd::{mkstemp, unlink};
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

const HOSTS: &str = "/etc/hosts";

/// Makes `server` resolve to `server`. Where the machine has no `/etc/hosts` there is nothing to mount over, and the address must do.
///
/// # Errors
/// [`EmuError::System`].
pub fn name_server(server: Addresses) -> Result<(), EmuError> {
    let Ok(before) = fs::read_to_string(HOSTS) else { return Ok(()) };
    // The first match counts: ours goes before what the machine, or an outer emulation, has.
    let text = format!("{} server\n{} server\n{before}", server.v4, server.v6);
    let template = std::env::temp_dir().join("bentpipe-hosts-XXXXXX");
    let (fd, file) = mkstemp(&template).map_err(system("a temporary file"))?;
    let mut hosts = File::from(fd);
    let written = hosts.write_all(text.as_bytes()).and_then(|()| hosts.set_permissions(Permissions::from_mode(0o644)));
    let written = written.map_err(system("a temporary file"));
    let mounted = mount(Some(&file), HOSTS, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(system("mount over /etc/hosts"));
    // The mount keeps the content; nothing is left behind.
    unlink(&file).map_err(system("a temporary file"))?;
    written.and(mounted)
}
