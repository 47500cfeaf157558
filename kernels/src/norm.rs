//! Normalisation over the last axes: layer norm (mean and variance) and RMS norm.
//!
//! Statistics are found in two passes. In f32, sums go over vectors within stretches of 4096 elements and over stretches in
//! f64, so that long rows lose nothing. Scale and bias are read in stretches over which both are constant or contiguous.

use crate::{
    Call, Dst, Fault, Shape, Src,
    real::{Reals, RealsMut},
    simd::{Simd, isa_fn},
};
use plan::{
    DType, MAX_RANK,
    prim::{Norm, NormKind},
};

/// Elements summed in f32 before the sum is added to one in f64.
const STRETCH: usize = 4096;

/// Runs [`Norm`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn norm(p: &Norm, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let (scale, bias) = (call.opt_src(1), call.opt_src(2));
    let axis = usize::from(p.axis);
    let dims_fit = |s: &Option<Src<'_>>| s.is_none_or(|s| s.dims() == dst.dims());
    if src.dims() != dst.dims() || !dims_fit(&scale) || !dims_fit(&bias) {
        return Err(Fault::Shape("scale, bias and result of a norm have the dims of its operand"));
    }
    let Some((outer, inner)) = dst.dims().split_at_checked(axis) else {
        return Err(Fault::Shape("no such axis"));
    };
    let (rows, n): (usize, usize) = (outer.iter().product(), inner.iter().product());
    let (mut mean, mut deviation) = (call.opt_dst(1), call.opt_dst(2));
    for stat in [&mean, &deviation].into_iter().flatten() {
        let fits = stat.dims().len() == dst.dims().len() && stat.len() == rows;
        if !fits || !matches!(stat.dtype(), DType::F32 | DType::F64) {
            return Err(Fault::Shape("statistics of a norm are f32, one for each row"));
        }
    }
    let all_f32 = [Some(src), scale, bias].into_iter().flatten().all(|s| s.dtype() == DType::F32);
    let walk = Walk::new(dst.shape(), axis, &scale, &bias);
    let mut statistics = |row: usize, m: f64, d: f64| -> Result<(), Fault> {
        for (stat, x) in [(&mut mean, m), (&mut deviation, d)] {
            if let Some(stat) = stat {
                RealsMut::of(stat)?.set(row, x);
            }
        }
        Ok(())
    };
    if all_f32 && dst.dtype() == DType::F32 {
        let isa = call.isa();
        let to = dst.slice::<f32>()?.as_mut_ptr();
        let from = if src.is_shared() { to.cast_const() } else { src.slice::<f32>()?.as_ptr() };
        let scale = scale.map(|s| Ok((s.span::<f32>()?, s.origin()))).transpose()?;
        let bias = bias.map(|s| Ok((s.span::<f32>()?, s.origin()))).transpose()?;
        for row in 0..rows {
            let (from, to) = (from.wrapping_add(row * n), to.wrapping_add(row * n));
            // SAFETY: rows of `n` elements lie one after another in both, which are the same or apart.
            let (m, d) = unsafe { statistics_f32(isa, from, n, p.kind == NormKind::Layer, p.epsilon) };
            statistics(row, f64::from(m), f64::from(d))?;
            walk.runs(row, |at, len, s, b| {
                let affine = |place: Option<(&[f32], usize)>, offset: isize, step: isize| match place {
                    Some((data, origin)) => (data.as_ptr().wrapping_add(origin).wrapping_offset(offset), step),
                    None => (core::ptr::null(), 0),
                };
                let (s, b) = (affine(scale, s, walk.scale_step), affine(bias, b, walk.bias_step));
                // SAFETY: a run lies within the row, and the views of scale and bias have its elements at these places.
                unsafe { run_f32(isa, from.wrapping_add(at), to.wrapping_add(at), len, m, d, s, b) };
            });
        }
        return Ok(());
    }
    reference(p, &src, &mut dst, (rows, n), (scale, bias), &walk, &mut statistics)
}

/// How scale and bias go along with the elements of a row: in runs of `len` with steps, at offsets that the axes above give.
struct Walk {
    /// Extents and strides of the axes before the normalised ones, for scale and bias.
    outer: [(usize, isize, isize); MAX_RANK],
    /// The same for the normalised axes but the innermost, joined where they can be.
    middle: [(usize, isize, isize); MAX_RANK],
    /// Elements of a run.
    len: usize,
    /// Distance of scale and bias from element to element of a run.
    scale_step: isize,
    bias_step: isize,
}

