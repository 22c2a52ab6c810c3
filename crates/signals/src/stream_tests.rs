use super::*;
use crate::slots::SlotClock;
use proptest::prelude::*;

fn specs() -> impl Strategy<Value = FeatureSpec> {
    let slot = prop::option::of((1.0..40.0, -20.0..20.0).prop_map(|(period_s, phase_s)| SlotClock { period_s, phase_s }));
    (
        1_usize..20,
        prop::collection::vec(1.0..60.0, 0..3),
        slot,
        0_usize..4,
        any::<(bool, bool)>(),
        0_usize..3,
        prop::sample::select(vec![0.0, 5.0]),
    )
        .prop_map(|(lags, windows_s, slot, earlier_slots, (relative, time_of_day), covariates, reference_s)| FeatureSpec {
            step_s: 1.0,
            lags,
            windows_s,
            ewma: vec![0.5],
            slot,
            earlier_slots,
            time_of_day,
            covariates,
            floor: 0.1,
            relative,
            reference_s,
        })
}

/// Samples with gaps: steps are left out, or have no value.
fn samples() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let step = prop_oneof![8 => Just(1_u32), 1 => 2_u32..5, 1 => 20_u32..60];
    let value = prop_oneof![9 => 0.0..200.0, 1 => Just(f64::NAN)];
    (0_u32..100_000, prop::collection::vec((step, value), 1..120)).prop_map(|(start, steps)| {
        let mut t_s = f64::from(start);
        steps
            .into_iter()
            .map(|(step, value)| {
                t_s += f64::from(step);
                (t_s, value)
            })
            .collect()
    })
}

fn rows(spec: &FeatureSpec, samples: &[(f64, f64)]) -> FeatureTable {
    let (t_s, values): (Vec<f64>, Vec<f64>) = samples.iter().copied().unzip();
    let covariates: Vec<f64> = values.iter().flat_map(|value| vec![value + 1.0; spec.covariates]).collect();
    table(spec, &t_s, &values, &covariates).unwrap()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #[test]
    fn no_feature_sees_the_future(spec in specs(), samples in samples(), other in 0.0..500.0, cut in 0.0..1.0) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let cut = (samples.len() as f64 * cut) as usize;
        let mut changed = samples.clone();
        for (number, sample) in changed.iter_mut().enumerate().skip(cut) {
            *sample = (sample.0 + 100.0, other + number as f64);
        }
        let (real, fake) = (rows(&spec, &samples), rows(&spec, &changed));
        let end = cut * spec.columns();
        prop_assert_eq!(bits(&real.rows[..end]), bits(&fake.rows[..end]));
        prop_assert_eq!(bits(&real.reference[..cut]), bits(&fake.reference[..cut]));
        prop_assert_eq!(&real.is_ready[..cut], &fake.is_ready[..cut]);
    }

    #[test]
    fn a_ready_row_is_finite_and_has_the_named_columns(spec in specs(), samples in samples()) {
        let table = rows(&spec, &samples);
        prop_assert_eq!(spec.names().len(), spec.columns());
        let own = spec.columns() - spec.covariates;
        for (row, ready) in table.rows.chunks(spec.columns()).zip(table.is_ready) {
            prop_assert!(!ready || row[..own].iter().all(|each| each.is_finite()), "{row:?}");
        }
    }

    #[test]
    fn a_relative_row_does_not_depend_on_the_unit(samples in samples(), factor in 0.5..3.0) {
        let spec = FeatureSpec { relative: true, floor: 0.0, lags: 3, windows_s: vec![5.0, 20.0], ..FeatureSpec::default() };
        let positive: Vec<_> = samples.iter().map(|&(t_s, value)| (t_s, value + 1.0)).collect();
        let scaled: Vec<_> = positive.iter().map(|&(t_s, value)| (t_s, value * factor)).collect();
        let (one, other) = (rows(&spec, &positive), rows(&spec, &scaled));
        for (one, other) in one.rows.iter().zip(&other.rows) {
            prop_assert!((one - other).abs() < 1e-6 || one.is_nan() == other.is_nan() && one.is_nan());
        }
    }

    #[test]
    fn a_prediction_is_turned_back_into_the_signals_unit(spec in specs(), value in 0.0..500.0, history in 0.0..500.0) {
        let mut stream = FeatureStream::new(FeatureSpec { covariates: 0, ..spec.clone() }).unwrap();
        stream.push(0.0, history, &[]).unwrap();
        let target = if spec.relative { libm::log(value + spec.floor) - libm::log(stream.reference() + spec.floor) } else { value };
        prop_assert!((stream.value_of(target) - value).abs() < 1e-9 * (1.0 + value));
    }

    #[test]
    fn hostile_samples_are_refused_and_change_nothing(spec in specs(), t_s in any::<f64>(), value in any::<f64>(), count in 0_usize..4) {
        let mut stream = FeatureStream::new(spec.clone()).unwrap();
        let covariates = vec![0.0; spec.covariates];
        stream.push(5.0, 3.0, &covariates).unwrap();
        let before = stream.clone();
        if stream.push(t_s, value, &vec![0.0; count]).is_err() {
            let (mut after, mut before) = (stream, before);
            prop_assert_eq!(bits(after.push(6.0, 4.0, &covariates).unwrap()), bits(before.push(6.0, 4.0, &covariates).unwrap()));
        }
    }
}

