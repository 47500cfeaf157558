//! Plans on the simulated device: both executors, captures and replays, faults, and the accounts of memory.

mod common;
#[path = "common/onnx.rs"]
mod onnx;

#[path = "devices/capture.rs"]
mod capture;
#[path = "devices/eager.rs"]
mod eager;
#[path = "devices/kit.rs"]
mod kit;
#[path = "devices/lifecycle.rs"]
mod lifecycle;
#[path = "devices/real.rs"]
mod real;