impl Walk {
    fn new(shape: &Shape, axis: usize, scale: &Option<Src<'_>>, bias: &Option<Src<'_>>) -> Walk {
        let stride = |s: &Option<Src<'_>>, i: usize| s.and_then(|s| s.strides().get(i).copied()).unwrap_or(0);
        let mut walk =
            Walk { outer: [(1, 0, 0); MAX_RANK], middle: [(1, 0, 0); MAX_RANK], len: 1, scale_step: 0, bias_step: 0 };
        for (i, (dim, place)) in shape.dims().iter().zip(&mut walk.outer).enumerate().take(axis) {
            *place = (*dim, stride(scale, i), stride(bias, i));
        }
        let mut middle = walk.middle.iter_mut().rev();
        let mut current: Option<(usize, isize, isize)> = None;
        for (i, dim) in shape.dims().iter().enumerate().skip(axis).rev().filter(|(_, dim)| **dim != 1) {
            let (s, b) = (stride(scale, i), stride(bias, i));
            match &mut current {
                // The innermost axis, and those that go on from it, are the runs.
                None if walk.len == 1 => (walk.len, walk.scale_step, walk.bias_step) = (*dim, s, b),
                None if goes_on(walk.len, walk.scale_step, s) && goes_on(walk.len, walk.bias_step, b) => {
                    walk.len *= dim
                }
                Some(c) if goes_on(c.0, c.1, s) && goes_on(c.0, c.2, b) => c.0 *= dim,
                _ => {
                    if let (Some(done), Some(place)) = (current.replace((*dim, s, b)), middle.next()) {
                        *place = done;
                    }
                }
            }
        }
        if let (Some(done), Some(place)) = (current, middle.next()) {
            *place = done;
        }
        walk
    }

    /// Calls `f` for each run of a row with its start, its length, and the offsets of scale and bias.
    fn runs(&self, row: usize, mut f: impl FnMut(usize, usize, isize, isize)) {
        let offsets = |axes: &[(usize, isize, isize)], mut i: usize, (mut s, mut b): (isize, isize)| {
            for (dim, scale, bias) in axes.iter().rev() {
                let at = (i % (*dim).max(1)) as isize;
                i /= (*dim).max(1);
                (s, b) = (s.wrapping_add(at.wrapping_mul(*scale)), b.wrapping_add(at.wrapping_mul(*bias)));
            }
            (s, b)
        };
        let base = offsets(&self.outer, row, (0, 0));
        let count: usize = self.middle.iter().map(|axis| axis.0).product();
        for i in 0..count {
            let (s, b) = offsets(&self.middle, i, base);
            f(i * self.len, self.len, s, b);
        }
    }
}

/// Whether an axis with the stride `outer` continues `len` elements `step` apart.
fn goes_on(len: usize, step: isize, outer: isize) -> bool {
    outer == step.wrapping_mul(len as isize)
}

/// Any floating-point types, in f64.
fn reference(
    p: &Norm,
    src: &Src<'_>,
    dst: &mut Dst<'_>,
    (rows, n): (usize, usize),
    (scale, bias): (Option<Src<'_>>, Option<Src<'_>>),
    walk: &Walk,
    statistics: &mut dyn FnMut(usize, f64, f64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let from = if src.is_shared() { None } else { Some(src.bytes().and(Reals::of(src))?) };
    if src.is_shared() && src.dtype() != dst.dtype() {
        return Err(Fault::Shared);
    }
    let scale = scale.map(|s| Ok((Reals::of(&s)?, s.origin()))).transpose()?;
    let bias = bias.map(|s| Ok((Reals::of(&s)?, s.origin()))).transpose()?;
    let mut to = RealsMut::of(dst)?;
    for row in 0..rows {
        let read =
            |to: &RealsMut<'_>, i: usize| from.as_ref().map_or_else(|| to.get(row * n + i), |f| f.get(row * n + i));
        let mean = match p.kind {
            NormKind::Layer => (0..n).map(|i| read(&to, i)).sum::<f64>() / n as f64,
            NormKind::Rms => 0.0,
        };
        let square = |x: f64| (x - mean) * (x - mean);
        let variance = (0..n).map(|i| square(read(&to, i))).sum::<f64>() / n as f64;
        let deviation = 1.0 / libm::sqrt(variance + f64::from(p.epsilon));
        statistics(row, mean, deviation)?;
        walk.runs(row, |at, len, s, b| {
            for i in 0..len {
                let value = |place: &Option<(Reals<'_>, usize)>, offset: isize, step: isize, none: f64| match place {
                    Some((data, origin)) => {
                        data.get(origin.wrapping_add_signed(offset.wrapping_add(step.wrapping_mul(i as isize))))
                    }
                    None => none,
                };
                let x = (read(&to, at + i) - mean) * deviation;
                let y = x * value(&scale, s, walk.scale_step, 1.0) + value(&bias, b, walk.bias_step, 0.0);
                to.set(row * n + at + i, y);
            }
        });
    }
    Ok(())
}

/// Where scale or bias of a run are (null: nowhere), and their distance from element to element.
type Affine = (*const f32, isize);

isa_fn! {
    /// Mean (0 unless `layer`) and inverse deviation of `n` elements.
    ///
    /// # Safety
    /// The elements can be read and the processor has `isa`.
    unsafe fn statistics_f32(a: *const f32, n: usize, layer: bool, epsilon: f32) -> (f32, f32) = statistics_raw;
    /// `o = (a - mean) * deviation * scale + bias` for `n` elements; `o` may be `a`.
    ///
    /// # Safety
    /// The elements can be read and written, scale and bias read at their places, and the processor has `isa`.
    unsafe fn run_f32(a: *const f32, o: *mut f32, n: usize, mean: f32, deviation: f32, scale: Affine, bias: Affine) = run_raw;
}

/// The sum of `f` of the elements; `f` is also called on zeros past the end if `n` is no multiple of a vector: then `part` is true.
#[inline(always)]
unsafe fn sum<S: Simd>(a: *const f32, n: usize, f: impl Fn(S::V) -> S::V) -> f64 {
    let mut total = 0f64;
    for start in (0..n).step_by(STRETCH) {
        let len = (n - start).min(STRETCH);
        // SAFETY: whole vectors while there are enough elements, then a part of one.
        unsafe {
            let a = a.add(start);
            let mut sums = [S::splat(0.0); 4];
            let mut i = 0;
            while i + 4 * S::LANES <= len {
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = S::add(*sum, f(S::load(a.add(i + j * S::LANES))));
                }
                i += 4 * S::LANES;
            }
            while i + S::LANES <= len {
                sums[0] = S::add(sums[0], f(S::load(a.add(i))));
                i += S::LANES;
            }
            if i < len {
                // Lanes past the end must not enter the sum.
                let mut part = [0f32; 16];
                S::store_part(part.as_mut_ptr(), f(S::load_part(a.add(i), len - i)), len - i);
                sums[1] = S::add(sums[1], S::load(part.as_ptr()));
            }
            total += f64::from(S::sum(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3]))));
        }
    }
    total
}

