//! Where the rows of a simulation go: its tables, and one more sink.

use bentpipe_apps::{Item, items};
use bentpipe_profile::run::{Row, RunSink, RunTables};

/// The rows of a simulation in progress.
#[derive(Default)]
pub struct Output {
    /// The Run's tables.
    pub tables: RunTables,
    /// Another sink, which sees each row when it is made.
    pub sink: Option<Box<dyn RunSink + Send>>,
}

impl RunSink for Output {
    fn row(&mut self, row: &Row<'_>) {
        self.tables.row(row);
        if let Some(sink) = &mut self.sink {
            sink.row(row);
        }
    }
}

impl Output {
    /// Record what one end of a flow knows of an item.
    pub fn item(&mut self, flow: usize, item: Item) {
        let index = items::record(&mut self.tables, flow, item);
        if let Some(sink) = &mut self.sink {
            sink.row(&Row::Application(self.tables.applications.row(index)));
        }
    }
}
