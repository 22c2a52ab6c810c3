//! Options of controllers and of recovery schemes as typed values.
//!
//! A controller or scheme declares its options once, with [`options!`](crate::options!): a field of the struct for each, with its type, and a [`Tunable`] that says how users write it. The
//! macro makes the struct, the list of [`OptionSpec`]s for the registry, and the function that fills the struct from the values that a user set. So a name is
//! written once, and a controller reads fields, never names. [`choices!`](crate::choices!) declares an option with named choices as an enum.
//!
//! ```text
//! choices! {
//!     /// What raises the window.
//!     pub enum Counts { Acks = "acks", Packets = "packets" }
//! }
//! options! {
//!     /// Options of `hybla`.
//!     pub struct Options {
//!         rtt0: Nanos = millis("rtt0_ms", "reference RTT", 25.0, 1.0, 10_000.0, "`rtt0`"),
//!         counts: Counts = Counts::option("counts", "unit of growth", Counts::Acks, "`hybla_cong_avoid`"),
//!         ..cubic: cubic::Options,   // the options of another part, all of them
//!     }
//! }
//! ```

use crate::names::{did_you_mean, nearest};
use crate::options::{OptionValue, OptionValues};
use crate::units::Nanos;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// An option, as users see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Name, unit included.
    pub name: &'static str,
    /// Unit; empty: a count, a ratio or a choice.
    pub unit: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Default value.
    pub default: Value,
    /// Allowed values.
    pub allowed: Allowed,
    /// Source of the default.
    pub source: &'static str,
}

/// A checked value: within its range, or one of the choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number in the option's unit; a switch is 0 or 1.
    Number(f64),
    /// The name of a choice.
    Choice(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Choice(name) => f.write_str(name),
        }
    }
}

/// Allowed values of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// 0 or 1.
    Switch,
    /// From the first to the second, both included.
    Range(f64, f64),
    /// A whole number from the first to the second, both included.
    Count(u32, u32),
    /// One of these names.
    Choice(&'static [&'static str]),
}

impl Allowed {
    /// Checks a value. `None`: it is not allowed; NaN never is.
    #[must_use]
    #[allow(clippy::float_cmp)] // whole numbers are exact
    pub fn check(self, value: &OptionValue) -> Option<Value> {
        let number = match (self, value) {
            (Self::Choice(names), OptionValue::Name(given)) => {
                return names.iter().find(|name| *name == given).map(|name| Value::Choice(name));
            }
            (Self::Choice(_), OptionValue::Number(_)) | (_, OptionValue::Name(_)) => return None,
            (_, OptionValue::Number(number)) => *number,
        };
        let is_whole = libm::trunc(number) == number;
        let is_allowed = match self {
            Self::Switch => number == 0.0 || number == 1.0,
            Self::Range(min, max) => (min..=max).contains(&number),
            Self::Count(min, max) => is_whole && (f64::from(min)..=f64::from(max)).contains(&number),
            Self::Choice(_) => false,
        };
        is_allowed.then_some(Value::Number(number))
    }

    /// Parses a user's text: the name of a choice, or a number. It may still be out of range.
    #[must_use]
    pub fn parse(self, text: &str) -> OptionValue {
        match (self, text.parse()) {
            (Self::Switch | Self::Range(..) | Self::Count(..), Ok(number)) => OptionValue::Number(number),
            _ => OptionValue::Name(text.to_owned()),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("0 or 1"),
            Self::Range(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Count(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Choice(names) => f.write_str(&names.join(", ")),
        }
    }
}

/// An option whose value is a `T`.
#[derive(Clone, Copy, Debug)]
pub struct Tunable<T> {
    /// What users see.
    pub spec: OptionSpec,
    value: PhantomData<fn() -> T>,
}

impl<T> Tunable<T> {
    /// Declares an option. The constructors of this module fit `T` and the allowed values together.
    const fn new(spec: OptionSpec) -> Self {
        Self { spec, value: PhantomData }
    }

    /// Sets the unit; the default is none.
    #[must_use]
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.spec.unit = unit;
        self
    }

    /// Makes its value tell whether the user set it, for a default that depends on another option.
    #[must_use]
    pub const fn or_by_rule(self) -> Tunable<Setting<T>> {
        Tunable::new(self.spec)
    }
}

/// Declares a number within a range, in the unit that [`Tunable::unit`] sets.
#[must_use]
pub const fn number(name: &'static str, description: &'static str, default: f64, min: f64, max: f64, source: &'static str) -> Tunable<f64> {
    let default = Value::Number(default);
    Tunable::new(OptionSpec { name, unit: "", description, default, allowed: Allowed::Range(min, max), source })
}

/// Declares a span of time that users write in milliseconds.
#[must_use]
pub const fn millis(
    name: &'static str,
    description: &'static str,
    default: f64,
    min: f64,
    max: f64,
    source: &'static str,
) -> Tunable<Nanos> {
    Tunable::new(number(name, description, default, min, max, source).unit("ms").spec)
}

/// Declares a span of time that users write in seconds.
#[must_use]
pub const fn seconds(
    name: &'static str,
    description: &'static str,
    default: f64,
    min: f64,
    max: f64,
    source: &'static str,
) -> Tunable<Nanos> {
    Tunable::new(number(name, description, default, min, max, source).unit("s").spec)
}

/// Declares a whole number within a range.
#[must_use]
pub const fn count(name: &'static str, description: &'static str, default: u32, min: u32, max: u32, source: &'static str) -> Tunable<u32> {
    #[allow(clippy::cast_lossless)] // `From` is not const
    let default = Value::Number(default as f64);
    Tunable::new(OptionSpec { name, unit: "", description, default, allowed: Allowed::Count(min, max), source })
}

/// Declares a switch.
#[must_use]
pub const fn switch(name: &'static str, description: &'static str, default: bool, source: &'static str) -> Tunable<bool> {
    let default = Value::Number(if default { 1.0 } else { 0.0 });
    Tunable::new(OptionSpec { name, unit: "", description, default, allowed: Allowed::Switch, source })
}

/// Declares an option with named choices; the enums of [`choices!`](crate::choices!) call it.
#[must_use]
pub const fn choice<T>(
    name: &'static str,
    description: &'static str,
    default: &'static str,
    names: &'static [&'static str],
    source: &'static str,
) -> Tunable<T> {
    Tunable::new(OptionSpec { name, unit: "", description, default: Value::Choice(default), allowed: Allowed::Choice(names), source })
}

