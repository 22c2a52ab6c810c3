//! Selection among several element sets of one satellite.

use super::Elements;
use bentpipe_profile::Utc;
use std::collections::BTreeMap;

/// Catalogue numbers that are placeholders: generators write them for every satellite of a shell.
const PLACEHOLDERS: [u64; 2] = [0, 99_999];

/// Select one element set for each satellite, in the order in which the satellites first appear. Returns them and the number of sets left out.
///
/// Catalogues of several days in one file, and Space-Track's `gp_history`, have a set for each epoch of a satellite. The set nearest to `at` is selected (of
/// two equally near, the newer). Two sets belong to one satellite if their catalogue numbers agree and so do their international designators, or their names
/// if there is no designator of a real launch. Sets with the same number and epoch but different elements are two objects, and both are selected. Identical
/// sets count once. The numbers 0 and 99999 are placeholders: all their sets are selected.
#[must_use]
pub fn nearest_of_each(elements: Vec<Elements>, at: Utc) -> (Vec<Elements>, usize) {
    let total = elements.len();
    let mut groups: BTreeMap<(u64, String), usize> = BTreeMap::new();
    let mut selected: Vec<Vec<Elements>> = Vec::with_capacity(total);
    for set in elements {
        if PLACEHOLDERS.contains(&set.norad_id) {
            selected.push(vec![set]);
            continue;
        }
        let index = *groups.entry((set.norad_id, identity(&set))).or_insert(selected.len());
        let Some(best) = selected.get_mut(index) else {
            selected.push(vec![set]);
            continue;
        };
        // The nearer set wins; of equally near ones the newer. All sets of a group have the same epoch.
        let rank = |e: &Elements| (e.epoch.0.abs_diff(at.0), std::cmp::Reverse(e.epoch));
        match rank(&set).cmp(&rank(&best[0])) {
            std::cmp::Ordering::Less => *best = vec![set],
            std::cmp::Ordering::Equal if !best.contains(&set) => best.push(set),
            _ => {}
        }
    }
    let selected: Vec<Elements> = selected.into_iter().flatten().collect();
    let left_out = total - selected.len();
    (selected, left_out)
}

/// Return the text that identifies a satellite together with its number: the designator of a real launch (numbered from 001), otherwise the name.
fn identity(elements: &Elements) -> String {
    match &elements.designator {
        Some(designator) if designator.get(5..8).is_some_and(|launch| launch != "000") => designator.clone(),
        _ => elements.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(norad_id: u64, name: &str, designator: Option<&str>, epoch: i64, raan_deg: f64) -> Elements {
        Elements {
            name: name.to_owned(),
            norad_id,
            designator: designator.map(str::to_owned),
            epoch: Utc(epoch),
            mean_motion_rev_day: 15.0,
            eccentricity: 0.0,
            inclination_deg: 53.0,
            raan_deg,
            arg_perigee_deg: 0.0,
            mean_anomaly_deg: 0.0,
            bstar_per_er: 0.0,
        }
    }

    fn raans(elements: &[Elements]) -> Vec<f64> {
        elements.iter().map(|e| e.raan_deg).collect()
    }

    /// Two catalogues of different days in one file.
    #[test]
    fn the_set_with_the_nearest_epoch_is_selected() {
        let sets = || {
            let seven = |epoch, raan| one(7, "G", Some("2019-074B"), epoch, raan);
            let three = |epoch, raan| one(3, "C", None, epoch, raan);
            vec![seven(20, 1.0), three(5, 2.0), seven(10, 3.0), three(9, 4.0), one(1, "A", None, 0, 6.0)]
        };
        for (at, expected) in [(11, [3.0, 4.0, 6.0]), (30, [1.0, 4.0, 6.0]), (6, [3.0, 2.0, 6.0]), (15, [1.0, 4.0, 6.0])] {
            for reversed in [false, true] {
                let mut given = sets();
                if reversed {
                    given.reverse();
                }
                let (selected, left_out) = nearest_of_each(given, Utc(at));
                let mut result = raans(&selected);
                result.sort_by(f64::total_cmp);
                let mut expected = expected.to_vec();
                expected.sort_by(f64::total_cmp);
                assert_eq!((result, left_out), (expected, 2), "at {at}");
            }
        }
        assert_eq!(raans(&nearest_of_each(sets(), Utc(i64::MIN)).0), [3.0, 2.0, 6.0]);
    }

    /// A generated shell whose satellites all carry one number, at one epoch or at several.
    #[test]
    fn all_satellites_with_a_placeholder_number_are_selected() {
        for number in [0, 99_999, 12_345] {
            for spread in [0, 1] {
                // Launch 000 is a placeholder, but these satellites have distinct names.
                let shell: Vec<_> =
                    (0..50).map(|i| one(number, &format!("S-{i}"), Some("2000-000ABC"), i * spread, 7.0 * i as f64)).collect();
                assert_eq!(nearest_of_each(shell.clone(), Utc(9)), (shell, 0));
            }
        }
        let nameless: Vec<_> = (0..50).map(|i| one(0, "NORAD 0", None, i, 7.0)).collect();
        assert_eq!(nearest_of_each(nameless.clone(), Utc(9)), (nameless, 0));
    }

    #[test]
    fn two_positions_at_one_epoch_are_two_objects_and_a_copy_is_left_out() {
        let (a, b) = (one(80_001, "ANALYST", None, 5, 1.0), one(80_001, "ANALYST", None, 5, 2.0));
        assert_eq!(nearest_of_each(vec![a.clone(), b.clone()], Utc(0)), (vec![a.clone(), b], 0));
        assert_eq!(nearest_of_each(vec![a.clone(), a.clone()], Utc(0)), (vec![a], 1));
    }

    #[test]
    fn a_renamed_satellite_is_one_object_and_two_launches_are_two() {
        let sets = vec![one(7, "OBJECT B", Some("2026-074B"), 1, 1.0), one(7, "STARLINK-9", Some("2026-074B"), 2, 2.0)];
        assert_eq!(raans(&nearest_of_each(sets, Utc(9)).0), [2.0]);
        let sets = vec![one(7, "X", Some("2026-074B"), 1, 1.0), one(7, "X", Some("2026-075B"), 2, 2.0)];
        assert_eq!(nearest_of_each(sets, Utc(9)).1, 0);
    }
}
