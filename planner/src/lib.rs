//! planner
pub mod onnx;
pub mod shape;
