//! The discrete Fourier transform of lines of any length, in f64: mixed radix by the prime factors of the length, so a
//! length `n = p q r` costs about `n (p + q + r)`. Error about `log n` roundings of f64, then one of the result's type.

use crate::{
    Call, Fault, Meta, Shape,
    real::{Reals, RealsMut},
};
use core::ops::{Add, Mul};
use plan::prim::Dft;

/// Runs [`Dft`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn dft(p: &Dft<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let length = length(p, src.dims(), dst.dims())?;
    let axis = usize::from(p.axis);
    let last = src.dims().len().wrapping_sub(1);
    let parts = |dims: &[usize]| dims.last().copied().filter(|parts| matches!(parts, 1 | 2));
    let (Some(src_parts), Some(dst_parts)) = (parts(src.dims()), parts(dst.dims())) else {
        return Err(Fault::Shape("the last axis of a transform is one or two numbers"));
    };
    let bins = if p.onesided && !p.inverse { length / 2 + 1 } else { length };
    let others = |dims: &[usize]| {
        dims.iter().enumerate().filter(|(i, _)| *i != axis && *i != last).map(|(_, d)| *d).product::<usize>()
    };
    let same = src.dims().iter().zip(dst.dims()).enumerate().all(|(i, (a, b))| i == axis || i == last || a == b);
    if axis >= last || src.dims().len() != dst.dims().len() || !same || dst.dims().get(axis) != Some(&bins) {
        return Err(Fault::Shape("the result of a transform has the dims of its operand but for the axis"));
    }
    if dst.is_empty() {
        return Ok(());
    }
    if length == 0 {
        return Err(Fault::Extent);
    }
    let memory = call.take_workspace_of::<f64>(8 * length)?;
    let (lines, src_shape, dst_shape) = (others(dst.dims()), *src.shape(), *dst.shape());
    let (from, origin, mut to) = (Reals::of(&src)?, src.origin(), RealsMut::of(&mut dst)?);
    let mut work = Work::new(memory, length, p.inverse);
    let stride = |strides: &[isize], i: usize| strides.get(i).copied().unwrap_or(0);
    let given = src.dims().get(axis).copied().unwrap_or(0);
    for line in 0..lines {
        let [src_at, dst_at] = line_offsets(line, [&src_shape, &dst_shape], axis, last);
        let read = |k: usize| {
            if k >= given {
                return Complex::default();
            }
            let at = src_at.wrapping_add((k as isize).wrapping_mul(stride(src_shape.strides(), axis)));
            let part = |x: isize| from.get(origin.wrapping_add_signed(at.wrapping_add(x)));
            Complex { re: part(0), im: if src_parts == 2 { part(stride(src_shape.strides(), last)) } else { 0.0 } }
        };
        // Half a spectrum stands for its mirror image, too, whose ends are real.
        let half = p.inverse && p.onesided;
        work.transform(|k| match half {
            true if k == 0 || 2 * k == length => Complex { im: 0.0, ..read(k) },
            true if 2 * k > length => read(length - k).conjugate(),
            _ => read(k),
        });
        let scale = if p.inverse { 1.0 / length as f64 } else { 1.0 };
        let step = stride(dst_shape.strides(), axis);
        for k in 0..bins {
            let at = dst_at.wrapping_add(step.wrapping_mul(k as isize)).unsigned_abs();
            let x = work.result(k);
            to.set(at, x.re * scale);
            if dst_parts == 2 {
                to.set(at + 1, x.im * scale);
            }
        }
    }
    Ok(())
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &Dft<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let (Some(Some(src)), Some(Some(dst))) = (reads.first(), writes.first()) else {
        return Err(Fault::Missing { operand: 0 });
    };
    length(p, &src.dims, &dst.dims)?.checked_mul(8 * size_of::<f64>()).ok_or(Fault::Extent)
}

/// Where a line starts in each of two shapes that differ along the axis and the last axis only.
fn line_offsets(mut line: usize, shapes: [&Shape; 2], axis: usize, last: usize) -> [isize; 2] {
    let mut offsets = [0isize; 2];
    for i in (0..last).rev().filter(|i| *i != axis) {
        let dim = shapes[0].dims().get(i).copied().unwrap_or(1).max(1);
        let at = (line % dim) as isize;
        line /= dim;
        for (offset, shape) in offsets.iter_mut().zip(shapes) {
            let stride = shape.strides().get(i).copied().unwrap_or(0);
            *offset = offset.wrapping_add(at.wrapping_mul(stride));
        }
    }
    offsets
}

