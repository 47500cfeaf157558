//! Slices, splits, concatenation, padding.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
