//! The table of the applications: one row per item, with what both ends know of it.

use crate::Item;
use bentpipe_profile::Time;
use bentpipe_profile::run::Applications;
use std::collections::BTreeMap;

/// The applications table while a run goes on.
#[derive(Debug, Default)]
pub struct Items {
    /// The table.
    pub table: Applications,
    /// By flow: row of each item.
    rows: Vec<BTreeMap<u64, usize>>,
}

impl Items {
    /// Record what one end of a flow knows of an item.
    pub fn record(&mut self, flow: usize, item: Item) {
        if self.rows.len() <= flow {
            self.rows.resize_with(flow + 1, BTreeMap::new);
        }
        let table = &mut self.table;
        let row = *self.rows[flow].entry(item.id).or_insert_with(|| table.push(flow as u64, item.id));
        if let Some(kind) = item.kind {
            table.kind[row] = kind.into_owned();
        }
        let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
        for (column, time) in
            [(&mut table.start_s, item.start), (&mut table.first_byte_s, item.first_byte), (&mut table.completed_s, item.completed)]
        {
            if let Some(time) = time {
                column[row] = seconds(time);
            }
        }
        if let Some(bytes) = item.bytes {
            table.bytes[row] = bytes.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_ends_record_of_an_item_is_one_row() {
        let mut items = Items::default();
        items.record(1, Item { id: 7, kind: Some("transfer".into()), start: Some(Time(1_000_000_000)), ..Item::default() });
        items.record(0, Item { id: 7, start: Some(Time(0)), ..Item::default() });
        items.record(1, Item { id: 7, completed: Some(Time(3_000_000_000)), ..Item::default() });
        assert_eq!(items.table.flow, [1, 0]);
        assert_eq!((items.table.start_s[0], items.table.completed_s[0]), (1.0, 3.0));
        assert!(items.table.completed_s[1].is_nan() && items.table.first_byte_s[0].is_nan());
        assert_eq!(items.table.kind, ["transfer", ""]);
    }
}
