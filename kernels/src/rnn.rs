//! The kernels of `rnn`.

use crate::{Call, Fault, Meta};
use plan::prim::Rnn;

/// Runs [`Rnn`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn rnn(_p: &Rnn, _call: &mut Call<'_, '_>) -> Result<(), Fault> {
    Err(Fault::Unsupported("Rnn"))
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Rnn, _reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    Ok(0)
}
