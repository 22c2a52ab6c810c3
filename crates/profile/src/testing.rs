//! Fixtures for tests.

use crate::{Hop, HopDirection, Provenance, QueueDiscipline, QueueLimit, QueueSpec, Series};

/// One direction of a hop with 10 ms of delay and 1 Mbit/s.
pub fn side() -> HopDirection {
    HopDirection {
        delay: Series::constant(10_000_000),
        capacity: Some(Series::constant(1_000_000)),
        loss: None,
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(10) },
    }
}

pub fn hop(name: &str) -> Hop {
    Hop { name: name.to_owned(), shared_id: None, up: side(), down: side() }
}

pub fn provenance() -> Provenance {
    Provenance {
        kind: "preset".to_owned(),
        description: "test".to_owned(),
        made_by: "bentpipe test".to_owned(),
        seed: None,
        includes: Vec::new(),
        recipe: serde_json::Value::Null,
    }
}
