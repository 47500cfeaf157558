//! Tests of the memory planner.

mod build;
mod fixtures;
mod random;
