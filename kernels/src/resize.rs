//! The kernels of `resize`.

use crate::{Call, Fault, Meta};
use plan::prim::Resize;

/// Runs [`Resize`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn resize(_p: &Resize, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Resize"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Resize, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
