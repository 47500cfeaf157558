//! Softmax, its logarithm and hardmax along an axis.
//!
//! f32 uses vectors along the axis where it is the last one, else across neighbouring columns; error of a softmax about
//! 4 ulp plus the rounding of the sum. Other types go by the definition, in which each of the operators that a softmax is
//! made of rounds. Rows of nothing but `-inf` give NaN; `-inf` among other numbers gives 0.

use crate::{
    Call, Fault,
    real::{Reals, RealsMut, Total, rounded},
    simd::{Simd, isa_fn, lanes1},
    vecmath,
};
use plan::{
    DType,
    prim::{Softmax, SoftmaxKind},
};

/// Runs [`Softmax`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn softmax(p: &Softmax, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let (dims, axis) = (src.dims(), usize::from(p.axis));
    if dims != dst.dims() || src.dtype() != dst.dtype() {
        return Err(Fault::Shape("a softmax has the dims and the type of its operand"));
    }
    let (Some(before), Some((&n, after))) = (dims.get(..axis), dims.get(axis..).and_then(<[usize]>::split_first))
    else {
        return Err(Fault::Shape("no such axis"));
    };
    let (outer, inner): (usize, usize) = (before.iter().product(), after.iter().product());
    if dst.is_empty() {
        return Ok(());
    }
    if src.dtype() == DType::F32 && p.kind != SoftmaxKind::Hardmax {
        let to = dst.slice::<f32>()?.as_mut_ptr();
        let from = if src.is_shared() { to.cast_const() } else { src.slice::<f32>()?.as_ptr() };
        let log = p.kind == SoftmaxKind::LogSoftmax;
        // SAFETY: both are contiguous with `outer * n * inner` elements, and are the same or apart.
        unsafe { planes_f32(call.isa(), from, to, outer, n, inner, log) };
        return Ok(());
    }
    let from = if src.is_shared() { None } else { Some(src.bytes().and(Reals::of(&src))?) };
    let dst_type = dst.dtype();
    let mut to = RealsMut::of(&mut dst)?;
    for o in 0..outer {
        for i in 0..inner {
            let line = Line { dtype: dst_type, first: o * n * inner + i, n, step: inner };
            line.reference(p.kind, from, &mut to);
        }
    }
    Ok(())
}

/// `n >= 1` elements `step` apart.
struct Line {
    dtype: DType,
    first: usize,
    n: usize,
    step: usize,
}

impl Line {
    fn places(&self) -> impl Iterator<Item = usize> + Clone {
        let (first, step) = (self.first, self.step);
        (0..self.n).map(move |i| first + i * step)
    }

    /// Softmax, its logarithm or hardmax by their definitions.
    fn reference(&self, kind: SoftmaxKind, from: Option<Reals<'_>>, to: &mut RealsMut<'_>) {
        if let Some(from) = from {
            self.places().for_each(|at| to.set(at, from.get(at)));
        }
        let (mut max, mut arg) = (to.get(self.first), self.first);
        for at in self.places().skip(1) {
            let x = to.get(at);
            if x > max {
                (max, arg) = (x, at);
            }
        }
        match kind {
            SoftmaxKind::Hardmax => self.places().for_each(|at| to.set(at, if at == arg { 1.0 } else { 0.0 })),
            SoftmaxKind::LogSoftmax => {
                // The logarithm of a sum that was rounded would have few places left where it is near 0.
                let sum: f64 = self.places().map(|at| libm::exp(to.get(at) - max)).sum();
                let logarithm = libm::log(sum);
                self.places().for_each(|at| to.set(at, to.get(at) - max - logarithm));
            }
            SoftmaxKind::Softmax => defined(self.dtype, max, self.places(), to),
        }
    }
}

/// Numbers of a type, which are rounded to it where they are written.
trait Numbers {
    fn get(&self, i: usize) -> f64;
    fn set(&mut self, i: usize, x: f64);
}

impl Numbers for RealsMut<'_> {
    fn get(&self, i: usize) -> f64 {
        RealsMut::get(self, i)
    }
    fn set(&mut self, i: usize, x: f64) {
        RealsMut::set(self, i, x);
    }
}

/// Numbers of a type that are held in f64.
struct Held<'a> {
    dtype: DType,
    row: &'a mut [f64],
}

impl Numbers for Held<'_> {
    fn get(&self, i: usize) -> f64 {
        self.row.get(i).copied().unwrap_or(f64::NAN)
    }
    fn set(&mut self, i: usize, x: f64) {
        if let Some(place) = self.row.get_mut(i) {
            *place = rounded(self.dtype, x);
        }
    }
}

/// Softmax by its definition, a function of simpler operators, each of which rounds to the type. `max`: the largest number.
fn defined(dtype: DType, max: f64, places: impl Iterator<Item = usize> + Clone, to: &mut impl Numbers) {
    let mut sum = Total::new(dtype);
    for at in places.clone() {
        let e = rounded(dtype, libm::exp(rounded(dtype, to.get(at) - max)));
        sum.add(e);
        to.set(at, e);
    }
    let sum = sum.get();
    places.for_each(|at| to.set(at, to.get(at) / sum));
}