/// The length of the transform: as given, or that of the whole signal.
fn length(p: &Dft<i64>, src: &[usize], dst: &[usize]) -> Result<usize, Fault> {
    let dims = if p.onesided && !p.inverse { src } else { dst };
    match p.length.first() {
        Some(length) => usize::try_from(*length).map_err(|_| Fault::Extent),
        None => dims.get(usize::from(p.axis)).copied().ok_or(Fault::Shape("no such axis")),
    }
}

#[derive(Clone, Copy, Default)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn conjugate(self) -> Self {
        Complex { im: -self.im, ..self }
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, x: Self) -> Self {
        Complex { re: self.re + x.re, im: self.im + x.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, x: Self) -> Self {
        Complex { re: self.re * x.re - self.im * x.im, im: self.re * x.im + self.im * x.re }
    }
}

/// Complex numbers in a slice of pairs; what lies outside is zero.
fn get(pairs: &[f64], i: usize) -> Complex {
    match pairs.get(2 * i..2 * i + 2) {
        Some(&[re, im]) => Complex { re, im },
        _ => Complex::default(),
    }
}

fn set(pairs: &mut [f64], i: usize, x: Complex) {
    if let Some([re, im]) = pairs.get_mut(2 * i..2 * i + 2) {
        (*re, *im) = (x.re, x.im);
    }
}

/// The buffers of a transform, each of `length` complex numbers.
struct Work<'a> {
    length: usize,
    signal: &'a mut [f64],
    result: &'a mut [f64],
    /// Terms of one sum.
    terms: &'a mut [f64],
    /// The roots of unity.
    roots: &'a mut [f64],
}

impl<'a> Work<'a> {
    /// Buffers from `8 * length` numbers.
    fn new(memory: &'a mut [f64], length: usize, inverse: bool) -> Self {
        let (signal, rest) = memory.split_at_mut(memory.len() / 4);
        let (result, rest) = rest.split_at_mut(rest.len() / 3);
        let (terms, roots) = rest.split_at_mut(rest.len() / 2);
        for i in 0..length {
            let angle = 2.0 * core::f64::consts::PI * (i as f64 / length as f64);
            let (sin, cos) = libm::sincos(angle);
            set(roots, i, Complex { re: cos, im: if inverse { sin } else { -sin } });
        }
        Work { length, signal, result, terms, roots }
    }

    fn result(&self, k: usize) -> Complex {
        get(self.result, k)
    }

    /// Transforms the signal that `read` gives.
    fn transform(&mut self, read: impl Fn(usize) -> Complex) {
        (0..self.length).for_each(|i| set(self.signal, i, read(i)));
        self.part(0, 1, 0, self.length);
    }

    /// The transform of the `n` elements of the signal from `first` on, `step` apart, into the result from `to` on.
    fn part(&mut self, first: usize, step: usize, to: usize, n: usize) {
        if n == 1 {
            let x = get(self.signal, first);
            return set(self.result, to, x);
        }
        let radix = smallest_factor(n);
        let m = n / radix;
        for j in 0..radix {
            self.part(first + j * step, step * radix, to + j * m, m);
        }
        // A root of order `n` is every `step`-th of those of the whole length.
        for k in 0..m {
            for j in 0..radix {
                let term = get(self.result, to + j * m + k) * get(self.roots, j * k * step);
                set(self.terms, j, term);
            }
            if radix == 2 {
                let (a, b) = (get(self.terms, 0), get(self.terms, 1));
                set(self.result, to + k, a + b);
                set(self.result, to + m + k, Complex { re: a.re - b.re, im: a.im - b.im });
                continue;
            }
            for q in 0..radix {
                let mut sum = get(self.terms, 0);
                let mut root = 0;
                for j in 1..radix {
                    root += q * m * step;
                    root %= self.length;
                    sum = sum + get(self.terms, j) * get(self.roots, root);
                }
                set(self.result, to + q * m + k, sum);
            }
        }
    }
}

