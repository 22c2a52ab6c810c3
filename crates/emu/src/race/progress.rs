//! What the two ends of a flow report while they run.

use bentpipe_apps::{Item, Misuse, items};
use bentpipe_profile::Time;
use bentpipe_profile::run::{Row, RunSink, RunTables};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The items of all flows, which their threads record.
pub type SharedItems = Arc<Mutex<Items>>;

/// The items of all flows.
#[derive(Debug, Default)]
pub struct Items {
    /// The Run's tables, of which only `applications` has rows.
    pub tables: RunTables,
    /// Rows that changed since they were given to a sink.
    changed: BTreeSet<usize>,
}

impl Items {
    /// Records what one end of a flow knows of an item.
    pub fn record(&mut self, flow: usize, item: Item) {
        let index = items::record(&mut self.tables, flow, item);
        self.changed.insert(index);
    }

    /// Gives the rows that changed since the last call to a sink.
    pub fn give_changed(&mut self, sink: &mut dyn RunSink) {
        for index in std::mem::take(&mut self.changed) {
            sink.row(&Row::Application(self.tables.applications.row(index)));
        }
    }
}

/// Why an end of a flow failed.
#[derive(Debug)]
pub enum Failure {
    /// A system call on its sockets.
    Socket(io::Error),
    /// Its application opens a connection with a controller, or options of one, that the kernel does not have.
    Controller(String),
    /// Its application asked for something impossible.
    Misuse(Misuse),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// Progress of a running flow.
#[derive(Debug)]
pub struct Progress {
    /// Number of the flow in the Experiment.
    flow: usize,
    items: SharedItems,
    received_bytes: AtomicU64,
    /// Messages that have not arrived, and answers that have not been written.
    outstanding: AtomicI64,
    is_finishing: AtomicBool,
    completed: OnceLock<Time>,
    failed: OnceLock<Failure>,
}

impl Progress {
    /// Create the progress of a flow that has not started.
    #[must_use]
    pub fn new(flow: usize, items: SharedItems) -> Self {
        Self {
            flow,
            items,
            received_bytes: AtomicU64::new(0),
            outstanding: AtomicI64::new(0),
            is_finishing: AtomicBool::new(false),
            completed: OnceLock::new(),
            failed: OnceLock::new(),
        }
    }

    /// Number of the flow in the Experiment.
    pub(super) const fn flow(&self) -> usize {
        self.flow
    }

    /// Why an end failed. A connection that times out is no failure: the flow carries nothing.
    #[must_use]
    pub fn failed(&self) -> Option<&Failure> {
        self.failed.get()
    }

    /// When all data had arrived; `None`: an application did not finish, or its data had not arrived.
    #[must_use]
    pub fn completed(&self) -> Option<Time> {
        self.completed.get().copied()
    }

    /// Bytes read so far by the application that receives the flow's data.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add_received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn record(&self, item: Item) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).record(self.flow, item);
    }

    pub(super) fn on_written(&self, asks: bool) {
        self.outstanding.fetch_add(1 + i64::from(asks), Ordering::SeqCst);
    }

    pub(super) fn on_answered(&self) {
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
    }

    /// Count a message that arrived at `now`.
    pub(super) fn on_arrival(&self, now: Time) {
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
        self.check_complete(now);
    }

    pub(super) fn finish(&self) {
        self.is_finishing.store(true, Ordering::SeqCst);
    }

    pub(super) fn check_complete(&self, now: Time) {
        if self.is_finishing.load(Ordering::SeqCst) && self.outstanding.load(Ordering::SeqCst) == 0 {
            let _ = self.completed.set(now);
        }
    }

    pub(super) fn fail(&self, reason: Failure) {
        let _ = self.failed.set(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_item_is_given_once() {
        let (mut items, mut given) = (Items::default(), RunTables::default());
        items.record(0, Item { id: 1, start: Some(Time(0)), ..Item::default() });
        items.record(1, Item { id: 1, start: Some(Time(0)), ..Item::default() });
        items.give_changed(&mut given);
        items.record(1, Item { id: 1, completed: Some(Time(2_000_000_000)), ..Item::default() });
        let mut later = RunTables::default();
        items.give_changed(&mut later);
        assert_eq!(given.applications.flow, [0, 1]);
        assert_eq!((later.applications.flow[0], later.applications.completed_s[0]), (1, 2.0));
        items.give_changed(&mut later);
        assert_eq!(later.applications.flow, [1]);
    }

    #[test]
    fn a_flow_is_complete_when_its_messages_and_the_answers_that_they_ask_for_have_arrived() {
        let progress = Progress::new(0, SharedItems::default());
        progress.on_written(true);
        progress.finish();
        progress.check_complete(Time(1));
        progress.on_arrival(Time(2));
        assert_eq!(progress.completed(), None, "its answer is to be written");
        progress.on_written(false);
        progress.on_answered();
        progress.check_complete(Time(3));
        assert_eq!(progress.completed(), None, "and to arrive");
        progress.on_arrival(Time(4));
        progress.check_complete(Time(5));
        assert_eq!(progress.completed(), Some(Time(4)));
    }
}
