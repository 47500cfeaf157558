//! Tests of the memory planner.

pub(crate) mod build;
mod fixtures;
mod light;
mod mutations;
mod pins;
mod random;
mod reasons;
mod refusals;
mod rules;
pub(crate) mod run;
mod scale;
mod sharing;
mod small;
