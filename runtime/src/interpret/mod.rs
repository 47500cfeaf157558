//! Running plans without generating code: for tests, tools and constant folding.

mod call;
mod fold;

pub use fold::{FoldInput, Folded, fold};
