//! Interruptions of a hop by handovers and outages.

use bentpipe_profile::Time;

/// The end of a hop's interruption. Interruptions may overlap: the latest end counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate {
    closed_until: Time,
}

impl Gate {
    /// Interrupt the hop until `until`.
    pub fn close(&mut self, until: Time) {
        self.closed_until = self.closed_until.max(until);
    }

    /// Return when a transmission that is ready at `ready` may begin.
    #[must_use]
    pub fn earliest_start(&self, ready: Time) -> Time {
        ready.max(self.closed_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_interruptions_end_with_the_latest() {
        let mut gate = Gate::default();
        gate.close(Time(50));
        gate.close(Time(20));
        assert_eq!(gate.earliest_start(Time(10)), Time(50));
        assert_eq!(gate.earliest_start(Time(60)), Time(60));
    }
}
