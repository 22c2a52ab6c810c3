//! The host name `server`: a modified `/etc/hosts`, mounted over the machine's inside the namespace only.

use crate::address::Addresses;
use crate::error::{EmuError, system};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, io};

const HOSTS: &str = "/etc/hosts";

/// Makes the name `server` resolve to `server`'s IPv4 address, and with `v6` to its IPv6 address. Without an `/etc/hosts` there is nothing to mount
/// over, and only the address works.
///
/// # Errors
/// [`EmuError::System`].
pub fn name_server(server: Addresses, v6: bool) -> Result<(), EmuError> {
    let before = match fs::read(HOSTS) {
        Ok(before) => before,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(system("read of /etc/hosts")(e)),
    };
    // The first match counts, so the new lines come before the machine's or an outer emulation's. The old text may have any encoding.
    let mut text = format!("{} server\n", server.v4).into_bytes();
    if v6 {
        text.extend(format!("{} server\n", server.v6).into_bytes());
    }
    text.extend(before);
    mount_over(HOSTS, &text)
}

/// The folder for temporary files, or another that nearly every machine has, since `TMPDIR` may not exist.
fn folder() -> Option<PathBuf> {
    let places = [env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/run".into(), "/mnt".into()];
    places.into_iter().find(|place| place.is_dir() && place != Path::new("/"))
}

/// Replaces the content of the file at `path`, inside the namespace only. The new file is in a tmpfs that vanishes with the mount: nothing stays on the
/// machine, and unlike an unlinked file it can be mounted over by a nested emulation.
///
/// The tmpfs is mounted over the folder for temporary files for a moment, so that a sudden end leaves no file behind.
///
/// # Errors
/// [`EmuError::System`].
pub fn mount_over(path: &str, content: &[u8]) -> Result<(), EmuError> {
    let folder = folder().ok_or_else(|| system("a folder for temporary files")(io::Error::from(io::ErrorKind::NotFound)))?;
    mount(Some("bentpipe"), &folder, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("size=1m"))
        .map_err(system("a file system of our own over the folder for temporary files"))?;
    let file = folder.join("content");
    let written = fs::write(&file, content).and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o644)));
    let over = written
        .map_err(system("a temporary file"))
        .and_then(|()| mount(Some(&file), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(system("mount over a file of /etc")));
    umount2(&folder, MntFlags::MNT_DETACH).map_err(system("umount"))?;
    over
}
