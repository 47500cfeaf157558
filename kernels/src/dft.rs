//! The kernels of `dft`.

use crate::{Call, Fault, Meta};
use plan::prim::Dft;

/// Runs [`Dft`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn dft(_p: &Dft<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Dft"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Dft<i64>, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
