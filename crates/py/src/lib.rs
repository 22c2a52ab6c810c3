//! Python bindings: one file per group of Python objects, one conversion of errors, no logic. Defaults and docstrings are in Python.

mod access;
mod app;
mod emu;
mod error;
mod hooks;
mod host_clock;
mod logs;
mod multipath;
mod network;
mod orbit;
mod plugin;
mod predictor;
mod profile;
mod recovery;
mod signals;
mod sim;
mod video;

use pyo3::prelude::*;

/// The native half of `bentpipe`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__emulator__", bentpipe_emu::BUILD)?;
    module.add_class::<profile::PyProfile>()?;
    module.add_class::<network::PyNetwork>()?;
    module.add_function(wrap_pyfunction!(access::build_profile, module)?)?;
    module.add_function(wrap_pyfunction!(access::access_parameters, module)?)?;
    module.add_class::<sim::PyRunData>()?;
    module.add_class::<hooks::HookReplay>()?;
    module.add_class::<host_clock::PyHostClock>()?;
    module.add_class::<plugin::Ack>()?;
    module.add_class::<app::PyMessage>()?;
    module.add_function(wrap_pyfunction!(hooks::traced_controller, module)?)?;
    module.add_function(wrap_pyfunction!(sim::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(multipath::simulate_multipath, module)?)?;
    module.add_function(wrap_pyfunction!(sim::controllers, module)?)?;
    module.add_function(wrap_pyfunction!(sim::read_tunable, module)?)?;
    module.add_function(wrap_pyfunction!(sim::option_words, module)?)?;
    module.add_function(wrap_pyfunction!(sim::option_values, module)?)?;
    module.add_function(wrap_pyfunction!(recovery::recovery_schemes, module)?)?;
    module.add_function(wrap_pyfunction!(recovery::read_recovery_tunable, module)?)?;
    module.add_function(wrap_pyfunction!(sim::ping, module)?)?;
    module.add_function(wrap_pyfunction!(sim::one_way_delays, module)?)?;
    module.add_function(wrap_pyfunction!(logs::ping_replies, module)?)?;
    module.add_function(wrap_pyfunction!(logs::table_rows, module)?)?;
    module.add_function(wrap_pyfunction!(signals::feature_names, module)?)?;
    module.add_function(wrap_pyfunction!(signals::features_table, module)?)?;
    module.add_class::<signals::PyFeatureStream>()?;
    module.add_class::<predictor::PyPredictorModel>()?;
    module.add_function(wrap_pyfunction!(emu::isolate, module)?)?;
    module.add_function(wrap_pyfunction!(emu::emulate, module)?)?;
    module.add_function(wrap_pyfunction!(emu::emulate_node, module)?)?;
    module.add_function(wrap_pyfunction!(emu::node_names, module)?)?;
    module.add_function(wrap_pyfunction!(emu::encode_profile, module)?)?;
    module.add_function(wrap_pyfunction!(emu::summarise_emulation, module)?)?;
    module.add_class::<video::PyVideoChoices>()?;
    module.add_class::<orbit::PySatellites>()?;
    module.add_function(wrap_pyfunction!(orbit::scheduling_policies, module)?)?;
    module.add_function(wrap_pyfunction!(orbit::track_position, module)?)?;
    Ok(())
}
