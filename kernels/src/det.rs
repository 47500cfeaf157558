//! The kernels of `det`.

use crate::{Call, Fault, Meta};
use plan::prim::Det;

/// Runs [`Det`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn det(_p: &Det, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Det"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Det, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
