//! The kernels of `topk`.

use crate::{Call, Fault, Meta};
use plan::prim::TopK;

/// Runs [`TopK`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn topk(_p: &TopK, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("TopK"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &TopK, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
