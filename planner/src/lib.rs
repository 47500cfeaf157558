//! planner
pub mod shape;
