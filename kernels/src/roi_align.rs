//! The kernels of `roi_align`.

use crate::{Call, Fault};
use plan::prim::RoiAlign;

/// Runs [`RoiAlign`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn roi_align(_p: &RoiAlign, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("RoiAlign"))
}
