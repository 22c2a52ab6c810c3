//! Values of a controller's options in an Experiment, before the controller's own rules are checked.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Values of a controller's options that a user set, by name.
pub type OptionValues = BTreeMap<String, OptionValue>;

/// Value of one option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A number in the option's unit; a switch is 0 or 1.
    Number(f64),
    /// The name of a choice.
    Name(String),
}

impl From<f64> for OptionValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for OptionValue {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}
