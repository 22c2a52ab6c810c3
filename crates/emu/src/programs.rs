//! Processes inside the emulation: start them in a host's namespace, reap them, signal them.

use crate::descriptors::restore_limit;
use crate::error::EmuError;
use crate::host::Host;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // Exit codes of a shell that cannot start a command (POSIX.1-2024, Shell & Utilities 2.8.2).
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
pub fn start(host: &Host, command: &[OsString], reaper: &ChildReaper) -> Result<Pid, EmuError> {
    let (program, arguments) = command.split_first().ok_or(EmuError::Internal("no program to start"))?;
    let mut child = Command::new(program);
    child.args(arguments);
    spawn(host, child, &program.to_string_lossy(), reaper).map(|(pid, _)| pid)
}

/// Starts `child`; `name` is its name in errors.
pub(crate) fn spawn(host: &Host, mut child: Command, name: &str, reaper: &ChildReaper) -> Result<(Pid, Child), EmuError> {
    let failed = |reason: String| EmuError::Spawn { program: name.to_owned(), reason };
    // The kernel's message alone: io::Error would append its number.
    let describe = |e: std::io::Error| e.raw_os_error().map_or_else(|| e.to_string(), |code| Errno::from_raw(code).desc().to_owned());
    restore_limit(&mut child);
    let starting = Arc::clone(&reaper.starting);
    let started = host.run(move || start_child(&starting, &mut child)).map_err(|e| failed(describe(e)))?;
    let id = i32::try_from(started.id()).map_err(|e| failed(e.to_string()))?;
    reaper.notify_started();
    Ok((Pid::from_raw(id), started))
}

/// Starts a child while the reaper is paused: `spawn` itself reaps a child that could not be executed.
fn start_child(starting: &Mutex<()>, child: &mut Command) -> io::Result<Child> {
    let _guard = starting.lock().unwrap_or_else(PoisonError::into_inner);
    child.spawn()
}

/// Sends SIGTERM to a process.
pub fn terminate(pid: Pid) {
    let _ = kill(pid, Signal::SIGTERM); // ESRCH: it has ended
}

/// Reaps every child, including orphans in the PID namespace, as process 1 must.
pub struct ChildReaper {
    started: Sender<()>,
    /// Held while a child is started.
    starting: Arc<Mutex<()>>,
}

impl ChildReaper {
    /// Starts the reaper's thread, which calls `on_exit` for each ended child.
    ///
    /// # Errors
    /// No thread left.
    pub fn start(mut on_exit: impl FnMut(Pid, ExitReason) + Send + 'static) -> Result<Self, EmuError> {
        let (started, child_started) = channel();
        let starting = Arc::new(Mutex::new(()));
        let held = Arc::clone(&starting);
        let reap = move |pid| {
            let _guard = held.lock().unwrap_or_else(PoisonError::into_inner);
            waitpid(pid, Some(WaitPidFlag::WNOHANG)) // ECHILD: `spawn` has reaped it
        };
        let reap_forever = move || {
            loop {
                // WNOWAIT: `spawn` may have to reap this child itself.
                match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                    Ok(ended) => match ended.pid().map(&reap) {
                        Some(Ok(WaitStatus::Exited(pid, code))) => on_exit(pid, ExitReason::Code(code)),
                        Some(Ok(WaitStatus::Signaled(pid, signal, _))) => on_exit(pid, ExitReason::Signal(signal as i32)),
                        _ => {}
                    },
                    // No children. Orphans come only from a living child, so there are none until one is started.
                    Err(Errno::ECHILD) if child_started.recv().is_err() => break,
                    _ => {}
                }
            }
        };
        let spawned = thread::Builder::new().name("reaper".to_owned()).spawn(reap_forever);
        spawned.map_err(|source| EmuError::System { operation: "thread of the reaper", source })?;
        Ok(Self { started, starting })
    }

    /// Tells the reaper that a child was started.
    pub(crate) fn notify_started(&self) {
        let _ = self.started.send(()); // the reaper's thread lives as long as the process
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn exit_reasons_are_described() {
        assert_eq!(ExitReason::Code(3).to_string(), "exit code 3");
        assert_eq!(ExitReason::Code(127).to_string(), "exit code 127: not found");
        assert_eq!(ExitReason::Signal(9).to_string(), "killed by signal 9");
    }

    /// A single test, since a process can have one reaper only. `spawn` itself reaps a child that could not be executed, and panics if it was reaped.
    #[test]
    #[allow(clippy::zombie_processes)] // the reaper waits for them
    fn every_started_child_is_reported_once_and_failed_spawns_never() {
        let (sender, endings) = channel();
        let reaper = ChildReaper::start(move |pid, ending| sender.send((pid, ending)).unwrap()).unwrap();
        let start = |program: &str, arguments: &[&str]| {
            let mut child = Command::new(program);
            child.args(arguments);
            restore_limit(&mut child);
            start_child(&reaper.starting, &mut child)
        };
        let next_exit = || {
            let (pid, ending) = endings.recv_timeout(Duration::from_secs(30)).unwrap();
            (pid.as_raw().cast_unsigned(), ending)
        };
        for code in 0..5 {
            thread::sleep(Duration::from_millis(10)); // the reaper sleeps now: there are no children
            let child = start("/bin/sh", &["-c", &format!("exit {code}")]).unwrap();
            reaper.notify_started();
            assert_eq!(next_exit(), (child.id(), ExitReason::Code(code)));
        }
        let other = start("/bin/sleep", &["60"]).unwrap();
        reaper.notify_started(); // so that it keeps waiting
        for _ in 0..300 {
            assert_eq!(start("/no/such/program", &[]).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        terminate(Pid::from_raw(i32::try_from(other.id()).unwrap()));
        assert_eq!(next_exit(), (other.id(), ExitReason::Signal(15)));
        assert!(endings.try_recv().is_err(), "nothing else ended");
    }
}
