//! Shapes, reshaping and type conversion.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