/// The smallest prime factor of `n >= 2`.
fn smallest_factor(n: usize) -> usize {
    let mut factor = 2;
    while factor * factor <= n {
        if n.is_multiple_of(factor) {
            return factor;
        }
        factor += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{DType, List};
    use std::vec::Vec;

    /// A line's transform by the definition.
    fn wanted(line: &[(f64, f64)], n: usize, inverse: bool) -> Vec<(f64, f64)> {
        let sign = if inverse { 1.0 } else { -1.0 };
        let bin = |k: usize| {
            let term = |(t, (re, im)): (usize, &(f64, f64))| {
                let angle = sign * 2.0 * core::f64::consts::PI * (k * t % n) as f64 / n as f64;
                (re * angle.cos() - im * angle.sin(), re * angle.sin() + im * angle.cos())
            };
            let sum = line.iter().enumerate().take(n).map(term).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            if inverse { (sum.0 / n as f64, sum.1 / n as f64) } else { sum }
        };
        (0..n).map(bin).collect()
    }

    fn check(found: &[f64], wanted: impl Iterator<Item = f64>, what: &str) {
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-10, "{what}: {found} {wanted}");
        }
    }

    #[test]
    fn lines_of_every_length() {
        let mut rng = Rng::new(14);
        for n in (1..40).chain([64, 101, 120, 128, 210]) {
            for parts in [1, 2] {
                for inverse in [false, true] {
                    // Axis 1 of [2, given, 3, parts]: shorter or longer than the transform.
                    let given = (n + rng.below(3)).saturating_sub(1);
                    let numbers = |t: &Tensor| t.to_vec::<f64>();
                    let data: Vec<f64> = (0..2 * given * 3 * parts).map(|_| f64::from(rng.range(-1.0, 1.0))).collect();
                    let src = Tensor::of(&data, &[2, given, 3, parts]);
                    let src = if rng.below(2) == 0 { src } else { src.scattered(&mut rng) };
                    let line = |a: usize, c: usize| -> Vec<(f64, f64)> {
                        let at = |k: usize| ((a * given + k) * 3 + c) * parts;
                        (0..given).map(|k| (data[at(k)], if parts == 2 { data[at(k) + 1] } else { 0.0 })).collect()
                    };
                    for onesided in [false, true] {
                        if inverse && onesided {
                            continue;
                        }
                        let bins = if onesided { n / 2 + 1 } else { n };
                        let p = Dft { length: List::of([n as i64]), axis: 1, inverse, onesided };
                        let mut out = [Tensor::zeros(DType::F64, &[2, bins, 3, 2])];
                        run(&p.into(), &[Some(&src)], &mut out, None, Isa::Portable).unwrap();
                        let out = numbers(&out[0]);
                        for (a, c) in [(0, 0), (1, 2)] {
                            let wanted = wanted(&line(a, c), n, inverse);
                            let at = |k: usize| ((a * bins + k) * 3 + c) * 2;
                            let found: Vec<f64> = (0..bins).flat_map(|k| [out[at(k)], out[at(k) + 1]]).collect();
                            check(&found, wanted.into_iter().flat_map(|(re, im)| [re, im]), "forward");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn half_a_spectrum_gives_the_signal_back() {
        let mut rng = Rng::new(15);
        for n in [1usize, 2, 5, 8, 15, 16] {
            let data: Vec<f64> = (0..n).map(|_| f64::from(rng.range(-1.0, 1.0))).collect();
            let forward = Dft { length: List::of([n as i64]), axis: 0, inverse: false, onesided: true };
            let mut half = [Tensor::zeros(DType::F64, &[n / 2 + 1, 2])];
            run(&forward.into(), &[Some(&Tensor::of(&data, &[n, 1]))], &mut half, None, Isa::Portable).unwrap();
            let back = Dft { inverse: true, ..forward };
            let mut out = [Tensor::zeros(DType::F64, &[n, 1])];
            run(&back.into(), &[Some(&half[0])], &mut out, None, Isa::Portable).unwrap();
            check(&out[0].to_vec::<f64>(), data.iter().copied(), "back");
        }
    }

    #[test]
    fn other_types_and_empty_lines() {
        let p = Dft { length: List::EMPTY, axis: 1, inverse: false, onesided: false };
        let mut out = [Tensor::zeros(DType::F32, &[1, 4, 2])];
        run(&p.into(), &[Some(&Tensor::of(&[1f32, 2.0, 3.0, 4.0], &[1, 4, 1]))], &mut out, None, Isa::Portable)
            .unwrap();
        assert_eq!(out[0].to_vec::<f32>(), [10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0]);
        let mut out = [Tensor::zeros(DType::F32, &[0, 4, 2])];
        run(&p.into(), &[Some(&Tensor::zeros(DType::F32, &[0, 4, 1]))], &mut out, None, Isa::Portable).unwrap();
        let mut out = [Tensor::zeros(DType::F32, &[1, 5, 2])];
        let given = Dft { length: List::of([4]), ..p };
        assert!(
            run(&given.into(), &[Some(&Tensor::zeros(DType::F32, &[1, 4, 1]))], &mut out, None, Isa::Portable).is_err()
        );
    }
}
