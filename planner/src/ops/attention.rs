//! Attention and rotary embeddings.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
