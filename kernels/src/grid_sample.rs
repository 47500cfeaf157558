//! The kernels of `grid_sample`.

use crate::{Call, Fault};
use plan::prim::GridSample;

/// Runs [`GridSample`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn grid_sample(_p: &GridSample, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("GridSample"))
}
