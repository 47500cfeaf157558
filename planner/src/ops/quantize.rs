//! Quantisation and what runs on quantised data.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
