//! Offsets for pieces of memory with known lifetimes: dynamic storage allocation.
//!
//! A pure function of its input. Greedy placements come first; where the best is above the bound, a branch-and-bound search
//! (`search`) looks for a placement at the bound, and if its budget does not suffice, at targets in between. It counts search
//! steps, never time, and breaks ties by index.
//!
//! An item may need only some of its bytes at a time ([`Window`]), so that others may lie in the rest. Greedy placements make
//! use of that; the search knows only whole items, and is tried for what they can come to.

mod greedy;
mod placed;
mod search;
mod sections;
mod targets;
mod windows;

use sections::Problem;
pub use windows::Window;

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Bytes.
    pub size: u64,
    /// What its offset is a multiple of.
    pub align: u64,
    /// The first tick of its life.
    pub start: u64,
    /// The tick after its life.
    pub end: u64,
    /// Where it must lie.
    pub fixed: Option<u64>,
}

/// A placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The offset of each item.
    pub offsets: Vec<u64>,
    /// The end of the highest item.
    pub height: u64,
    /// No placement can be lower than this.
    pub bound: u64,
    /// Whether this one is proven to be the lowest.
    pub optimal: bool,
    /// Search steps taken.
    pub nodes: u64,
}

/// Places items so that no two overlap in time and space, as low as `budget` search steps allow.
///
/// Pinned items must not overlap each other; nothing else is assumed of the input.
pub fn pack(items: &[Item], budget: u64) -> Packing {
    pack_under(items, &[], None, budget)
}

/// As [`pack`], but content with any height up to `capacity`.
pub fn pack_within(items: &[Item], capacity: u64, budget: u64) -> Packing {
    pack_under(items, &[], Some(capacity), budget)
}

/// As [`pack`] and [`pack_within`], for items of which some need no more than their windows: at the place of each a list, by
/// time; none, or nothing at its place: all of its bytes, all of its life.
pub fn pack_windows(items: &[Item], windows: &[Option<Vec<Window>>], capacity: Option<u64>, budget: u64) -> Packing {
    pack_under(items, windows, capacity, budget)
}

fn pack_under(items: &[Item], windows: &[Option<Vec<Window>>], capacity: Option<u64>, budget: u64) -> Packing {
    let problem = Problem::new(items, windows);
    let bound = problem.bound();
    let enough = capacity.unwrap_or(bound).max(bound);
    let greedy = greedy::portfolio(&problem, enough);
    let height = problem.height(&greedy);
    if height <= enough || budget == 0 {
        return Packing { offsets: greedy, height, bound, optimal: height <= bound, nodes: 0 };
    }
    let mut best = targets::Best::new(&problem, greedy, height, bound);
    // A height that was asked for is worth the whole budget; the bound may be out of reach.
    let first = if capacity.is_some() { budget } else { budget / 16 };
    best.improve(enough.max(problem.whole_bound()), budget, first);
    Packing { height: best.height, bound, optimal: best.is_proven(), nodes: best.nodes, offsets: best.offsets }
}

#[cfg(test)]
mod tests;
