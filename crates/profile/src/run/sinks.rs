//! The tables of a Run as a sink of its rows, and the events that wait for their time.

use crate::run::rows::{Row, RunSink};
use crate::run::tables::{ApplicationRow, Applications, Column, Events, Links, Samples};
use std::collections::BTreeMap;

/// The events of paths that have not left a driver yet, which it gives to a sink as their time comes.
#[derive(Debug, Default)]
pub struct PendingEvents {
    events: Events,
    next: usize,
}

impl PendingEvents {
    /// Take the events.
    #[must_use]
    pub fn new(mut events: Events) -> Self {
        events.sort();
        Self { events, next: 0 }
    }

    /// Give the events up to `t_s` [s] to a sink.
    pub fn give(&mut self, t_s: f64, sink: &mut dyn RunSink) {
        while self.events.t_s.get(self.next).is_some_and(|&at_s| at_s <= t_s) {
            sink.row(&Row::Event(self.events.row(self.next)));
            self.next += 1;
        }
    }
}

/// The tables of a Run, filled by its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTables {
    /// State of the senders over time.
    pub samples: Samples,
    /// Traffic on the hops over time.
    pub links: Links,
    /// Events of the path and of the flows.
    pub events: Events,
    /// Items of the applications.
    pub applications: Applications,
    /// Row of each item in `applications`, by flow and number.
    items: BTreeMap<(u64, u64), usize>,
}

impl RunTables {
    /// Return the index of an item's row; a new item gets one in which nothing is known.
    pub fn item(&mut self, flow: u64, id: u64) -> usize {
        let table = &mut self.applications;
        *self.items.entry((flow, id)).or_insert_with(|| {
            table.push(&ApplicationRow::unknown(flow, id));
            table.flow.len() - 1
        })
    }

    /// Return all tables by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Vec<(&'static str, Column<'_>)>); 4] {
        [
            ("samples", self.samples.columns()),
            ("links", self.links.columns()),
            ("events", self.events.columns()),
            ("applications", self.applications.columns()),
        ]
    }
}

impl RunSink for RunTables {
    fn row(&mut self, row: &Row<'_>) {
        match row {
            Row::Sample(row) => self.samples.push(row),
            Row::Link(row) => self.links.push(row),
            Row::Event(row) => self.events.push(row),
            Row::Application(row) => {
                let index = self.item(row.flow, row.id);
                self.applications.replace(index, row);
            }
            Row::Header(_) | Row::Flow(_) | Row::Dropped { .. } => {}
        }
    }
}

impl RunSink for Links {
    fn row(&mut self, row: &Row<'_>) {
        if let Row::Link(row) = row {
            self.push(row);
        }
    }
}