#[test]
fn a_missing_step_holds_the_last_value_and_ages() {
    let mut stream = FeatureStream::new(FeatureSpec { lags: 3, ..FeatureSpec::default() }).unwrap();
    for (t_s, value) in [(0.0, 10.0), (1.0, 11.0), (2.0, 12.0)] {
        stream.push(t_s, value, &[]).unwrap();
    }
    assert_eq!(stream.push(3.0, f64::NAN, &[]).unwrap(), [12.0, 12.0, 11.0, 1.0]);
    assert_eq!(stream.push(6.0, 20.0, &[]).unwrap(), [20.0, 12.0, 12.0, 0.0]);
}

#[test]
fn a_long_gap_starts_a_new_history() {
    let mut stream = FeatureStream::new(FeatureSpec { lags: 2, ..FeatureSpec::default() }).unwrap();
    stream.push(0.0, 10.0, &[]).unwrap();
    stream.push(1.0, 10.0, &[]).unwrap();
    assert!(stream.is_ready());
    stream.push(40.0, 20.0, &[]).unwrap();
    assert!(!stream.is_ready());
}

#[test]
fn slots_have_their_levels() {
    let slot = Some(SlotClock { period_s: 5.0, phase_s: 2.0 });
    let mut stream = FeatureStream::new(FeatureSpec { lags: 1, slot, earlier_slots: 2, ..FeatureSpec::default() }).unwrap();
    let mut row = vec![];
    for t in 0..14_u32 {
        row = stream.push(f64::from(t), f64::from(t), &[]).unwrap().to_vec();
    }
    // At 13 s: slots 2–6 (mean 4), 7–11 (mean 9), 12–13 so far.
    assert_eq!(row, [13.0, 0.0, 1.0, 4.0, 12.5, 2.0, 9.0, 4.0]);
}

#[test]
fn specifications_are_checked() {
    for spec in [
        FeatureSpec { step_s: 0.0, ..FeatureSpec::default() },
        FeatureSpec { step_s: f64::NAN, ..FeatureSpec::default() },
        FeatureSpec { lags: 0, ..FeatureSpec::default() },
        FeatureSpec { windows_s: vec![f64::INFINITY], ..FeatureSpec::default() },
        FeatureSpec { ewma: vec![0.0], ..FeatureSpec::default() },
        FeatureSpec { floor: -1.0, ..FeatureSpec::default() },
        FeatureSpec { slot: Some(SlotClock { period_s: 0.0, phase_s: 0.0 }), ..FeatureSpec::default() },
        FeatureSpec { windows_s: vec![5.0; 2000], ..FeatureSpec::default() },
    ] {
        assert!(FeatureStream::new(spec.clone()).is_err(), "{spec:?}");
    }
}
