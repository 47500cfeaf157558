//! The kernels of `pad`.

use crate::{Call, Fault};
use plan::prim::Pad;

/// Runs [`Pad`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn pad(_p: &Pad<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Pad"))
}
