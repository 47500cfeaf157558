//! The kernels of `gather`.

use crate::{Call, Fault};
use plan::prim::{Gather, GatherElements, GatherNd};

/// Runs [`Gather`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn gather(_p: &Gather, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Gather"))
}

/// Runs [`GatherElements`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn gather_elements(_p: &GatherElements, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("GatherElements"))
}

/// Runs [`GatherNd`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn gather_nd(_p: &GatherNd, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("GatherNd"))
}
