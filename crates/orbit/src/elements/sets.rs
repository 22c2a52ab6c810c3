//! Which of several element sets of one satellite is used.

use super::Elements;
use bentpipe_profile::Utc;
use std::collections::BTreeMap;

/// Catalogue numbers that stand for "has none": generators write them for every satellite of a shell.
const PLACEHOLDERS: [u64; 2] = [0, 99_999];

/// One element set of each satellite, in the order in which the satellites first appear, and how many sets were left out.
///
/// Catalogues of several days put together, and Space-Track's `gp_history`, hold a satellite once for each of its epochs: the set nearest to `at`
/// counts (of two equally near the newer). Two sets are of one satellite if their catalogue number agrees and so does their international
/// designator, or their name where there is no designator of a real launch. Sets that share a number and an epoch but not their elements say where
/// two things are at one moment, so both stay; sets that are the same in everything count once. The numbers 0 and 99999 name nobody: all their sets
/// stay.
#[must_use]
pub fn nearest_of_each(elements: Vec<Elements>, at: Utc) -> (Vec<Elements>, usize) {
    let given = elements.len();
    let mut groups: BTreeMap<(u64, String), usize> = BTreeMap::new();
    let mut kept: Vec<Vec<Elements>> = Vec::with_capacity(given);
    for found in elements {
        if PLACEHOLDERS.contains(&found.norad_id) {
            kept.push(vec![found]);
            continue;
        }
        let place = *groups.entry((found.norad_id, identity(&found))).or_insert(kept.len());
        let Some(best) = kept.get_mut(place) else {
            kept.push(vec![found]);
            continue;
        };
        // Nearer counts; of equally near ones the newer. All of a group's sets have one epoch.
        let rank = |e: &Elements| (e.epoch.0.abs_diff(at.0), std::cmp::Reverse(e.epoch));
        match rank(&found).cmp(&rank(&best[0])) {
            std::cmp::Ordering::Less => *best = vec![found],
            std::cmp::Ordering::Equal if !best.contains(&found) => best.push(found),
            _ => {}
        }
    }
    let kept: Vec<Elements> = kept.into_iter().flatten().collect();
    let left_out = given - kept.len();
    (kept, left_out)
}

/// What says, with the number, which satellite a set is of: the designator of a real launch (they count from 001), otherwise the name.
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

    fn raans(found: &[Elements]) -> Vec<f64> {
        found.iter().map(|e| e.raan_deg).collect()
    }

    /// Two catalogues of different days in one file: who is where is said by the set of the asked day.
    #[test]
    fn of_several_epochs_of_a_satellite_the_nearest_counts() {
        let sets = || {
            let seven = |epoch, raan| one(7, "G", Some("2019-074B"), epoch, raan);
            let three = |epoch, raan| one(3, "C", None, epoch, raan);
            vec![seven(20, 1.0), three(5, 2.0), seven(10, 3.0), three(9, 4.0), one(1, "A", None, 0, 6.0)]
        };
        for (at, wanted) in [(11, [3.0, 4.0, 6.0]), (30, [1.0, 4.0, 6.0]), (6, [3.0, 2.0, 6.0]), (15, [1.0, 4.0, 6.0])] {
            for reversed in [false, true] {
                let mut given = sets();
                if reversed {
                    given.reverse();
                }
                let (kept, left_out) = nearest_of_each(given, Utc(at));
                let mut found = raans(&kept);
                found.sort_by(f64::total_cmp);
                let mut wanted = wanted.to_vec();
                wanted.sort_by(f64::total_cmp);
                assert_eq!((found, left_out), (wanted, 2), "at {at}");
            }
        }
        assert_eq!(raans(&nearest_of_each(sets(), Utc(i64::MIN)).0), [3.0, 2.0, 6.0]);
    }

    /// A generated shell whose satellites all carry one number, at one epoch or at several.
    #[test]
    fn satellites_that_share_a_placeholder_all_stay() {
        for number in [0, 99_999, 12_345] {
            for spread in [0, 1] {
                // A made-up launch 000 names no satellite, but these have names of their own.
                let shell: Vec<_> =
                    (0..50).map(|i| one(number, &format!("S-{i}"), Some("2000-000ABC"), i * spread, 7.0 * i as f64)).collect();
                assert_eq!(nearest_of_each(shell.clone(), Utc(9)), (shell, 0));
            }
        }
        let nameless: Vec<_> = (0..50).map(|i| one(0, "NORAD 0", None, i, 7.0)).collect();
        assert_eq!(nearest_of_each(nameless.clone(), Utc(9)), (nameless, 0));
    }

    #[test]
    fn one_epoch_with_two_positions_is_two_things_and_a_copy_is_none() {
        let (a, b) = (one(80_001, "ANALYST", None, 5, 1.0), one(80_001, "ANALYST", None, 5, 2.0));
        assert_eq!(nearest_of_each(vec![a.clone(), b.clone()], Utc(0)), (vec![a.clone(), b], 0));
        assert_eq!(nearest_of_each(vec![a.clone(), a.clone()], Utc(0)), (vec![a], 1));
    }

    #[test]
    fn a_satellite_that_was_renamed_is_one_and_two_launches_are_two() {
        let sets = vec![one(7, "OBJECT B", Some("2026-074B"), 1, 1.0), one(7, "STARLINK-9", Some("2026-074B"), 2, 2.0)];
        assert_eq!(raans(&nearest_of_each(sets, Utc(9)).0), [2.0]);
        let sets = vec![one(7, "X", Some("2026-074B"), 1, 1.0), one(7, "X", Some("2026-075B"), 2, 2.0)];
        assert_eq!(nearest_of_each(sets, Utc(9)).1, 0);
    }
}
