//! The planner: reads an ONNX model and decides, once and for all, which steps run, in which order, and where every byte lives.

#[cfg(feature = "cli")]
pub mod cli;
mod error;
mod front;
pub mod graph;
pub mod memory;
pub mod onnx;
pub mod ops;
pub mod passes;
mod peak;
pub mod schedule;
pub mod shape;
mod size;
pub mod workspace;

pub use error::{Error, ErrorKind};
#[cfg(test)]
pub(crate) use front::finish;
pub use front::{DimOption, DimTarget, Fixed, Options, Planned, lower, plan};
pub use schedule::Weights;
pub use size::parse_bytes;
