//! The kernels of `random`.

use crate::{Call, Fault};
use plan::prim::Random;

/// Runs [`Random`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn random(_p: &Random, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Random"))
}
