//! Items of applications in the tables of a Run: one row per item, with what both ends know of it.

use crate::Item;
use bentpipe_profile::Time;
use bentpipe_profile::run::RunTables;

/// Record what one end of a flow knows of an item. Returns the index of its row in `applications`.
pub fn record(tables: &mut RunTables, flow: usize, item: Item) -> usize {
    let index = tables.item(flow as u64, item.id);
    let table = &mut tables.applications;
    if let Some(kind) = item.kind {
        table.kind[index] = kind.into_owned();
    }
    let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
    for (column, time) in
        [(&mut table.start_s, item.start), (&mut table.first_byte_s, item.first_byte), (&mut table.completed_s, item.completed)]
    {
        if let Some(time) = time {
            column[index] = seconds(time);
        }
    }
    if let Some(bytes) = item.bytes {
        table.bytes[index] = bytes.0;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_ends_record_of_an_item_is_one_row() {
        let mut tables = RunTables::default();
        record(&mut tables, 1, Item { id: 7, kind: Some("transfer".into()), start: Some(Time(1_000_000_000)), ..Item::default() });
        record(&mut tables, 0, Item { id: 7, start: Some(Time(0)), ..Item::default() });
        record(&mut tables, 1, Item { id: 7, completed: Some(Time(3_000_000_000)), ..Item::default() });
        let table = &tables.applications;
        assert_eq!(table.flow, [1, 0]);
        assert_eq!((table.start_s[0], table.completed_s[0]), (1.0, 3.0));
        assert!(table.completed_s[1].is_nan() && table.first_byte_s[0].is_nan());
        assert_eq!(table.kind, ["transfer", ""]);
    }
}
