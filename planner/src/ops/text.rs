//! Strings, which live on the host.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
