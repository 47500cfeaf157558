//! Fourier transforms and windows.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
