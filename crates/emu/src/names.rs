//! The name `server`: an `/etc/hosts` of the emulation's own, mounted over the machine's inside the namespace only.

use crate::error::{EmuError, system};
use crate::interface::Addresses;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, io};

const HOSTS: &str = "/etc/hosts";

/// Makes `server` resolve to `server`; `v6`: also to its address of IPv6. Where the machine has no `/etc/hosts` there is nothing to mount over, and
/// the address must do.
///
/// # Errors
/// [`EmuError::System`].
pub fn name_server(server: Addresses, v6: bool) -> Result<(), EmuError> {
    let before = match fs::read(HOSTS) {
        Ok(before) => before,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(system("read of /etc/hosts")(e)),
    };
    // The first match counts: ours goes before what the machine, or an outer emulation, has; that may be text of any encoding.
    let mut text = format!("{} server\n", server.v4).into_bytes();
    if v6 {
        text.extend(format!("{} server\n", server.v6).into_bytes());
    }
    text.extend(before);
    mount_over(HOSTS, &text)
}

/// The folder for temporary files; else one that there is on nearly every machine, since `TMPDIR` may name what is gone.
fn folder() -> Option<PathBuf> {
    let places = [env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/run".into(), "/mnt".into()];
    places.into_iter().find(|place| place.is_dir() && place != Path::new("/"))
}

/// Gives the file at `path` another content, inside the namespace only. It lies in a file system of its own that vanishes with the mount: the
/// machine is left nothing, and unlike an unlinked file it can be mounted over again by an emulation inside this one.
///
/// That file system stands, for the moment that it takes, over the folder for temporary files: so nothing need be made there that a sudden end would
/// leave behind.
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
