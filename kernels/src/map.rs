//! The kernels of `map`.

use crate::{Call, Fault};
use plan::prim::Map;

/// Runs [`Map`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn map(_p: &Map, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Map"))
}
