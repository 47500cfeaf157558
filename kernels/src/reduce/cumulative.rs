//! Running sums and products.

use crate::{
    Call, Fault,
    number::{Number, match_number},
};
use plan::prim::Cumulative;

/// Columns that are worked on at once.
const COLUMNS: usize = 32;

/// Runs [`Cumulative`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn cumulative(p: &Cumulative, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    if src.dtype() != dst.dtype() {
        return Err(Fault::DType { found: src.dtype(), wanted: dst.dtype().name() });
    }
    let axis = usize::from(p.axis);
    let dims = src.dims();
    if dims != dst.dims() || axis >= dims.len() {
        return Err(Fault::Shape("running sums keep the dims"));
    }
    let (extent, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    if dst.is_empty() {
        return Ok(());
    }
    if !src.is_shared() {
        dst.bytes()?.copy_from_slice(src.bytes()?);
    }
    match_number!(dst.dtype(), T => {
        for slab in dst.slice::<T>()?.chunks_exact_mut(extent * inner) {
            run(p, slab, inner);
        }
        Ok(())
    })
}

/// In place over one slab of rows of `inner` elements.
fn run<T: Number>(p: &Cumulative, slab: &mut [T], inner: usize) {
    let start = if p.product { T::ONE } else { T::ZERO };
    let join = if p.product { T::mul } else { T::add };
    let rows = slab.len() / inner;
    let mut column = 0;
    while column < inner {
        let n = (inner - column).min(COLUMNS);
        let mut acc = [start; COLUMNS];
        for i in 0..rows {
            let at = if p.reverse { rows - 1 - i } else { i } * inner + column;
            for (x, acc) in slab[at..at + n].iter_mut().zip(&mut acc) {
                let before = *acc;
                *acc = join(before, x.widen());
                *x = T::narrow(if p.exclusive { before } else { *acc });
            }
        }
        column += n;
    }
}
