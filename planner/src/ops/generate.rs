//! Constants, ranges, random numbers.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
