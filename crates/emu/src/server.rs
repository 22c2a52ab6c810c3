//! The server: a shell command line in the server's namespace. It has its own process group, so that Ctrl-C, which goes to the terminal's foreground
//! group, ends the program first.

use crate::error::EmuError;
use crate::host::Host;
use crate::programs::{self, ChildReaper, spawn};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Stored output of the server [bytes].
const TAIL_BYTES: usize = 4096;

/// Lines of output in an error message.
const ERROR_LINES: usize = 5;

/// Output of a server.
pub enum ServerOutput {
    /// In this file.
    Log(PathBuf),
    /// The last bytes of its standard error.
    Tail {
        /// The bytes.
        bytes: Arc<Mutex<VecDeque<u8>>>,
        /// The thread that reads them, until the last process with the pipe ends.
        reader: JoinHandle<()>,
    },
}

/// Starts a shell command line as the server; its output goes to `log`, or is discarded but for the last bytes of its standard error.
///
/// # Errors
/// [`EmuError::Spawn`].
pub fn start(host: &Host, line: &OsStr, log: Option<&Path>, reaper: &ChildReaper) -> Result<(Pid, ServerOutput), EmuError> {
    let name = line.to_string_lossy();
    let failed = |e: std::io::Error| EmuError::Spawn { program: name.clone().into_owned(), reason: e.to_string() };
    let (out, err): (Stdio, Stdio) = match log {
        Some(file) => {
            let file = File::create(file).map_err(failed)?;
            (file.try_clone().map_err(failed)?.into(), file.into())
        }
        None => (Stdio::null(), Stdio::piped()),
    };
    let mut child = Command::new("/bin/sh");
    child.arg("-c").arg(line).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let (pid, mut child) = spawn(host, child, &name, reaper)?;
    let output = match (log, child.stderr.take()) {
        (None, Some(pipe)) => capture_stderr(pipe).map_err(failed)?,
        (log, _) => ServerOutput::Log(log.map(Into::into).unwrap_or_default()),
    };
    Ok((pid, output))
}

/// The processes of a host, found by its network namespace, whatever their parents.
pub struct Processes {
    /// The network namespace's name in `/proc`; `None`: `/proc` belongs to another PID namespace.
    network: Option<PathBuf>,
}

impl Processes {
    /// The processes of `host`.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let is_own = fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == process::id().to_string().as_str());
        let network = host.run(|| fs::read_link("/proc/thread-self/ns/net").ok()).filter(|_| is_own);
        Self { network }
    }

    /// Living processes; none where `/proc` belongs to another PID namespace.
    #[must_use]
    pub fn living(&self) -> Vec<Pid> {
        let Some(network) = &self.network else { return Vec::new() };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(|id| (entry.path(), id)));
        // A zombie has no network namespace.
        let here = ids.filter(|(folder, _)| fs::read_link(folder.join("ns/net")).is_ok_and(|link| link == *network));
        here.map(|(_, id)| Pid::from_raw(id)).collect()
    }

    /// Whether no process lives; false if that is unknown.
    #[must_use]
    pub fn are_gone(&self) -> bool {
        self.network.is_some() && self.living().is_empty()
    }
}

/// Sends SIGTERM to a server's process group and to those of `others` that left the group.
pub fn terminate(server: Pid, others: &[Pid]) {
    let _ = killpg(server, Signal::SIGTERM); // ESRCH: it has ended
    let left = |pid: &Pid| getpgid(Some(*pid)).is_ok_and(|group| group != server);
    others.iter().filter(|pid| left(pid)).for_each(|&pid| programs::terminate(pid));
}

fn capture_stderr(mut pipe: ChildStderr) -> std::io::Result<ServerOutput> {
    let bytes = Arc::new(Mutex::new(VecDeque::with_capacity(2 * TAIL_BYTES)));
    let tail = Arc::clone(&bytes);
    let read = move || {
        let mut piece = [0; TAIL_BYTES];
        loop {
            match pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => {
                    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                    tail.extend(&piece[..n]);
                    let over = tail.len().saturating_sub(TAIL_BYTES);
                    tail.drain(..over);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    };
    let reader = thread::Builder::new().name("server stderr".to_owned()).spawn(read)?;
    Ok(ServerOutput::Tail { bytes, reader })
}

impl ServerOutput {
    /// The last lines as the end of an error message: `; its output: …`, or nothing.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let bytes = match self {
            Self::Log(file) => read_tail(file).unwrap_or_default(),
            Self::Tail { bytes, reader } => {
                // The process has ended; its output may still be in the pipe.
                let began = Instant::now();
                while !reader.is_finished() && began.elapsed() < Duration::from_millis(200) {
                    thread::sleep(Duration::from_millis(5));
                }
                bytes.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
            }
        };
        let text = in_one_line(&bytes);
        if text.is_empty() { text } else { format!("; its output: {text}") }
    }
}

fn read_tail(file: &PathBuf) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES as u64)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The last non-empty lines, without control characters, which could colour or clear the terminal.
fn in_one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = text.lines().map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>());
    let lines: Vec<String> = clean.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(ERROR_LINES)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_lines_are_joined() {
        assert_eq!(in_one_line(b"1\n2\n\n3\n4\n\x1b[31m5\n 6 \n"), "2 / 3 / 4 / [31m5 / 6");
        assert_eq!(in_one_line(b""), "");
    }

    proptest! {
        #[test]
        fn any_output_becomes_one_line(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(!in_one_line(&bytes).contains(char::is_control));
        }
    }
}
