//! The kernels of `conv`.

use crate::{Call, Fault, Meta};
use plan::prim::Conv;

/// Runs [`Conv`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn conv(_p: &Conv<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Conv"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Conv<i64>, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