/// Softmax of a row of numbers of a type, as [`softmax`] computes it.
pub(crate) fn row_of(dtype: DType, row: &mut [f64]) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    defined(dtype, max, 0..row.len(), &mut Held { dtype, row });
}

isa_fn! {
    /// Softmax along the middle axis of `[outer, n, inner]`; `o` may be `a`.
    ///
    /// # Safety
    /// `outer * n * inner` elements can be read and written there, `n` and `inner` are not 0, and the processor has `isa`.
    unsafe fn planes_f32(a: *const f32, o: *mut f32, outer: usize, n: usize, inner: usize, log: bool) = planes_raw;
}

/// Softmax of a row.
pub(crate) fn row_in_place(isa: crate::Isa, row: &mut [f32]) {
    if !row.is_empty() {
        // SAFETY: one row of the slice's elements.
        unsafe { planes_f32(isa, row.as_ptr(), row.as_mut_ptr(), 1, row.len(), 1, false) };
    }
}

/// See [`planes_f32`].
#[inline(always)]
unsafe fn planes_raw<S: Simd>(a: *const f32, o: *mut f32, outer: usize, n: usize, inner: usize, log: bool) {
    for plane in 0..outer {
        let at = plane * n * inner;
        // SAFETY: planes of `n * inner` elements lie one after another.
        unsafe {
            if inner == 1 {
                row::<S>(a.add(at), o.add(at), n, log);
            } else {
                for first in (0..inner).step_by(S::LANES) {
                    columns::<S>(a.add(at + first), o.add(at + first), n, inner, (inner - first).min(S::LANES), log);
                }
            }
        }
    }
}

/// The largest of `n >= 1` elements; anything where there is a NaN.
#[inline(always)]
unsafe fn max_of<S: Simd>(a: *const f32, n: usize) -> f32 {
    // SAFETY: vectors lie within the `n` elements: the last one may overlap the one before.
    unsafe {
        if n < S::LANES {
            return (1..n).fold(*a, |max, i| if *a.add(i) > max { *a.add(i) } else { max });
        }
        let mut max = S::load(a.add(n - S::LANES));
        for i in (0..n - S::LANES).step_by(S::LANES) {
            max = S::max(S::load(a.add(i)), max);
        }
        S::max_lane(max)
    }
}

/// Softmax of `n >= 1` neighbours; `o` may be `a`.
#[inline(always)]
unsafe fn row<S: Simd>(a: *const f32, o: *mut f32, n: usize, log: bool) {
    // SAFETY: whole vectors while there are enough elements, then a part of one.
    unsafe {
        let max = S::splat(max_of::<S>(a, n));
        let mut sum = S::splat(0.0);
        let mut i = 0;
        while i + S::LANES <= n {
            let e = vecmath::exp::<S>(S::sub(S::load(a.add(i)), max));
            sum = S::add(sum, e);
            if !log {
                S::store(o.add(i), e);
            }
            i += S::LANES;
        }
        if i < n {
            let e = vecmath::exp::<S>(S::sub(S::load_part(a.add(i), n - i), max));
            // Lanes past the end must not enter the sum.
            let mut part = [0f32; 16];
            S::store_part(part.as_mut_ptr(), e, n - i);
            sum = S::add(sum, S::load(part.as_ptr()));
            if !log {
                S::store_part(o.add(i), e, n - i);
            }
        }
        let sum = S::sum(sum);
        if log {
            let log = S::splat(libm::logf(sum));
            lanes1!(S, n, a, o, |x| S::sub(S::sub(x, max), log));
        } else {
            let scale = S::splat(1.0 / sum);
            lanes1!(S, n, o.cast_const(), o, |x| S::mul(x, scale));
        }
    }
}

