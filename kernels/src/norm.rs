//! The kernels of `norm`.

use crate::{Call, Fault};
use plan::prim::Norm;

/// Runs [`Norm`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn norm(_p: &Norm, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Norm"))
}
