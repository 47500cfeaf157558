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
mod call;
#[cfg(feature = "alloc")]
pub mod device;
mod error;
#[cfg(all(feature = "interpret", feature = "std"))]
pub mod executor;
mod frame;
#[cfg(feature = "alloc")]
mod heap;
#[cfg(feature = "interpret")]
pub mod interpret;
mod kernel;
#[cfg(feature = "std")]
pub mod ledger;
mod operand;
#[cfg(feature = "sim")]
pub mod sim;
mod size;
mod view;
mod weights;

pub use arena::Arena;
#[cfg(feature = "alloc")]
pub use arena::{AlignedBytes, OWNED_ALIGN};
pub use call::{DeviceCall, DeviceProblem};
pub use error::{Error, ErrorKind, Name, TensorProblem};
pub use frame::{Frame, Scratch};
pub use half;
#[cfg(feature = "alloc")]
pub use heap::{Account, EagerFrame, Heap, Turn};
pub use kernel::Kernel;
pub use kernels::{self, Fault, Isa};
pub use operand::{Operand, Room, Space};
pub use plan::{self, DType};
pub use size::{Size, entry, found, guard_at_most, guard_equal, no_room, same, size};
#[cfg(feature = "alloc")]
pub use view::held_output;
pub use view::{Scalar, View, as_bytes, copy_into, from_bytes, output, set_state};
pub use weights::{Aligned, Weights, verify};
#[cfg(feature = "std")]
pub use weights::{SharedWeights, hex_digest};
