//! The kernels of `scatter`.

use crate::{Call, Fault};
use plan::prim::{ScatterElements, ScatterNd};

/// Runs [`ScatterElements`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn scatter_elements(_p: &ScatterElements, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("ScatterElements"))
}

/// Runs [`ScatterNd`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn scatter_nd(_p: &ScatterNd, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("ScatterNd"))
}
