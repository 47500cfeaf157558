//! The planner: reads an ONNX model and decides, once and for all, which steps run, in which order, and where every byte lives.

pub mod graph;
pub mod memory;
pub mod onnx;
pub mod ops;
pub mod schedule;
pub mod shape;
