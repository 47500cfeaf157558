//! What generated code stands on: the arena and the views of it, weights, devices, and the errors that callers see.
//! With the feature `interpret`, a plan can be run without generating code.
//!
//! Every step, generated or interpreted, goes through [`Frame::call`], which checks where its operands lie. Nothing here
//! knows how a plan came to be.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "alloc")]
extern crate alloc;

mod arena;
mod error;
mod frame;
#[cfg(feature = "interpret")]
pub mod interpret;
mod kernel;
mod operand;

pub use arena::Arena;
#[cfg(feature = "alloc")]
pub use arena::{AlignedBytes, OWNED_ALIGN};
pub use error::{Error, ErrorKind, Name, TensorProblem};
pub use frame::{Frame, Scratch};
pub use kernel::Kernel;
pub use kernels::{self, Fault, Isa};
pub use operand::{Operand, Space};
pub use plan::{self, DType};
