//! Orbit computations: elements, positions, visibility, serving schedules, routes and the access model. No packets, no clock, no files.
//!
//! | module | holds |
//! |---|---|
//! | [`elements`] | readers of TLE and OMM (CSV, JSON, XML), and the age of elements |
//! | [`walker`] | constellations built from their filings |
//! | [`propagate`] | SGP4 |
//! | [`frames`], [`site`], [`sun`] | reference frames, points on the ground, the Sun |
//! | [`visibility`] | satellites above a site |
//! | [`batch`], [`ephemeris`] | many satellites at many times |
//! | [`isl`], [`mesh`], [`route`] | +Grid links, links of real satellites, shortest paths, the state of a whole constellation |
//! | [`schedule`] | the serving satellite of a terminal in each 15 s slot |
//! | [`track`] | positions of a moving terminal |
//! | [`access`] | builds a Profile from a schedule |
//! | [`network`] | makes a network of many paths from a constellation |
//! | [`parallel`] | number of threads |
//!
//! Conventions and approximations, with their errors: `docs/concepts/geometry.md`.

#![allow(clippy::many_single_char_names, reason = "the published equations' own symbols")]

pub mod access;
pub mod batch;
pub mod elements;
pub mod ephemeris;
mod error;
pub mod frames;
pub mod isl;
pub mod mesh;
pub mod network;
pub mod parallel;
pub mod propagate;
pub mod route;
pub mod schedule;
#[cfg(test)]
mod shared_data;
mod simd;
pub mod site;
pub mod sun;
pub mod track;
pub mod visibility;
pub mod walker;

pub use error::{OrbitError, Place};
