//! planner
pub mod graph;
pub mod onnx;
pub mod shape;
