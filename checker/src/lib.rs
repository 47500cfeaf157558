//! Says whether a plan's memory is sound, from the plan alone.
//!
//! The plan is executed on *shadow memory*: instead of data, every byte carries the name of the tensor that was last
//! written there. A step that reads a byte must find the tensor that it means to read; anything else is a rejection that
//! names the step, the tensor, the bytes and both owners. No liveness, alias or packing analysis is needed for that, and
//! none is shared with the planner: this crate depends on `plan` alone, and must not depend on more.
//!
//! Both executors are followed: the static one (one arena, constant offsets) and the eager one (every buffer taken and
//! given back at addresses that are never used again). Symbols take the corners of their ranges and two inner points,
//! branches go both ways, loops turn 0 to 3 times, and states are carried over two runs.
//!
//! A plan may come from a hand-written file: nothing here panics on any plan, and the work is capped.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod facts;
mod footprint;
mod peak;
mod points;
mod rejection;
mod run;
mod shadow;
mod step;
mod structure;
mod symbols;

pub use points::Points;
pub use rejection::{Executor, Owner, Reason, Rejection};

use plan::{BufferId, Plan};

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Assignments of the symbols.
    pub points: usize,
    /// Runs, over both executors and all ways through the control flow.
    pub runs: usize,
    /// Steps executed.
    pub steps: u64,
    /// Runs that the data could not take (an extent found by a step was impossible together with others).
    pub abandoned: usize,
    /// Buffers that the eager executor gives back later than it could.
    pub not_tight: Vec<BufferId>,
}

/// Checks a plan.
///
/// # Errors
/// The first thing found wrong.
pub fn check(plan: &Plan, points: &Points) -> Result<Report, Rejection> {
    structure::check(plan)?;
    let facts = facts::Facts::new(plan)?;
    peak::check(plan, &facts)?;
    run::check(plan, &facts, points)
}
