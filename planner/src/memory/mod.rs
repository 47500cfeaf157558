//! Where every byte lives, and when: from a naive plan (one buffer per tensor, none shared) to the final one.
//!
//! The stages, each in its own file:
//!
//! 1. `tree`: how the blocks nest; `lives`: from where to where a buffer is used;
//! 2. `order`: the order of the steps;
//! 3. `alias`: which buffers become one (in place, copies that need not be, operands of a concatenation, states);
//! 4. `windows`: which bytes of a buffer are needed when, and `pack`: an offset for each buffer that is left;
//! 5. `schedule`: the eager executor's takes and gives, and the certificate.
//!
//! `take` decides who may have whose memory, `rules` names what is decided by, `pins` tells what is held and why. `usage` reads a finished plan: what is live when.
//!
//! It works on [`plan::Plan`] alone and knows neither ONNX nor kernels beyond the table of primitives. Nothing here
//! depends on a clock or on the order of a hash map: the same plan in gives the same plan out.

mod alias;
mod concat;
mod exprs;
#[cfg(feature = "cli")]
pub mod formula;
mod known;
mod lives;
mod order;
pub mod pack;
pub mod pins;
mod poly;
mod rules;
mod schedule;
mod states;
mod take;
mod tree;
#[cfg(feature = "cli")]
pub mod usage;
mod views;
mod windows;

use plan::Plan;
pub(crate) use windows::Needs;

/// What the planner may do with memory.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Search steps of the exact packer. Greedy placements are tried in any case.
    pub pack_budget: u64,
    /// Whether steps may be put in another order.
    pub reorder: bool,
    /// Whether a step may write over what it is the last to read, and copies may be saved.
    pub in_place: bool,
    /// How long memory is held in which several tensors lie.
    pub pin: pins::Pin,
}

impl Default for Options {
    fn default() -> Self {
        Options { pack_budget: 50_000, reorder: true, in_place: true, pin: pins::Pin::Exact }
    }
}

/// Why a plan's memory cannot be planned. Each of these is a fault of the plan that was handed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An index points at nothing.
    #[error("{what} {index} does not exist")]
    Index {
        /// What was looked for.
        what: &'static str,
        /// The index.
        index: usize,
    },
    /// The blocks do not form a tree.
    #[error("block {block} {why}")]
    Blocks {
        /// The block.
        block: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The sizes are beyond what can be counted.
    #[error("the buffers need more than 2^63 bytes together")]
    TooLarge,
    /// The alignment is not a power of two.
    #[error("the alignment {0} is not a power of two")]
    Align(u64),
}

/// Plans the memory of a naive plan, in place.
///
/// # Errors
/// When the plan is not well formed; it may then be changed in part.
pub fn optimise(plan: &mut Plan, options: &Options) -> Result<(), Error> {
    optimise_by(plan, options, rules::Rules::default())
}

/// As [`optimise`], by these rules.
fn optimise_by(plan: &mut Plan, options: &Options, rules: rules::Rules) -> Result<(), Error> {
    if !plan.align.is_power_of_two() {
        return Err(Error::Align(plan.align));
    }
    tree::Tree::new(plan)?;
    views::name_roots(plan, rules)?;
    plan.certificate.naive_bytes = schedule::naive_bytes(plan)?;
    if options.reorder {
        order::improve(plan, options.in_place)?;
    }
    let tree = tree::Tree::new(plan)?;
    if options.in_place {
        alias::merge_by(plan, &tree, rules);
    }
    // Steps may be gone.
    let tree = tree::Tree::new(plan)?;
    schedule::finish(plan, &tree, options, rules)
}

#[cfg(test)]
pub(crate) mod tests;
