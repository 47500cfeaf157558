//! The kernels of `conv_transpose`.

use crate::{Call, Fault, Meta};
use plan::prim::ConvTranspose;

/// Runs [`ConvTranspose`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn conv_transpose(_p: &ConvTranspose<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("ConvTranspose"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &ConvTranspose<i64>, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
