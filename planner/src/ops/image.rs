//! Resampling and other operators on images.

use super::Operator;

mod resize;

pub(super) const OPERATORS: &[Operator] =
    &[super::op("Resize", resize::resize), super::op("Upsample", resize::upsample)];
