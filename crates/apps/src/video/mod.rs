//! A video player: it requests chunks one after the other over one connection, and chooses the quality of each.
//!
//! | module | holds |
//! |---|---|
//! | [`observation`] | what a policy sees, and the trait of policies |
//! | [`choices`] | the policy with what has arrived, for any player |
//! | [`player`] | requests, the buffer, stalls |
//! | [`throughput`] | the mean of past throughputs and its errors |
//! | [`rates`] | rates to come on a path |
//! | [`plan`] | the best qualities of the next chunks, for given rates to come |
//! | [`robust_mpc`], [`mpc`], [`mpc_forecast`], [`mpc_oracle`] | policies that plan |
//! | [`buffer`], [`bola`] | policies by the buffer alone |
//!
//! Each chunk is an item; its kind has the quality ([`kind`]). Stalls and buffer follow from the items' times.

pub mod bola;
pub mod buffer;
pub mod choices;
pub mod mpc;
pub mod mpc_forecast;
pub mod mpc_oracle;
pub mod observation;
pub mod plan;
pub mod player;
pub mod rates;
pub mod robust_mpc;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod throughput;

pub use choices::Choices;
pub use observation::{Download, Observation, Policy, Video};
pub use player::Player;

use bentpipe_profile::video::{VideoPolicy, VideoSpec};

/// Return the kind of an item: a chunk at a quality, counted from 0.
#[must_use]
pub fn kind(quality: usize) -> String {
    format!("chunk/{quality}")
}

/// Build the policy of a player.
///
/// # Panics
/// If the policy uses rates to come and the specification, which was not checked, has none.
#[must_use]
pub fn policy(spec: &VideoSpec) -> Box<dyn Policy> {
    let outlook = || spec.outlook.clone().expect("checked: these policies have one");
    match spec.policy {
        VideoPolicy::RobustMpc => Box::new(robust_mpc::RobustMpc::default()),
        VideoPolicy::Mpc => Box::new(mpc::Mpc),
        VideoPolicy::MpcForecast => Box::new(mpc_forecast::MpcForecast::new(outlook())),
        VideoPolicy::MpcOracle => Box::new(mpc_oracle::MpcOracle::new(&outlook())),
        VideoPolicy::Buffer => Box::new(buffer::Buffer),
        VideoPolicy::Bola => Box::new(bola::Bola),
    }
}
