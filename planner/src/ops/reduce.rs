//! Reductions, arg-reductions and running sums.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
