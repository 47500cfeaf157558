//! Reductions over axes, places of extremes, and running sums.
//!
//! Sums of f32 (and of f16 and bf16, in f32) are taken in blocks, each over several lanes, and the blocks added: the error grows
//! with the logarithm of a block and the number of blocks, not with the number of elements. The lanes are the same on every
//! instruction set, and so are the bits of the result.

mod arg;
mod cumulative;
mod fold;

pub use arg::arg_reduce;
pub use cumulative::cumulative;

use crate::{
    Call, Dst, Fault, Isa, Src,
    number::{Number, match_number},
    walk::Walk,
};
use fold::{Fold, Max, Min, Prod, Sum, SumAbs, SumSquare};
use plan::{
    Axes, DType,
    prim::{Reduce, ReduceOp},
};

/// Runs [`Reduce`]. Nothing reduces to the neutral element: 0, 1, the least number for `Max`, the greatest for `Min`; the mean of
/// no floats is NaN, of no integers 0.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn reduce(p: &Reduce, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let isa = call.isa();
    if src.dtype() != dst.dtype() {
        return Err(Fault::DType { found: dst.dtype(), wanted: src.dtype().name() });
    }
    let axes = Split::new(&src, &dst, &p.axes)?;
    if dst.is_empty() {
        return Ok(());
    }
    if src.dtype() == DType::Bool {
        let out = dst.bits::<u8>()?;
        // SAFETY: the walks are those of the view.
        unsafe {
            match p.op {
                ReduceOp::Max => axes.fold::<u8, Max>(isa, &src, out, |x| u8::from(x != 0)),
                ReduceOp::Min => axes.fold::<u8, Min>(isa, &src, out, |x| u8::from(x != 0)),
                _ => return Err(Fault::DType { found: DType::Bool, wanted: "a number" }),
            }
        }
        return Ok(());
    }
    match_number!(src.dtype(), T => run::<T>(p.op, isa, &axes, &src, dst.slice::<T>()?))
}

/// The axes of a reduction: those that are kept, in order, and those that are not.
struct Split {
    kept: Walk<1>,
    reduced: Walk<1>,
}

impl Split {
    fn new(src: &Src<'_>, dst: &Dst<'_>, axes: &[u8]) -> Result<Split, Fault> {
        if src.is_shared() {
            return Err(Fault::Shared);
        }
        if src.dims().len() != dst.dims().len() {
            return Err(Fault::Shape("a reduction keeps the rank"));
        }
        let empty = (Axes::<usize>::EMPTY, Axes::<isize>::EMPTY);
        let (mut kept, mut reduced) = (empty, empty);
        for (axis, ((dim, stride), out)) in src.dims().iter().zip(src.strides()).zip(dst.dims()).enumerate() {
            let gone = axes.iter().any(|a| usize::from(*a) == axis);
            if *out != if gone { 1 } else { *dim } {
                return Err(Fault::Shape("a reduction has 1 at its axes and keeps the others"));
            }
            let (dims, strides) = if gone { &mut reduced } else { &mut kept };
            // Both have room for all axes.
            let _ = (dims.push(*dim), strides.push(*stride));
        }
        if axes.iter().any(|a| usize::from(*a) >= src.dims().len()) {
            return Err(Fault::Shape("an axis is not one of the data"));
        }
        Ok(Split { kept: Walk::new(&kept.0, [&kept.1]), reduced: Walk::any_order(&reduced.0, [&reduced.1]) })
    }

    /// # Safety
    /// The walks are those of `src`, whose elements have the bits of a `T`.
    unsafe fn fold<T: Number, F: Fold<T>>(
        &self,
        isa: Isa,
        src: &Src<'_>,
        out: &mut [T],
        finish: impl Fn(T::Acc) -> T::Acc,
    ) {
        let from = src.as_ptr().cast_const().cast::<T>();
        // SAFETY: passed on to the caller.
        unsafe { fold::fold::<T, F>(isa, from, &self.kept, &self.reduced, out, finish) }
    }
}

fn run<T: Number>(op: ReduceOp, isa: Isa, axes: &Split, src: &Src<'_>, out: &mut [T]) -> Result<(), Fault> {
    let through = |f: fn(f64) -> f64| move |x: T::Acc| T::from_f64(f(T::to_f64(x)));
    // SAFETY: the walks are those of the view, whose type is `T`.
    unsafe {
        match op {
            ReduceOp::Sum => axes.fold::<T, Sum>(isa, src, out, |x| x),
            ReduceOp::Mean => {
                let n = axes.reduced.len();
                axes.fold::<T, Sum>(isa, src, out, |x| T::mean(x, n));
            }
            ReduceOp::Prod => axes.fold::<T, Prod>(isa, src, out, |x| x),
            ReduceOp::Min => axes.fold::<T, Min>(isa, src, out, |x| x),
            ReduceOp::Max => axes.fold::<T, Max>(isa, src, out, |x| x),
            ReduceOp::L1 => axes.fold::<T, SumAbs>(isa, src, out, |x| x),
            ReduceOp::L2 => axes.fold::<T, SumSquare>(isa, src, out, through(libm::sqrt)),
            ReduceOp::SumSquare => axes.fold::<T, SumSquare>(isa, src, out, |x| x),
            ReduceOp::LogSum => axes.fold::<T, Sum>(isa, src, out, through(libm::log)),
            ReduceOp::LogSumExp => log_sum_exp(axes, src, out)?,
        }
    }
    Ok(())
}

/// The logarithm of the sum of exponentials, in f64, relative to the largest.
///
/// # Safety
/// The walks are those of `src`, whose type is `T`.
unsafe fn log_sum_exp<T: Number>(axes: &Split, src: &Src<'_>, out: &mut [T]) -> Result<(), Fault> {
    let from = src.as_ptr().cast_const().cast::<T>();
    let (mut out, [kept_step], [step]) = (out.iter_mut(), axes.kept.row_strides(), axes.reduced.row_strides());
    axes.kept.rows(|[at]| {
        for (k, to) in out.by_ref().take(axes.kept.row()).enumerate() {
            let at = at + k as isize * kept_step;
            let each = |f: &mut dyn FnMut(f64)| {
                axes.reduced.rows(|[r]| {
                    for i in 0..axes.reduced.row() as isize {
                        // SAFETY: the offsets are those of the walks.
                        f(T::to_f64(unsafe { *from.offset(at + r + i * step) }.widen()));
                    }
                    Ok::<(), Fault>(())
                })
            };
            let (mut top, mut sum) = (f64::NEG_INFINITY, 0.0);
            each(&mut |x| top = if x > top || x.is_nan() { x } else { top })?;
            let base = if top.is_infinite() { 0.0 } else { top };
            each(&mut |x| sum += libm::exp(x - base))?;
            *to = T::narrow(T::from_f64(base + libm::log(sum)));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
