//! Programs inside: started in a host's namespace, waited for, told to stop.

use crate::error::EmuError;
use crate::host::Host;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::Serialize;
use std::fs::File;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Starts `command` in the host's namespace, with the caller's terminal.
///
/// # Errors
/// [`EmuError::Spawn`].
pub fn start(host: &Host, command: &[String]) -> Result<Pid, EmuError> {
    let (program, arguments) = command.split_first().ok_or_else(|| EmuError::Spec("no program".to_owned()))?;
    let mut child = Command::new(program);
    child.args(arguments);
    spawn(host, child, program)
}

/// Starts a line of shell as the server; what it prints goes to `log`, or nowhere.
///
/// # Errors
/// [`EmuError::Spawn`].
pub fn start_server(host: &Host, line: &str, log: Option<&str>) -> Result<Pid, EmuError> {
    let failed = |e: std::io::Error| EmuError::Spawn { program: line.to_owned(), found: e.to_string() };
    let (out, err): (Stdio, Stdio) = match log {
        Some(file) => {
            let file = File::create(file).map_err(failed)?;
            (file.try_clone().map_err(failed)?.into(), file.into())
        }
        None => (Stdio::null(), Stdio::null()),
    };
    let mut child = Command::new("/bin/sh");
    child.arg("-c").arg(line).stdin(Stdio::null()).stdout(out).stderr(err);
    spawn(host, child, line)
}

fn spawn(host: &Host, mut child: Command, name: &str) -> Result<Pid, EmuError> {
    let started = host.run(move || child.spawn().map(|child| child.id()));
    let failed = |found: String| EmuError::Spawn { program: name.to_owned(), found };
    let id = started.map_err(|e| failed(e.to_string()))?;
    Ok(Pid::from_raw(i32::try_from(id).map_err(|e| failed(e.to_string()))?))
}

/// Waits for every child, our own and those that lost their parent inside, as process 1 must; each ending is told.
///
/// # Errors
/// No thread left.
pub fn reap(mut each: impl FnMut(Pid, Ending) + Send + 'static) -> Result<(), EmuError> {
    let forever = move || {
        loop {
            match waitpid(None::<Pid>, None) {
                Ok(WaitStatus::Exited(pid, code)) => each(pid, Ending::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => each(pid, Ending::Signal(signal as i32)),
                Err(Errno::ECHILD) => thread::sleep(Duration::from_millis(2)),
                _ => {}
            }
        }
    };
    let spawned = thread::Builder::new().name("reaper".to_owned()).spawn(forever);
    spawned.map(drop).map_err(|source| EmuError::System { what: "thread of the reaper", source })
}

/// Asks a program to end.
pub fn terminate(pid: Pid) {
    let _ = kill(pid, Signal::SIGTERM); // ESRCH: it has
}
