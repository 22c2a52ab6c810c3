//! Closes and opens a hop: handovers and outages.

use bentpipe_profile::Time;

/// Until when a hop sends nothing. Closings may overlap; the latest end counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate {
    closed_until: Time,
}

impl Gate {
    /// Closes until `until`.
    pub fn close(&mut self, until: Time) {
        self.closed_until = self.closed_until.max(until);
    }

    /// When something that is ready at `ready` may begin.
    #[must_use]
    pub fn opens(&self, ready: Time) -> Time {
        ready.max(self.closed_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_closing_counts() {
        let mut gate = Gate::default();
        gate.close(Time(50));
        gate.close(Time(20));
        assert_eq!(gate.opens(Time(10)), Time(50));
        assert_eq!(gate.opens(Time(60)), Time(60));
    }
}
