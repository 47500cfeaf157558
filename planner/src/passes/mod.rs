//! Rewrites on the graph.
//!
//! Each pass is a function from a graph to whether it changed anything, with a name and a numerics class. The verifier runs after each
//! in debug builds.

mod absorb;
mod common;
mod dead;
mod fuse;
mod patterns;
mod prepack;
mod reserve;
mod rewrite;

use crate::graph::{Broken, Graph};

/// What a pass may do to results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Numerics {
    /// The same bits.
    Exact,
    /// Sums and products in another order.
    Reassociates,
    /// Other formulas.
    Approximates,
}

/// Whether a pass changed the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It did.
    Yes,
    /// It did not.
    No,
}

/// What passes share.
#[derive(Default)]
pub struct Context {
    /// Why rewrites did not fire, for `planner explain`.
    pub notes: Vec<String>,
}

/// One pass.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name in messages.
    pub name: &'static str,
    /// What it may do to results.
    pub numerics: Numerics,
    /// The rewrite.
    pub run: fn(&mut Graph, &mut Context) -> Changed,
}

/// The passes, in order.
pub const PASSES: &[Pass] = &[
    Pass { name: "reserve", numerics: Numerics::Exact, run: reserve::run },
    Pass { name: "dead-code", numerics: Numerics::Exact, run: dead::run },
    Pass { name: "common-subexpressions", numerics: Numerics::Exact, run: common::run },
    Pass { name: "patterns", numerics: Numerics::Approximates, run: patterns::run },
    Pass { name: "dead-code", numerics: Numerics::Exact, run: dead::run },
    Pass { name: "absorb", numerics: Numerics::Reassociates, run: absorb::run },
    Pass { name: "dead-code", numerics: Numerics::Exact, run: dead::run },
    Pass { name: "fuse", numerics: Numerics::Exact, run: fuse::run },
    Pass { name: "prepack", numerics: Numerics::Approximates, run: prepack::run },
    Pass { name: "dead-code", numerics: Numerics::Exact, run: dead::run },
];

/// Runs every pass.
///
/// # Errors
/// In debug builds, when a pass broke the graph.
pub fn run(graph: &mut Graph, context: &mut Context) -> Result<(), Broken> {
    for pass in PASSES {
        (pass.run)(graph, context);
        if cfg!(debug_assertions) {
            graph.verify().map_err(|b| Broken { node: format!("{} (after {})", b.node, pass.name), ..b })?;
        }
    }
    Ok(())
}
