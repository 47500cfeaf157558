//! The kernels of `attention`.

use crate::{Call, Fault, Meta};
use plan::prim::Attention;

/// Runs [`Attention`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn attention(_p: &Attention<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Attention"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Attention<i64>, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
