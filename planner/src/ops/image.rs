//! Resampling and image operators.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
