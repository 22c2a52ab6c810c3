//! The controllers that `bpf/` loads into a kernel, compiled for user space behind the trait of `bentpipe-cc`.
//!
//! Both sides of a twin compute in the same integers, so a hook trace recorded from one must replay on the other without a difference, call by call
//! (`tests/`). A controller of the kernel runs in the simulator, too. What a kernel adds (where the numbers of an ACK come from, how the window is applied)
//! is not in here: `bpf/kernel/`.

#[cfg(test)]
mod fixed;
#[cfg(test)]
mod give_up;
mod host_clock;
#[cfg(test)]
mod logarithm;
#[cfg(test)]
mod options;
#[cfg(test)]
mod shared_clock;
mod twin;

pub use host_clock::ClockRecord;
pub use twin::{NAMES, build, build_with_clock, reads_clock};
