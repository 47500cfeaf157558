//! The kernels of `matmul`.

pub(crate) mod activate;
#[allow(dead_code)]
pub(crate) mod gemm;
mod lanes;
mod micro;

use crate::{Call, Fault, Meta};
use plan::prim::MatMul;

/// Runs [`MatMul`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn matmul(_p: &MatMul, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("MatMul"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &MatMul, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
