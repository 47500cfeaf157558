//! What plans of small models do with memory: outputs that are views, branches, loops, and what is not the run's.

mod common;
#[path = "common/onnx.rs"]
mod onnx;

#[path = "devices/kit.rs"]
#[allow(dead_code)]
mod kit;

#[path = "memory/control.rs"]
mod control;
#[path = "memory/escapes.rs"]
mod escapes;
