//! Drivers for this crate's tests.

use crate::{Action, Actions, App, Event};
use bentpipe_profile::Time;

/// Let an application handle an event, and return its actions.
pub fn drive(app: &mut dyn App, actions: &mut Actions, at: u64, event: &Event) -> Vec<Action> {
    app.on_event(Time(at), event, actions);
    actions.drain().collect()
}

/// Number of connections that these actions open.
pub fn opened(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Open { .. })).count()
}

/// Sizes of the messages that these actions write.
pub fn written(actions: &[Action]) -> Vec<u64> {
    let size = |action: &Action| if let Action::Write(_, message) = action { Some(message.bytes.0) } else { None };
    actions.iter().filter_map(size).collect()
}