/// Softmax of `lanes` neighbouring columns of `n` elements, `step` apart; `o` may be `a`.
#[inline(always)]
unsafe fn columns<S: Simd>(a: *const f32, o: *mut f32, n: usize, step: usize, lanes: usize, log: bool) {
    // SAFETY: `lanes` elements from each row are in the plane.
    unsafe {
        let load = |p: *const f32| if lanes == S::LANES { S::load(p) } else { S::load_part(p, lanes) };
        let store = |p: *mut f32, v| if lanes == S::LANES { S::store(p, v) } else { S::store_part(p, v, lanes) };
        let mut max = load(a);
        for i in 1..n {
            max = S::max(load(a.add(i * step)), max);
        }
        let mut sum = S::splat(0.0);
        for i in 0..n {
            let e = vecmath::exp::<S>(S::sub(load(a.add(i * step)), max));
            sum = S::add(sum, e);
            if !log {
                store(o.add(i * step), e);
            }
        }
        let (logs, scale) = (vecmath::log::<S>(sum), S::div(S::splat(1.0), sum));
        for i in 0..n {
            let x = if log {
                S::sub(S::sub(load(a.add(i * step)), max), logs)
            } else {
                S::mul(load(o.cast_const().add(i * step)), scale)
            };
            store(o.add(i * step), x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Element, Isa,
        testing::{Rng, Tensor, isas, run},
    };
    use half::{bf16, f16};
    use std::{vec, vec::Vec};

    /// By the definition, whose operators round as `round` does, but for their sums.
    fn wanted(kind: SoftmaxKind, x: &[f64], n: usize, inner: usize, round: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut out = vec![0.0; x.len()];
        for (i, y) in out.iter_mut().enumerate() {
            let first = i / (n * inner) * n * inner + i % inner;
            let column: Vec<f64> = (0..n).map(|j| x[first + j * inner]).collect();
            let max = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e = |x: f64| round(round(x - max).exp());
            let sum: f64 = column.iter().map(|x| e(*x)).sum();
            let exact: f64 = column.iter().map(|x| (x - max).exp()).sum();
            let place = (i - first) / inner;
            *y = match kind {
                SoftmaxKind::Softmax => round(e(x[i]) / sum),
                SoftmaxKind::LogSoftmax => x[i] - max - exact.ln(),
                SoftmaxKind::Hardmax => f64::from(column.iter().position(|x| *x == max) == Some(place)),
            };
        }
        out
    }

    fn case<T: Element>(rng: &mut Rng, isa: Isa, make: impl Fn(f32) -> T, read: impl Fn(T) -> f64, fuzz: f64) {
        let dims: Vec<usize> = (0..1 + rng.below(3)).map(|_| [0, 1, 2, 5, 16, 19, 33][rng.below(7)]).collect();
        let axis = rng.below(dims.len());
        let data: Vec<T> = (0..dims.iter().product()).map(|_| make(rng.range(-20.0, 20.0))).collect();
        let x: Vec<f64> = data.iter().map(|x| read(*x)).collect();
        let input = Tensor::of(&data, &dims);
        for kind in [SoftmaxKind::Softmax, SoftmaxKind::LogSoftmax, SoftmaxKind::Hardmax] {
            let p = Softmax { kind, axis: axis as u8 }.into();
            let wanted = {
                let inner = dims[axis + 1..].iter().product::<usize>().max(1);
                wanted(kind, &x, dims[axis].max(1), inner, |x| rounded(T::DTYPE, x))
            };
            for shared in [None, Some(0)] {
                let mut out = [if shared.is_some() { input.clone() } else { Tensor::zeros(T::DTYPE, &dims) }];
                run(&p, &[Some(&input)], &mut out, shared, isa).unwrap();
                for (found, wanted) in out[0].to_vec::<T>().into_iter().map(&read).zip(&wanted) {
                    assert!(
                        (found - wanted).abs() <= fuzz * (0.05 + wanted.abs()),
                        "{kind:?} {dims:?}: {found} {wanted}"
                    );
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_definition() {
        let mut rng = Rng::new(5);
        for isa in isas() {
            for _ in 0..60 {
                case(&mut rng, isa, |x| x, f64::from, 1e-5);
            }
        }
        for _ in 0..20 {
            case(&mut rng, Isa::detect(), f64::from, |x| x, 1e-13);
            case(&mut rng, Isa::detect(), f16::from_f32, f16::to_f64, 1e-3);
            // Up to eight roundings of the sum.
            case(&mut rng, Isa::detect(), bf16::from_f32, bf16::to_f64, 2e-2);
        }
    }

    #[test]
    fn infinities() {
        let low = f32::NEG_INFINITY;
        for isa in isas() {
            for pad in [0, 20] {
                let row = [vec![1.0, low, 1.0], vec![low; pad]].concat();
                let n = row.len();
                let p = Softmax { kind: SoftmaxKind::Softmax, axis: 1 }.into();
                let mut out = [Tensor::zeros(DType::F32, &[1, n])];
                run(&p, &[Some(&Tensor::of(&row, &[1, n]))], &mut out, None, isa).unwrap();
                let found = out[0].to_vec::<f32>();
                assert_eq!(found[..3], [0.5, 0.0, 0.5]);
                assert!(found[3..].iter().all(|x| *x == 0.0));
                run(&p, &[Some(&Tensor::of(&vec![low; n], &[1, n]))], &mut out, None, isa).unwrap();
                assert!(out[0].to_vec::<f32>().iter().all(|x| x.is_nan()));
            }
        }
    }

    #[test]
    fn the_first_of_equals_is_hardest() {
        let p = Softmax { kind: SoftmaxKind::Hardmax, axis: 0 }.into();
        let mut out = [Tensor::zeros(DType::F32, &[4])];
        run(&p, &[Some(&Tensor::of(&[1f32, 3.0, 3.0, 2.0], &[4]))], &mut out, None, Isa::detect()).unwrap();
        assert_eq!(out[0].to_vec::<f32>(), [0.0, 1.0, 0.0, 0.0]);
    }
}
