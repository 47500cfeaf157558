//! The kernels of `col2im`.

use crate::{Call, Fault};
use plan::prim::Col2Im;

/// Runs [`Col2Im`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn col2im(_p: &Col2Im, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Col2Im"))
}
