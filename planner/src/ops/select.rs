//! Selection by data: non-zero elements, top-k, unique.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