/// The type of an option.
pub trait OptionType: Sized {
    /// Converts a checked value; `is_set`: the user set it.
    fn from_value(value: Value, spec: &OptionSpec, is_set: bool) -> Self;
}

impl OptionType for f64 {
    fn from_value(value: Value, spec: &OptionSpec, _is_set: bool) -> Self {
        match value {
            Value::Number(number) => number,
            Value::Choice(name) => unreachable!("{} is {name}: its constructor allows numbers only", spec.name),
        }
    }
}

impl OptionType for bool {
    fn from_value(value: Value, spec: &OptionSpec, is_set: bool) -> Self {
        f64::from_value(value, spec, is_set) != 0.0
    }
}

impl OptionType for u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds of `Allowed::Count`
    fn from_value(value: Value, spec: &OptionSpec, is_set: bool) -> Self {
        f64::from_value(value, spec, is_set) as Self
    }
}

impl OptionType for Nanos {
    fn from_value(value: Value, spec: &OptionSpec, is_set: bool) -> Self {
        let number = f64::from_value(value, spec, is_set);
        Self::from_secs_f64(if spec.unit == "ms" { number / 1e3 } else { number }).unwrap_or(Self::MAX)
    }
}

/// A value, and whether the user set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Whether the user set it; otherwise it is the default.
    pub is_set: bool,
}

impl<T> Setting<T> {
    /// Returns the user's value, or else the default of a rule; `None`: the rule has none of its own.
    pub fn or(self, of_rule: Option<T>) -> T {
        of_rule.filter(|_| !self.is_set).unwrap_or(self.value)
    }
}

impl<T: OptionType> OptionType for Setting<T> {
    fn from_value(value: Value, spec: &OptionSpec, is_set: bool) -> Self {
        Self { value: T::from_value(value, spec, is_set), is_set }
    }
}

/// The options of a controller or scheme, or of a part of one; see [`options!`](crate::options!).
pub trait OptionSet: Sized {
    /// The options as users see them.
    const SPECS: &'static [OptionSpec];
    /// Fills the struct from checked values.
    fn read(values: &Values) -> Self;
}

/// Values of options: checked, and completed with the defaults.
#[derive(Clone, Debug)]
pub struct Values(BTreeMap<&'static str, (Value, bool)>);

impl Values {
    /// Creates them from values that are allowed, by name, and whether the user set each.
    #[must_use]
    pub const fn new(checked: BTreeMap<&'static str, (Value, bool)>) -> Self {
        Self(checked)
    }

    /// Returns the checked value of an option, and whether the user set it; `None`: the entry does not declare it.
    #[must_use]
    pub fn value_of(&self, name: &str) -> Option<(Value, bool)> {
        self.0.get(name).copied()
    }

    /// Returns the value of an option that the entry declares.
    ///
    /// # Panics
    /// If the entry does not declare it: a mistake in the controller's own file, which the test of all entries finds.
    #[must_use]
    pub fn get<T: OptionType>(&self, tunable: &Tunable<T>) -> T {
        let (value, is_set) = self.0[tunable.spec.name];
        T::from_value(value, &tunable.spec, is_set)
    }
}

/// The options that a controller or scheme declares, with its name.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// What it is, in errors: "controller", "scheme".
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
}

