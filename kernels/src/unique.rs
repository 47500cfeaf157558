//! The kernels of `unique`.

use crate::{Call, Fault, Meta};
use plan::prim::Unique;

/// Runs [`Unique`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn unique(_p: &Unique, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Unique"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Unique, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
