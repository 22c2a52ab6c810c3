//! Rows of a Run: what leaves a driver while the Run goes on. The tables are one sink of them; lines of JSON are another.
//!
//! ```text
//!   simulator ─┐              ┌─ RunTables (the Run's files, its content hash)
//!              ├─ Row ─ sink ─┤
//!   emulator  ─┘              └─ lines of JSON (a file, a live view, a function in Python)
//! ```
//! A row has the columns of its table, so names end in their units, counters are cumulative, and NaN stands for unknown (`null` in JSON). Rows come in
//! order of time, except that an event of a path comes with the first sample after it.

use crate::experiment::Experiment;
use crate::profile::Profile;
use crate::run::tables::{ApplicationRow, EventRow, LinkRow, SampleRow};
use crate::units::{Nanos, Time};
use serde::Serialize;

/// Version of the rows' format. It grows when a type or a field gets another meaning or is removed, not when one is added.
pub const ROW_FORMAT: u32 = 1;

/// Takes the rows of a Run as they leave a driver.
///
/// A driver calls it at each sample, window and event, never per packet, and goes on after it returns.
pub trait RunSink {
    /// Take a row.
    fn row(&mut self, row: &Row<'_>);
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Row<'a> {
    /// The first row: the format, and facts of the whole Run.
    Header(&'a Header),
    /// A flow that the following rows refer to by its number. A later row of the same number replaces it.
    Flow(FlowRow<'a>),
    /// State of a flow's sender.
    Sample(SampleRow<'a>),
    /// Traffic on a hop in a window.
    Link(LinkRow<'a>),
    /// An event of the path or of a flow.
    Event(EventRow<'a>),
    /// An item of an application, with everything known of it. A later row of the same flow and number replaces it.
    Application(ApplicationRow<'a>),
    /// Rows before this one were dropped, because their reader was too slow for a real-time driver.
    Dropped {
        /// Their number.
        rows: u64,
    },
}

impl Row<'_> {
    /// Append the row as a line of JSON. Text of files, such as a hop's name, is escaped as JSON does.
    ///
    /// # Panics
    /// Never: a row is plain data.
    pub fn write_json_line(&self, line: &mut Vec<u8>) {
        serde_json::to_writer(&mut *line, self).expect("a row is plain data");
        line.push(b'\n');
    }
}

/// Facts of a whole Run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Header {
    /// Version of the format: [`ROW_FORMAT`].
    pub format: u32,
    /// The driver: `simulated` or `emulated`.
    pub world: &'static str,
    /// Name of the Experiment.
    pub experiment: String,
    /// Duration of the Run [s]; `None`: until its program ends.
    pub duration_s: Option<f64>,
    /// Time between two samples of a flow [s].
    pub sample_step_s: f64,
    /// Its paths.
    pub paths: Vec<PathHeader>,
}

/// A path of a Run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathHeader {
    /// Role in the Experiment, which `links` have as `profile`.
    pub role: String,
    /// Name of the Profile.
    pub profile: String,
    /// Wall clock of the Profile at the start of the Run [ns since 1970].
    pub start_unix_ns: i64,
    /// Names of the hops, from the terminal on.
    pub hops: Vec<String>,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlowRow<'a> {
    /// Its number.
    pub flow: u64,
    /// Role of its path in the Experiment.
    pub profile: &'a str,
    /// Direction of its data: `up` or `down`.
    pub direction: &'a str,
    /// Congestion controller of its sender.
    pub controller: &'a str,
    /// When it starts, since the start of the Run [s].
    pub start_s: f64,
}

impl PathHeader {
    /// Describe a Profile on which a Run begins at `start`.
    #[must_use]
    pub fn new(role: &str, profile: &Profile, start: Time) -> Self {
        Self {
            role: role.to_owned(),
            profile: profile.name().to_owned(),
            start_unix_ns: profile.start().0.saturating_add_unsigned(start.0),
            hops: profile.hops().iter().map(|hop| hop.name.clone()).collect(),
        }
    }
}

impl Experiment {
    /// Give the header and the flows of a Run of this Experiment, which begins at `start` of the Profiles, to a sink.
    pub fn announce<'a>(&self, world: &'static str, profiles: impl IntoIterator<Item = &'a Profile>, start: Time, sink: &mut dyn RunSink) {
        let roles = self.profiles.iter().map(|reference| reference.role.as_str());
        let header = Header {
            format: ROW_FORMAT,
            world,
            experiment: self.name.clone(),
            duration_s: Some(self.duration_ns.as_secs_f64()),
            sample_step_s: self.sample_step_ns.as_secs_f64(),
            paths: roles.zip(profiles).map(|(role, profile)| PathHeader::new(role, profile, start)).collect(),
        };
        sink.row(&Row::Header(&header));
        for (flow, spec) in (0..).zip(&self.flows) {
            sink.row(&Row::Flow(FlowRow {
                flow,
                profile: &spec.profile,
                direction: spec.direction.name(),
                controller: &spec.controller,
                start_s: Nanos(spec.start_ns.0).as_secs_f64(),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(row: &Row<'_>) -> String {
        let mut line = Vec::new();
        row.write_json_line(&mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_row_is_one_line_whatever_its_text() {
        let hostile = "sat\u{1b}]52;c;aGk=\u{7}\n\"}\u{2028}";
        let event = EventRow { t_s: 1.5, flow: -1, kind: "handover", detail: hostile };
        let text = line(&Row::Event(event));
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains(['\u{1b}', '\u{7}']));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json!({"type": "event", "t_s": 1.5, "flow": -1, "kind": "handover", "detail": hostile}));
    }

    #[test]
    fn unknown_numbers_are_null() {
        let read: Value = serde_json::from_str(&line(&Row::Application(ApplicationRow::unknown(2, 7)))).unwrap();
        assert_eq!(read["start_s"], Value::Null);
        assert_eq!((&read["type"], &read["flow"], &read["id"]), (&json!("application"), &json!(2), &json!(7)));
    }
}
