//! Gathering and scattering.

use super::Operator;

pub(super) const OPERATORS: &[Operator] = &[];
