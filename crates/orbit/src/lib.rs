//! Orbits to paths: elements, positions, visibility, the handover schedule and routes. No packets, no clock, no files.

#![allow(clippy::many_single_char_names, reason = "the published equations' own symbols")]

pub mod batch;
pub mod access;
pub mod elements;
pub mod ephemeris;
mod error;
pub mod frames;
pub mod isl;
pub mod parallel;
pub mod propagate;
pub mod route;
pub mod schedule;
mod simd;
pub mod site;
pub mod sun;
pub mod visibility;
pub mod walker;

pub use error::{OrbitError, Place};
