//! Offsets for pieces of memory with known lifetimes: dynamic storage allocation.
//!
//! A pure function of its input. It counts search steps, never time, and breaks ties by index.

mod greedy;
mod sections;

use sections::Problem;

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
pub fn pack(items: &[Item], _budget: u64) -> Packing {
    let problem = Problem::new(items);
    let bound = problem.bound();
    let best = greedy::portfolio(&problem, bound);
    let height = problem.height(&best);
    Packing { offsets: best, height, bound, optimal: height <= bound, nodes: 0 }
}
