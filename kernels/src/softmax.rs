//! The kernels of `softmax`.

use crate::{Call, Fault, Meta};
use plan::prim::Softmax;

/// Runs [`Softmax`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn softmax(_p: &Softmax, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Softmax"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Softmax, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
