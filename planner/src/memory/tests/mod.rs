//! Tests of the memory planner.

pub(crate) mod build;
mod fixtures;
mod light;
mod mutations;
mod random;
mod scale;
mod sharing;
