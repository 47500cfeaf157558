//! Tests of the memory planner.

mod build;
mod fixtures;
mod mutations;
mod random;
mod scale;
mod sharing;
