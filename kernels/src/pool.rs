//! The kernels of `pool`.

use crate::{Call, Fault};
use plan::prim::Pool;

/// Runs [`Pool`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn pool(_p: &Pool<i64>, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Pool"))
}
