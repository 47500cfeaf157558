//! The kernels of `nms`.

use crate::{Call, Fault, Meta};
use plan::prim::NonMaxSuppression;

/// Runs [`NonMaxSuppression`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn nms(_p: &NonMaxSuppression, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("NonMaxSuppression"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &NonMaxSuppression, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
