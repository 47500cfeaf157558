//! The kernels of `reduce`.

use crate::{Call, Fault};
use plan::prim::{ArgReduce, Cumulative, Reduce};

/// Runs [`Reduce`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn reduce(_p: &Reduce, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Reduce"))
}

/// Runs [`ArgReduce`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn arg_reduce(_p: &ArgReduce, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("ArgReduce"))
}

/// Runs [`Cumulative`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn cumulative(_p: &Cumulative, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Cumulative"))
}
