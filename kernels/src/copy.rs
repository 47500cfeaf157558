//! The kernels of `copy`.

use crate::{Call, Fault};
use plan::prim::{Concat, Copy};

/// Runs [`Copy`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn copy(_p: &Copy, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Copy"))
}

/// Runs [`Concat`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn concat(_p: &Concat, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Concat"))
}
