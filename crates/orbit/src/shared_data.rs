//! Real measurements for tests: below `BENTPIPE_DATA`, or `shared/data` beside the checkout.

use std::path::{Path, PathBuf};

/// Returns the path of `name`; None if it is missing and the test may be skipped.
///
/// # Panics
/// If it is missing and `BENTPIPE_REQUIRE` has `data`.
#[expect(clippy::disallowed_methods, reason = "tests have two environment variables (CONTRIBUTING.md)")]
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var("BENTPIPE_DATA").map_or(beside, PathBuf::from);
    let required = std::env::var("BENTPIPE_REQUIRE").unwrap_or_default();
    match find(&folder, name, &required) {
        Ok(path) => Some(path),
        Err(Missing::Skipped(reason)) => {
            eprintln!("skipped: {reason}");
            None
        }
        Err(Missing::Required(reason)) => panic!("{reason}"),
    }
}

#[derive(Debug, PartialEq)]
enum Missing {
    Skipped(String),
    Required(String),
}

fn find(folder: &Path, name: &str, required: &str) -> Result<PathBuf, Missing> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(path);
    }
    let reason = format!("no measurements at {} (BENTPIPE_DATA names another folder)", path.display());
    let is_required = required.split(',').any(|word| word == "data");
    Err(if is_required { Missing::Required(reason) } else { Missing::Skipped(reason) })
}

#[test]
fn missing_measurements_fail_a_test_only_where_they_are_required() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(find(crate_folder, "Cargo.toml", "data"), Ok(crate_folder.join("Cargo.toml")));
    for required in ["data", "emu,data"] {
        assert!(matches!(find(crate_folder, "missing", required), Err(Missing::Required(_))), "{required}");
    }
    for optional in ["", "emu"] {
        assert!(matches!(find(crate_folder, "missing", optional), Err(Missing::Skipped(_))), "{optional}");
    }
}
