//! Options of a controller as the words that the kernel's controllers read (`struct bp_options` in `bpf/core/types.h`).

use bentpipe_profile::tunables::{Allowed, Declared, OptionSpec, Value, Values};

/// Number of words (`BP_MAX_OPTIONS`).
pub const MAX_OPTIONS: usize = 64;
/// Word that tells one set of options from another: names, units and choices, in their order. Programs do not read it; the loader does, before it writes to a
/// program that another version has loaded.
pub const LAYOUT_WORD: usize = MAX_OPTIONS - 1;
/// Numbers without a time's unit are counted in 2^-32.
const ONE: f64 = 4_294_967_296.0;

/// `struct bp_options`, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OptionWords {
    /// Grows with each change.
    pub generation: u64,
    /// Bit n: the user set option n.
    pub is_set: u64,
    /// One word for each option, in the order in which the controller declares them; the last is [`LAYOUT_WORD`].
    pub words: [u64; MAX_OPTIONS],
}

/// Returns the options of a controller as words: a time in nanoseconds, a count, a switch or the number of a choice as it is, another number in 2^-32.
///
/// # Panics
/// If a controller declares more than 63: a mistake that the test of all twins finds.
#[must_use]
pub fn option_words(declared: &Declared, values: &Values) -> OptionWords {
    let mut options = OptionWords { generation: 0, is_set: 0, words: [0; MAX_OPTIONS] };
    for (n, spec) in declared.options.iter().enumerate() {
        let (value, is_set) = values.value_of(spec.name).unwrap_or((spec.default, false));
        options.words[n] = word(spec, value);
        options.is_set |= u64::from(is_set) << n;
    }
    options.words[LAYOUT_WORD] = layout(declared.options);
    options
}

/// Returns a hash of the options' names, units and choices (FNV-1a).
fn layout(options: &[OptionSpec]) -> u64 {
    let texts = options.iter().flat_map(|spec| {
        let choices: &[&str] = if let Allowed::Choice(names) = spec.allowed { names } else { &[] };
        [spec.name, spec.unit].into_iter().chain(choices.iter().copied())
    });
    let bytes = texts.flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Returns a checked value as a word. Negative numbers are in two's complement.
#[allow(clippy::cast_possible_truncation)] // within the range of an option
fn word(spec: &OptionSpec, value: Value) -> u64 {
    match (value, spec.allowed, spec.unit) {
        (Value::Choice(name), Allowed::Choice(names), _) => names.iter().position(|each| *each == name).unwrap_or(0) as u64,
        (Value::Number(number), Allowed::Range(..), "ms") => ((number * 1e6).round() as i64).cast_unsigned(),
        (Value::Number(number), Allowed::Range(..), "s") => ((number * 1e9).round() as i64).cast_unsigned(),
        (Value::Number(number), Allowed::Range(..), _) => ((number * ONE).round() as i64).cast_unsigned(),
        (Value::Number(number), ..) => (number as i64).cast_unsigned(),
        (Value::Choice(_), ..) => 0,
    }
}

/// Returns the value of each option from its word, in the order in which the controller declares them; `None`: the words have another layout, or one is no
/// value of its option.
#[must_use]
pub fn option_values(declared: &Declared, words: &[u64; MAX_OPTIONS]) -> Option<Vec<(&'static str, Value)>> {
    if words[LAYOUT_WORD] != layout(declared.options) {
        return None;
    }
    declared.options.iter().zip(words).map(|(spec, word)| Some((spec.name, value(spec, *word)?))).collect()
}

#[allow(clippy::cast_precision_loss)] // within the range of an option
fn value(spec: &OptionSpec, bits: u64) -> Option<Value> {
    if word(spec, spec.default) == bits {
        return Some(spec.default);
    }
    let number = bits.cast_signed() as f64;
    let number = match (spec.allowed, spec.unit) {
        (Allowed::Choice(names), _) => return names.get(usize::try_from(bits).ok()?).map(|name| Value::Choice(name)),
        (Allowed::Range(..), "ms") => number / 1e6,
        (Allowed::Range(..), "s") => number / 1e9,
        (Allowed::Range(..), _) => number / ONE,
        (Allowed::Switch | Allowed::Count(..), _) => number,
    };
    // A fraction that 2^-32 does not divide was rounded: the shortest decimal number with this word is what the user wrote.
    let scales = std::iter::successors(Some(1.0), |scale| Some(scale * 10.0)).take(11);
    let rounded = scales.map(|scale: f64| (number * scale).round() / scale);
    let written = rounded.map(Value::Number).find(|each| word(spec, *each) == bits);
    Some(written.unwrap_or(Value::Number(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::testing::given;

    #[test]
    fn each_kind_of_option_has_its_unit() {
        let declared = find("hybla").expect("known").declared();
        let options = option_words(&declared, &declared.check(&given(&[("counts", "packets".into())])).expect("in range"));
        assert_eq!((options.words[0], options.words[1], options.is_set), (25_000_000, 1, 2));
        let declared = find("bbr2").expect("known").declared();
        let options = option_words(&declared, &declared.check(&given(&[("loss_thresh", 0.5.into())])).expect("in range"));
        let n = declared.options.iter().position(|spec| spec.name == "loss_thresh").expect("declared");
        assert_eq!((options.words[n], options.is_set), (1 << 31, 1 << n));
    }

    #[test]
    fn the_layout_changes_with_names_and_order_and_not_with_values() {
        let declared = find("hybla").expect("known").declared();
        let specs = declared.options;
        let swapped: Vec<_> = specs.iter().rev().copied().collect();
        assert_ne!(layout(specs), layout(&swapped));
        assert_ne!(layout(specs), layout(&specs[1..]));
        let given = option_words(&declared, &declared.check(&given(&[("counts", "packets".into())])).expect("in range"));
        assert_eq!(given.words[LAYOUT_WORD], layout(specs));
    }

    #[test]
    fn the_words_of_every_controller_have_its_values() {
        for entry in crate::registry::CONTROLLERS {
            let declared = entry.declared();
            let words = option_words(&declared, &declared.check(&given(&[])).expect("defaults")).words;
            let defaults: Vec<_> = declared.options.iter().map(|spec| (spec.name, spec.default)).collect();
            assert_eq!(option_values(&declared, &words), Some(defaults), "{}", entry.name);
        }
    }

    #[test]
    fn a_word_that_is_no_choice_and_another_layout_have_no_values() {
        let declared = find("hybla").expect("known").declared();
        let words = option_words(&declared, &declared.check(&given(&[])).expect("defaults")).words;
        for at in [1, LAYOUT_WORD] {
            let mut other = words;
            other[at] = u64::MAX;
            assert_eq!(option_values(&declared, &other), None);
        }
    }
}
