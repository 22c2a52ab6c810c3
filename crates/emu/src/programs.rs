//! Programs inside: started in a host's namespace, waited for, told to stop.

use crate::descriptors::keep_limit;
use crate::error::EmuError;
use crate::host::Host;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // What a shell says of what it cannot start (POSIX.1-2024, Shell & Utilities 2.8.2).
            Self::Code(code @ 126) => write!(f, "exit code {code}: found, but cannot be executed"),
            Self::Code(code @ 127) => write!(f, "exit code {code}: not found"),
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "killed by signal {number}"),
        }
    }
}

/// Starts `command` in the host's namespace, with the caller's terminal.
///
/// # Errors
/// [`EmuError::Spawn`].
pub fn start(host: &Host, command: &[OsString], reaper: &Reaper) -> Result<Pid, EmuError> {
    let (program, arguments) = command.split_first().ok_or_else(|| EmuError::Spec("no program".to_owned()))?;
    let mut child = Command::new(program);
    child.args(arguments);
    spawn(host, child, &program.to_string_lossy(), reaper).map(|(pid, _)| pid)
}

/// Starts `child`, which errors call `name`.
pub(crate) fn spawn(host: &Host, mut child: Command, name: &str, reaper: &Reaper) -> Result<(Pid, Child), EmuError> {
    let failed = |found: String| EmuError::Spawn { program: name.to_owned(), found };
    // By the kernel's own words: io::Error would add its number.
    let words = |e: std::io::Error| e.raw_os_error().map_or_else(|| e.to_string(), |code| Errno::from_raw(code).desc().to_owned());
    keep_limit(&mut child);
    let started = host.run(move || child.spawn()).map_err(|e| failed(words(e)))?;
    let id = i32::try_from(started.id()).map_err(|e| failed(e.to_string()))?;
    reaper.expect_one();
    Ok((Pid::from_raw(id), started))
}

/// Asks a program to end.
pub fn terminate(pid: Pid) {
    let _ = kill(pid, Signal::SIGTERM); // ESRCH: it has
}

/// Waits for every child, our own and those that lost their parent inside, as process 1 must.
pub struct Reaper {
    wake: Sender<()>,
}

impl Reaper {
    /// Each ending is told to `each`.
    ///
    /// # Errors
    /// No thread left.
    pub fn start(mut each: impl FnMut(Pid, Ending) + Send + 'static) -> Result<Self, EmuError> {
        let (wake, started) = channel();
        let forever = move || {
            loop {
                match waitpid(None::<Pid>, None) {
                    Ok(WaitStatus::Exited(pid, code)) => each(pid, Ending::Code(code)),
                    Ok(WaitStatus::Signaled(pid, signal, _)) => each(pid, Ending::Signal(signal as i32)),
                    // No children. Others become ours only from a child, before it ends itself: so until one is started, there are none.
                    Err(Errno::ECHILD) if started.recv().is_err() => break,
                    _ => {}
                }
            }
        };
        let spawned = thread::Builder::new().name("reaper".to_owned()).spawn(forever);
        spawned.map_err(|source| EmuError::System { what: "thread of the reaper", source })?;
        Ok(Self { wake })
    }

    /// A child was started.
    pub(crate) fn expect_one(&self) {
        let _ = self.wake.send(()); // it waits for as long as we live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn endings_in_words() {
        assert_eq!(Ending::Code(3).to_string(), "exit code 3");
        assert_eq!(Ending::Code(127).to_string(), "exit code 127: not found");
        assert_eq!(Ending::Signal(9).to_string(), "killed by signal 9");
    }

    #[test]
    #[allow(clippy::zombie_processes)] // the reaper waits for them
    fn every_child_is_told_once_whenever_it_is_started() {
        let (told, endings) = channel();
        let reaper = Reaper::start(move |pid, ending| told.send((pid, ending)).unwrap()).unwrap();
        for code in 0..5 {
            thread::sleep(Duration::from_millis(10)); // it sleeps by now: there are no children
            let child = Command::new("/bin/sh").arg("-c").arg(format!("exit {code}")).spawn().unwrap();
            reaper.expect_one();
            let (pid, ending) = endings.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!((u32::try_from(pid.as_raw()).unwrap(), ending), (child.id(), Ending::Code(code)));
        }
    }
}