impl Declared {
    /// Returns the option called `name`.
    ///
    /// # Errors
    /// [`OptionError::Unknown`], with the nearest name.
    pub fn option(&self, name: &str) -> Result<&'static OptionSpec, OptionError> {
        self.options.iter().find(|o| o.name == name).ok_or_else(|| {
            let names = || self.options.iter().map(|o| o.name);
            OptionError::Unknown {
                kind: self.kind,
                owner: self.name,
                option: name.to_owned(),
                nearest: nearest(name, names()),
                known: if self.options.is_empty() { "none".to_owned() } else { names().collect::<Vec<_>>().join(", ") },
            }
        })
    }

    /// Parses the user's `text` as the value of the option called `name`.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn read(&self, name: &str, text: &str) -> Result<OptionValue, OptionError> {
        let spec = self.option(name)?;
        let value = spec.allowed.parse(text);
        spec.allowed.check(&value).map(|_| value).ok_or_else(|| self.not_allowed(spec, text))
    }

    /// Checks the options that the user set and adds the defaults of the others.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn check(&self, given: &OptionValues) -> Result<Values, OptionError> {
        let mut values: BTreeMap<_, _> = self.options.iter().map(|spec| (spec.name, (spec.default, false))).collect();
        for (name, value) in given {
            let spec = self.option(name)?;
            let checked = spec.allowed.check(value).ok_or_else(|| self.not_allowed(spec, &value.to_string()))?;
            values.insert(spec.name, (checked, true));
        }
        Ok(Values::new(values))
    }

    fn not_allowed(&self, spec: &'static OptionSpec, value: &str) -> OptionError {
        OptionError::NotAllowed {
            kind: self.kind,
            owner: self.name,
            option: spec.name,
            value: value.to_owned(),
            allowed: spec.allowed,
            unit: spec.unit,
        }
    }
}

/// An unknown option, or an option value that is not allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no such option.
    #[error("{kind} `{owner}` has no option `{option}`{}; it takes: {known}", did_you_mean(nearest.as_ref()))]
    Unknown {
        /// "controller" or "scheme".
        kind: &'static str,
        /// Its name.
        owner: &'static str,
        /// The requested option.
        option: String,
        /// The nearest known option, if one is close enough.
        nearest: Option<&'static str>,
        /// All its options, or "none".
        known: String,
    },
    /// The value of the option is not allowed.
    #[error("{kind} `{owner}`: option `{option}` is {value}; expected {allowed}{}{unit}", if unit.is_empty() { "" } else { " " })]
    NotAllowed {
        /// "controller" or "scheme".
        kind: &'static str,
        /// Its name.
        owner: &'static str,
        /// The option.
        option: &'static str,
        /// The requested value, as the user wrote it.
        value: String,
        /// Allowed values.
        allowed: Allowed,
        /// Unit; empty: none.
        unit: &'static str,
    },
}

/// Joins lists of options of `N` in all; for [`options!`](crate::options!).
#[must_use]
pub const fn join<const N: usize>(lists: &[&[OptionSpec]]) -> [OptionSpec; N] {
    let mut all = [switch("", "", false, "").spec; N];
    let (mut list, mut next) = (0, 0);
    while list < lists.len() {
        let mut i = 0;
        while i < lists[list].len() {
            all[next] = lists[list][i];
            (i, next) = (i + 1, next + 1);
        }
        list += 1;
    }
    all
}

/// Declares a struct of options: `field: type = tunable` for each, then `..field: type` for the options of other parts. See the [module](crate::tunables).
#[macro_export]
macro_rules! options {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($field:ident: $type:ty = $tunable:expr,)*
            $(..$part:ident: $of:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "the option has a description")]
        $visible struct $name {
            $(pub $field: $type,)*
            $(pub $part: $of,)*
        }

        impl $crate::tunables::OptionSet for $name {
            const SPECS: &'static [$crate::tunables::OptionSpec] = {
                const OWN: &[$crate::tunables::OptionSpec] = &[$({
                    const TUNABLE: $crate::tunables::Tunable<$type> = $tunable;
                    TUNABLE.spec
                },)*];
                &$crate::tunables::join::<{ OWN.len() $(+ <$of as $crate::tunables::OptionSet>::SPECS.len())* }>(&[
                    OWN,
                    $(<$of as $crate::tunables::OptionSet>::SPECS,)*
                ])
            };

            fn read(values: &$crate::tunables::Values) -> Self {
                Self {
                    $($field: {
                        const TUNABLE: $crate::tunables::Tunable<$type> = $tunable;
                        values.get(&TUNABLE)
                    },)*
                    $($part: <$of as $crate::tunables::OptionSet>::read(values),)*
                }
            }
        }
    };
}

/// Declares an enum of named choices, `Variant = "name"` each, with a function `option` that declares an option of this type. See the [module](crate::tunables).
#[macro_export]
macro_rules! choices {
    ($(#[$about:meta])* $visible:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Declares an option with these choices.
            #[must_use]
            pub const fn option(
                name: &'static str,
                description: &'static str,
                default: Self,
                source: &'static str,
            ) -> $crate::tunables::Tunable<Self> {
                let default = match default {
                    $(Self::$variant => $text,)+
                };
                $crate::tunables::choice(name, description, default, &[$($text),+], source)
            }
        }

        impl $crate::tunables::OptionType for $name {
            fn from_value(value: $crate::tunables::Value, spec: &$crate::tunables::OptionSpec, _is_set: bool) -> Self {
                match value {
                    $($crate::tunables::Value::Choice($text) => Self::$variant,)+
                    other => unreachable!("{} is {other}: a checked value is one of the choices", spec.name),
                }
            }
        }
    };
}
