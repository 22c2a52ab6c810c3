//! The clock of reconfigurations that all sockets of a host share, as a program writes it while a flow lasts (`bpf/kernel/host_clock.h`).

use bentpipe_profile::{Nanos, Time};
use std::sync::Arc;

/// What a program writes to a host's clock, and when. Times are those of the controllers' calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRecord {
    /// When it is written.
    pub written: Time,
    /// Time between two reconfigurations; less than a second: none is expected.
    pub period: Nanos,
    /// Time of one of them.
    pub at: Time,
    /// End of its validity.
    pub until: Time,
}

/// One socket's reading of the records, in order of time.
#[derive(Clone, Debug)]
pub struct ClockReader {
    records: Arc<[ClockRecord]>,
    next: usize,
}

impl ClockReader {
    pub const fn new(records: Arc<[ClockRecord]>) -> Self {
        Self { records, next: 0 }
    }

    /// Returns the record in the map at `now`, if it was written since the last reading.
    pub fn read(&mut self, now: Time) -> Option<ClockRecord> {
        let count = self.records[self.next..].iter().take_while(|record| record.written <= now).count();
        self.next += count;
        (count > 0).then(|| self.records[self.next - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NAMES, reads_clock};

    const fn s(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    fn record(written: Time) -> ClockRecord {
        ClockRecord { written, period: Nanos::from_secs(15), at: s(7), until: written + Nanos::from_secs(5) }
    }

    #[test]
    fn a_socket_reads_the_newest_record_once() {
        let mut reader = ClockReader::new([1, 2, 9].map(|at| record(s(at))).into());
        let read = [0, 3, 4, 9, 10].map(|at| reader.read(s(at)).map(|record| record.written));
        assert_eq!(read, [None, Some(s(2)), None, Some(s(9)), None]);
    }

    #[test]
    fn the_clock_is_for_controllers_with_a_monitor() {
        let reading: Vec<&str> = NAMES.iter().copied().filter(|name| reads_clock(name)).collect();
        assert_eq!(reading, ["bbr3-leo", "cubic-leo"]);
    }
}
