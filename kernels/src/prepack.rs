//! The kernels of `prepack`.

use crate::{Call, Fault};
use plan::prim::Prepack;

/// Runs [`Prepack`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn prepack(_p: &Prepack, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Prepack"))
}
