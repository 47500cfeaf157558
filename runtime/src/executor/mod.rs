//! Executors of plans on a device: one that takes and gives back memory as the run goes ([`EagerExec`]), and one whose memory
//! is fixed before the first run, so that a device graph may record its runs ([`StaticExec`]).
//!
//! Both walk the plan as the interpreter does and differ only in where buffers lie. What only one of them may do, only its type
//! offers: the eager one cannot be captured, the static one has nothing to free.

mod capture;
mod common;
mod eager;
mod fingerprint;
mod fixed;
mod memory;
mod segments;

pub use capture::{Captured, Guard};
pub use eager::EagerExec;
pub use fingerprint::Binding;
pub use fixed::StaticExec;
pub use segments::Piece;