/// See [`statistics_f32`].
#[inline(always)]
unsafe fn statistics_raw<S: Simd>(a: *const f32, n: usize, layer: bool, epsilon: f32) -> (f32, f32) {
    // SAFETY: the caller's `n` elements.
    unsafe {
        let mean = if layer { (sum::<S>(a, n, |x| x) / n as f64) as f32 } else { 0.0 };
        let m = S::splat(mean);
        let squares = sum::<S>(a, n, |x| {
            let x = S::sub(x, m);
            S::mul(x, x)
        });
        let deviation = 1.0 / libm::sqrt(squares / n as f64 + f64::from(epsilon));
        (mean, deviation as f32)
    }
}

/// See [`run_f32`].
#[inline(always)]
unsafe fn run_raw<S: Simd>(
    a: *const f32,
    o: *mut f32,
    n: usize,
    mean: f32,
    deviation: f32,
    scale: Affine,
    bias: Affine,
) {
    // SAFETY: the caller's elements; the vectors of scale and bias are as long as those of the row where they are contiguous.
    unsafe {
        if !matches!(scale.1, 0 | 1) || !matches!(bias.1, 0 | 1) {
            for i in 0..n {
                let at = |affine: Affine, none: f32| match affine.0.is_null() {
                    true => none,
                    false => *affine.0.wrapping_offset(affine.1.wrapping_mul(i as isize)),
                };
                *o.add(i) = (*a.add(i) - mean) * deviation * at(scale, 1.0) + at(bias, 0.0);
            }
            return;
        }
        let (mean, deviation) = (S::splat(mean), S::splat(deviation));
        let constant = |affine: Affine, none: f32| match affine {
            (p, 0) if !p.is_null() => S::splat(*p),
            _ => S::splat(none),
        };
        let (scales, biases) = (constant(scale, 1.0), constant(bias, 0.0));
        let mut i = 0;
        while i < n {
            let lanes = (n - i).min(S::LANES);
            let load = |p: *const f32| if lanes == S::LANES { S::load(p) } else { S::load_part(p, lanes) };
            let s = if scale.1 == 1 { load(scale.0.add(i)) } else { scales };
            let b = if bias.1 == 1 { load(bias.0.add(i)) } else { biases };
            let y = S::add(S::mul(S::mul(S::sub(load(a.add(i)), mean), deviation), s), b);
            if lanes == S::LANES {
                S::store(o.add(i), y);
            } else {
                S::store_part(o.add(i), y, lanes);
            }
            i += lanes;
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
    use std::vec::Vec;

    fn broadcast<T: Element>(rng: &mut Rng, dims: &[usize], make: &impl Fn(f32) -> T) -> Tensor {
        let small: Vec<usize> = dims.iter().map(|d| if rng.below(2) == 1 { *d } else { (*d).min(1) }).collect();
        let data: Vec<T> = (0..small.iter().product()).map(|_| make(rng.range(-2.0, 2.0))).collect();
        let mut t = Tensor::of(&data, &small);
        if rng.below(3) == 0 {
            t = t.scattered(rng);
        }
        let strides: Vec<isize> =
            small.iter().zip(dims).zip(t.shape.strides()).map(|((s, d), x)| if s == d { *x } else { 0 }).collect();
        t.shape = Shape::strided(dims, &strides).unwrap();
        t
    }

    fn case<T: Element>(rng: &mut Rng, isa: Isa, make: impl Fn(f32) -> T, read: impl Fn(T) -> f64, fuzz: f64) {
        let dims: Vec<usize> = (0..1 + rng.below(4)).map(|_| [0, 1, 2, 3, 5, 16, 19, 33][rng.below(8)]).collect();
        let axis = rng.below(dims.len());
        let data: Vec<T> = (0..dims.iter().product()).map(|_| make(rng.range(-1.0, 3.0))).collect();
        let input = Tensor::of(&data, &dims);
        let scale = (rng.below(4) > 0).then(|| broadcast(rng, &dims, &make));
        let bias = (rng.below(4) > 0).then(|| broadcast(rng, &dims, &make));
        let kind = [NormKind::Layer, NormKind::Rms][rng.below(2)];
        let n: usize = dims[axis..].iter().product();
        let x: Vec<f64> = data.iter().map(|x| read(*x)).collect();
        let numbers = |t: &Option<Tensor>, none: f64| {
            t.as_ref()
                .map_or(std::vec![none; x.len()], |t| t.to_vec::<T>().into_iter().map(&read).collect::<Vec<f64>>())
        };
        let (s, b) = (numbers(&scale, 1.0), numbers(&bias, 0.0));
        let (mut wanted, mut stats) = (Vec::new(), Vec::new());
        for (row, x) in x.chunks(n.max(1)).enumerate() {
            let mean = if kind == NormKind::Layer { x.iter().sum::<f64>() / n as f64 } else { 0.0 };
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let deviation = 1.0 / (variance + f64::from(0.01f32)).sqrt();
            stats.push((mean, deviation));
            wanted.extend(x.iter().enumerate().map(|(i, x)| (x - mean) * deviation * s[row * n + i] + b[row * n + i]));
        }
        let p = Norm { kind, axis: axis as u8, epsilon: 0.01 }.into();
        let mut small = dims.clone();
        small[axis..].fill(1);
        for shared in [None, Some(0)] {
            let out = if shared.is_some() { input.clone() } else { Tensor::zeros(T::DTYPE, &dims) };
            let mut out = [out, Tensor::zeros(DType::F32, &small), Tensor::zeros(DType::F32, &small)];
            run(&p, &[Some(&input), scale.as_ref(), bias.as_ref()], &mut out, shared, isa).unwrap();
            for (found, wanted) in out[0].to_vec::<T>().into_iter().map(&read).zip(&wanted) {
                assert!((found - wanted).abs() <= fuzz * (1.0 + wanted.abs()), "{dims:?} {axis}: {found} {wanted}");
            }
            if n > 0 {
                for ((m, d), (mean, deviation)) in
                    out[1].to_vec::<f32>().into_iter().zip(out[2].to_vec::<f32>()).zip(&stats)
                {
                    assert!((f64::from(m) - mean).abs() < 1e-5 && (f64::from(d) - deviation).abs() < 1e-4 * deviation);
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_definition() {
        let mut rng = Rng::new(6);
        for isa in isas() {
            for _ in 0..150 {
                case(&mut rng, isa, |x| x, f64::from, 2e-5);
            }
        }
        for _ in 0..30 {
            case(&mut rng, Isa::detect(), f64::from, |x| x, 1e-12);
            case(&mut rng, Isa::detect(), f16::from_f32, f16::to_f64, 1e-3);
            case(&mut rng, Isa::detect(), bf16::from_f32, bf16::to_f64, 8e-3);
        }
    }

    #[test]
    fn long_rows_keep_their_digits() {
        let n = 3 * STRETCH + 5;
        let data: Vec<f32> = (0..n).map(|i| 1000.0 + (i % 2) as f32).collect();
        for isa in isas() {
            let mut out = [Tensor::zeros(DType::F32, &[1, n])];
            let p = Norm { kind: NormKind::Layer, axis: 1, epsilon: 0.0 }.into();
            run(&p, &[Some(&Tensor::of(&data, &[1, n]))], &mut out, None, isa).unwrap();
            assert!(out[0].to_vec::<f32>().iter().all(|x| (x.abs() - 1.0).abs() < 1e-3));
        }
    }
}
