//! Lowering: one function for each ONNX operator turns a node into primitives, views and control flow.
//!
//! An operator lives in the file of its family, with one line in that file's `OPERATORS`. See `docs/adding-an-operator.md`.

mod control;
mod lower;
#[cfg(test)]
pub(crate) mod nets;
mod program;
#[cfg(test)]
mod tests;
mod value;
mod window;

mod activation;
mod attention;
mod contrib;
mod conv;
mod gather;
mod generate;
mod image;
mod loss;
mod math;
mod matmul;
mod norm;
mod pool;
mod quantize;
mod reduce;
mod repeat;
mod rnn;
mod select;
mod sequence;
mod shape;
mod signal;
mod slice;
mod text;
mod training;

pub use lower::{Cx, Found};
pub use value::{Strings, Val, dtype_of};

use crate::graph::Problem;
use crate::onnx::Node;

/// What lowering an operator gives: its outputs in order. Fewer than the node has names for is an error unless those are unused.
pub type Lowered = Result<Vec<Val>, Problem>;

/// Lowers one node.
pub type Lower = fn(&mut Cx<'_>, &Node) -> Lowered;

/// One supported operator.
#[derive(Clone, Copy)]
pub struct Operator {
    /// The name, with the domain and `::` before it where that is not the standard's.
    pub name: &'static str,
    /// What lowers it, for every opset from 7 on.
    pub lower: Lower,
}

/// Shorthand for the tables of the families.
const fn op(name: &'static str, lower: Lower) -> Operator {
    Operator { name, lower }
}

const FAMILY_TABLES: &[&[Operator]] = &[
    control::OPERATORS,
    activation::OPERATORS,
    attention::OPERATORS,
    contrib::OPERATORS,
    conv::OPERATORS,
    gather::OPERATORS,
    generate::OPERATORS,
    image::OPERATORS,
    loss::OPERATORS,
    math::OPERATORS,
    matmul::OPERATORS,
    norm::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    reduce::OPERATORS,
    rnn::OPERATORS,
    select::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    slice::OPERATORS,
    text::OPERATORS,
    training::OPERATORS,
];

/// Every supported operator, in the order of their names.
pub fn operators() -> Vec<Operator> {
    let mut all: Vec<Operator> = FAMILY_TABLES.iter().flat_map(|t| t.iter().copied()).collect();
    all.sort_by_key(|o| o.name);
    all
}

/// The function that lowers an operator.
pub fn find(name: &str) -> Option<Lower> {
    FAMILY_TABLES.iter().flat_map(|t| t.iter()).find(|o| o.name == name).map(|o| o.lower)
}
