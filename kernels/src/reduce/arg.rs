//! Places of the largest or smallest.

use crate::{
    Call, Fault,
    number::{Number, match_number},
    walk::Walk,
};
use plan::{Axes, DType, prim::ArgReduce};

/// Runs [`ArgReduce`]. NaN is both larger and smaller than all numbers.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn arg_reduce(p: &ArgReduce, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let axis = usize::from(p.axis);
    let extent = *src.dims().get(axis).ok_or(Fault::Shape("the axis is not one of the data"))?;
    let fits = |(a, (s, d)): (usize, (&usize, &usize))| *d == if a == axis { 1 } else { *s };
    if src.dims().len() != dst.dims().len() || !src.dims().iter().zip(dst.dims()).enumerate().all(fits) {
        return Err(Fault::Shape("a reduction has 1 at its axis and keeps the others"));
    }
    if src.is_shared() {
        return Err(Fault::Shared);
    }
    let out = dst.slice::<i64>()?;
    if out.is_empty() {
        return Ok(());
    }
    if extent == 0 {
        return Err(Fault::Shape("nothing has no largest element"));
    }
    let others = |a: &usize| *a != axis;
    let dims = Axes::collect((0..src.dims().len()).filter(others).map(|a| src.dims()[a])).unwrap_or_default();
    let strides = Axes::collect((0..src.dims().len()).filter(others).map(|a| src.strides()[a])).unwrap_or_default();
    let line = Line { kept: Walk::new(&dims, [&strides]), step: src.strides()[axis], extent, max: p.max, last: p.last };
    let from = src.as_ptr().cast_const();
    match_number!(match src.dtype() { DType::Bool => DType::U8, other => other }, T => {
        // SAFETY: the walk is that of the view, whose type is `T`.
        unsafe { line.run(from.cast::<T>(), out) };
        Ok(())
    })
}

/// Results at once across the memory.
const COLUMNS: usize = 32;

struct Line {
    kept: Walk<1>,
    step: isize,
    extent: usize,
    max: bool,
    last: bool,
}

impl Line {
    /// # Safety
    /// The walk and the axis lead to elements at `from`.
    unsafe fn run<T: Number>(&self, from: *const T, out: &mut [i64]) {
        match (self.max, self.last) {
            // SAFETY: passed on to the caller.
            (true, false) => unsafe { self.find(from, out, |new, old| new > old || new.is_nan() && !old.is_nan()) },
            // SAFETY: as above.
            (false, false) => unsafe { self.find(from, out, |new, old| new < old || new.is_nan() && !old.is_nan()) },
            // SAFETY: as above.
            (true, true) => unsafe { self.find(from, out, |new, old| new >= old || new.is_nan()) },
            // SAFETY: as above.
            (false, true) => unsafe { self.find(from, out, |new, old| new <= old || new.is_nan()) },
        }
    }

    /// # Safety
    /// As [`Line::run`].
    unsafe fn find<T: Number>(&self, from: *const T, out: &mut [i64], better: impl Fn(T, T) -> bool) {
        let (width, [kept_step]) = (self.kept.row(), self.kept.row_strides());
        let mut out = out.iter_mut();
        // SAFETY: passed on to the caller.
        let done = self.kept.rows(|[at]| unsafe {
            let mut k = 0;
            while k < width {
                let n = (width - k).min(COLUMNS);
                let from = from.offset(at + k as isize * kept_step);
                let (mut best, mut place) = ([T::default(); COLUMNS], [0i64; COLUMNS]);
                for (c, best) in best.iter_mut().enumerate().take(n) {
                    *best = from.offset(c as isize * kept_step).read();
                }
                for i in 1..self.extent {
                    let from = from.offset(i as isize * self.step);
                    for c in 0..n {
                        let x = from.offset(c as isize * kept_step).read();
                        if better(x, best[c]) {
                            best[c] = x;
                            place[c] = i as i64;
                        }
                    }
                }
                // `zip` asks its first side first: it must be the one that ends.
                for (place, to) in place[..n].iter().zip(out.by_ref()) {
                    *to = *place;
                }
                k += n;
            }
            Ok::<(), ()>(())
        });
        debug_assert!(done.is_ok());
    }
}
