//! Orbits to paths: elements, positions, visibility, the handover schedule and routes. No packets, no clock, no files.
//!
//! | module | holds |
//! |---|---|
//! | [`elements`] | readers of TLE and OMM (CSV, JSON, XML), and how old elements are |
//! | [`walker`] | constellations made from their filings |
//! | [`propagate`] | SGP4 |
//! | [`frames`], [`site`], [`sun`] | the turning Earth, the ground, the Sun |
//! | [`visibility`] | who stands above a place |
//! | [`batch`], [`ephemeris`] | many satellites at many times |
//! | [`isl`], [`route`] | +Grid links, shortest paths, the state of a whole constellation |
//! | [`schedule`] | who serves a terminal in each 15 s slot |
//! | [`access`] | from a schedule to a Profile |
//! | [`parallel`] | how many cores the work takes |
//!
//! Conventions, approximations and what each costs: `docs/concepts/geometry.md`.

#![allow(clippy::many_single_char_names, reason = "the published equations' own symbols")]

pub mod access;
pub mod batch;
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
