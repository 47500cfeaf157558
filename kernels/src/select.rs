//! The kernels of `select`.

use crate::{Call, Fault};
use plan::prim::{Compress, NonZero};

/// Runs [`NonZero`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn non_zero(_p: &NonZero, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("NonZero"))
}

/// Runs [`Compress`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn compress(_p: &Compress, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Compress"))
}
