//! Normalisations and softmax.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
