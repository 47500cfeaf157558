//! Elementwise arithmetic, functions and comparisons.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
