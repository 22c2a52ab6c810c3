//! Transfers of given sizes, each over a connection of its own.

use crate::actions::{Actions, Item};
use crate::app::{App, Event, Interest};
use crate::message::Message;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Bytes, Nanos, Time};

/// A sender that opens a connection per transfer: one after the other, at constant intervals, or as a Poisson process.
pub struct Transfers {
    sizes: Vec<Bytes>,
    /// Number of transfers; `None`: no limit.
    count: Option<u64>,
    /// Time between two starts; `None`: each starts when the one before it is delivered.
    every: Option<Nanos>,
    /// Random draws of a Poisson process; `None`: the times are constant.
    draws: Option<Stream>,
    next: u64,
    /// When the next transfer at an interval is due: a timer that is late delays no others.
    due: Option<Time>,
}

impl Transfers {
    /// Create a sender of transfers; `sizes` are used in turn.
    #[must_use]
    pub const fn new(sizes: Vec<Bytes>, count: Option<u64>, every: Option<Nanos>, draws: Option<Stream>) -> Self {
        Self { sizes, count, every, draws, next: 0, due: None }
    }

    fn begin(&mut self, now: Time, actions: &mut Actions) {
        let id = self.next;
        self.next += 1;
        #[allow(clippy::cast_possible_truncation)] // below the number of sizes
        let bytes = self.sizes[(id % self.sizes.len() as u64) as usize];
        let stream = actions.open();
        actions.write(stream, Message { bytes, id, answer_bytes: 0 });
        actions.close(stream);
        actions.record(Item { id, kind: Some("transfer".into()), start: Some(now), bytes: Some(bytes), ..Item::default() });
        if self.is_last() {
            actions.finish();
        } else if let Some(every) = self.every {
            let due = self.due.unwrap_or(now) + self.gap(every);
            self.due = Some(due);
            actions.set_timer(due, self.next);
        }
    }

    fn is_last(&self) -> bool {
        self.count.is_some_and(|count| self.next >= count)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 37 times the mean
    fn gap(&mut self, mean: Nanos) -> Nanos {
        self.draws.as_mut().map_or(mean, |draws| Nanos(draws.exponential(mean.0 as f64) as u64))
    }
}

impl App for Transfers {
    fn interest(&self) -> Interest {
        Interest { delivered: self.every.is_none() && self.count != Some(1), ..Interest::default() }
    }

    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match event {
            Event::Started | Event::Timer(_) => self.begin(now, actions),
            Event::Delivered(_) if !self.is_last() => self.begin(now, actions),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drive, opened, written};
    use bentpipe_profile::Streams;

    #[test]
    fn sizes_are_used_in_turn_and_the_last_transfer_finishes() {
        let mut app = Transfers::new(vec![Bytes(100), Bytes(2000)], Some(3), None, None);
        let mut actions = Actions::default();
        let mut all = drive(&mut app, &mut actions, 0, &Event::Started);
        assert_eq!((opened(&all), written(&all)), (1, vec![100]));
        for at in 1..4 {
            all = drive(&mut app, &mut actions, at, &Event::Delivered(crate::StreamId(0)));
        }
        assert!(all.is_empty(), "three were all");
        assert_eq!(app.next, 3);
    }

    #[test]
    fn a_poisson_process_has_the_given_mean() {
        let mut app = Transfers::new(vec![Bytes(100)], None, Some(Nanos::from_millis(10)), Some(Streams::new(1).stream("app")));
        let mean = (0..10_000).map(|_| app.gap(Nanos::from_millis(10)).0).sum::<u64>() / 10_000;
        assert!((9_700_000..10_300_000).contains(&mean), "{mean}");
    }
}
