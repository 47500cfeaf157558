//! The kernels of `fill`.

use crate::{Call, Fault};
use plan::prim::{Iota, Literal};

/// Runs [`Iota`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn iota(_p: &Iota<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Iota"))
}

/// Runs [`Literal`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn literal(_p: &Literal<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Literal"))
}
