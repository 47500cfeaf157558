//! The discrete Fourier transform of lines of any length, computed in the precision of its numbers: f64 in f64, all others in f32.
//! Error about `log n` roundings, relative to the largest magnitude of a line.

mod fft;
mod line;

use crate::{
    Call, Dst, Fault, Meta, Shape, Src,
    real::{Reals, RealsMut},
};
use fft::{Complex, Real};
use line::Line;
use plan::{DType, prim::Dft};

/// Runs [`Dft`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn dft(p: &Dft<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let job = Job::new(p, &src, &dst)?;
    if dst.is_empty() {
        return Ok(());
    }
    if job.length == 0 {
        return Err(Fault::Extent);
    }
    let numbers = 2 * line::room(job.length)?;
    if dst.dtype() == DType::F64 {
        let memory = call.take_workspace_of::<f64>(numbers)?;
        job.run(memory.as_chunks_mut().0, &src, &mut dst)
    } else {
        let memory = call.take_workspace_of::<f32>(numbers)?;
        job.run(memory.as_chunks_mut().0, &src, &mut dst)
    }
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &Dft<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let (Some(Some(src)), Some(Some(dst))) = (reads.first(), writes.first()) else {
        return Err(Fault::Missing { operand: 0 });
    };
    let number = if dst.dtype == DType::F64 { size_of::<f64>() } else { size_of::<f32>() };
    line::room(length(p, &src.dims, &dst.dims)?)?.checked_mul(2 * number).ok_or(Fault::Extent)
}

/// A transform whose operands fit.
struct Job {
    length: usize,
    /// Elements of a line that are given, and of one that is wanted.
    given: usize,
    bins: usize,
    axis: usize,
    last: usize,
    inverse: bool,
    /// The spectrum that is given is half of one, whose other half mirrors it.
    half: bool,
    /// Numbers for each element: one or two.
    src_parts: usize,
    dst_parts: usize,
}

impl Job {
    fn new(p: &Dft<i64>, src: &Src<'_>, dst: &Dst<'_>) -> Result<Job, Fault> {
        let length = length(p, src.dims(), dst.dims())?;
        let axis = usize::from(p.axis);
        let last = src.dims().len().wrapping_sub(1);
        let parts = |dims: &[usize]| dims.last().copied().filter(|parts| matches!(parts, 1 | 2));
        let (Some(src_parts), Some(dst_parts)) = (parts(src.dims()), parts(dst.dims())) else {
            return Err(Fault::Shape("the last axis of a transform is one or two numbers"));
        };
        let bins = if p.onesided && !p.inverse { length / 2 + 1 } else { length };
        let same = src.dims().iter().zip(dst.dims()).enumerate().all(|(i, (a, b))| i == axis || i == last || a == b);
        if axis >= last || src.dims().len() != dst.dims().len() || !same || dst.dims().get(axis) != Some(&bins) {
            return Err(Fault::Shape("the result of a transform has the dims of its operand but for the axis"));
        }
        let given = src.dims().get(axis).copied().unwrap_or(0);
        let half = p.inverse && p.onesided;
        Ok(Job { length, given, bins, axis, last, inverse: p.inverse, half, src_parts, dst_parts })
    }

    /// Transforms line after line.
    fn run<T: Real>(&self, memory: &mut [Complex<T>], src: &Src<'_>, dst: &mut Dst<'_>) -> Result<(), Fault> {
        let (src_shape, dst_shape) = (*src.shape(), *dst.shape());
        let (from, origin, mut to) = (Reals::of(src)?, src.origin(), RealsMut::of(dst)?);
        let real = self.src_parts == 1 && !self.inverse;
        let mut line = Line::<T>::new(memory, self.length, self.inverse, real)?;
        let stride = |shape: &Shape, i: usize| shape.strides().get(i).copied().unwrap_or(0);
        let (step, part_step) = (stride(&src_shape, self.axis), stride(&src_shape, self.last));
        let (out_step, scale) = (stride(&dst_shape, self.axis), T::of(1.0 / self.length as f64));
        let outer = |(i, _): &(usize, &usize)| *i != self.axis && *i != self.last;
        let lines: usize = dst_shape.dims().iter().enumerate().filter(outer).map(|(_, d)| *d).product();
        for number in 0..lines {
            let [src_at, dst_at] = line_offsets(number, [&src_shape, &dst_shape], self.axis, self.last);
            // What is not given is zero.
            let part = |k: usize, part: isize| {
                let at = src_at.wrapping_add((k as isize).wrapping_mul(step)).wrapping_add(part);
                if k < self.given { T::of(from.get(origin.wrapping_add_signed(at))) } else { T::of(0.0) }
            };
            let read = |k: usize| [part(k, 0), if self.src_parts == 2 { part(k, part_step) } else { T::of(0.0) }];
            let mut write = |k: usize, x: Complex<T>| {
                let x = if self.inverse { fft::scaled(x, scale) } else { x };
                let at = dst_at.wrapping_add(out_step.wrapping_mul(k as isize)).unsigned_abs();
                if k < self.bins {
                    x.iter().take(self.dst_parts).enumerate().for_each(|(i, x)| to.set(at + i, x.wide()));
                }
            };
            if real {
                line.real(
                    |k| part(k, 0),
                    |k, x| {
                        write(k, x);
                        if k > 0 && 2 * k < self.length {
                            write(self.length - k, fft::conjugate(x));
                        }
                    },
                );
            } else if self.half {
                // The ends of half a spectrum are real.
                let mirrored = |k: usize| match k {
                    _ if k == 0 || 2 * k == self.length => [part(k, 0), T::of(0.0)],
                    _ if 2 * k > self.length => fft::conjugate(read(self.length - k)),
                    _ => read(k),
                };
                line.complex(mirrored, write);
            } else {
                line.complex(read, write);
            }
        }
        Ok(())
    }
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
        for n in (1..40).chain([64, 67, 101, 120, 128, 134, 210, 499, 1001]) {
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
    fn a_long_prime_takes_no_square_of_time() {
        let mut rng = Rng::new(16);
        let n = 100_003;
        let data: Vec<f64> = (0..2 * n).map(|_| f64::from(rng.range(-1.0, 1.0))).collect();
        let p = Dft { length: List::EMPTY, axis: 0, inverse: false, onesided: false };
        let mut out = [Tensor::zeros(DType::F64, &[n, 2])];
        run(&p.into(), &[Some(&Tensor::of(&data, &[n, 2]))], &mut out, None, Isa::Portable).unwrap();
        let out = out[0].to_vec::<f64>();
        for k in [0, 1, 50_000, n - 1] {
            let term = |t: usize| {
                let (sin, cos) = (-core::f64::consts::TAU * (k * t % n) as f64 / n as f64).sin_cos();
                [data[2 * t] * cos - data[2 * t + 1] * sin, data[2 * t] * sin + data[2 * t + 1] * cos]
            };
            let wanted = (0..n).map(term).fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
            check(&out[2 * k..2 * k + 2], wanted.into_iter().map(|x| x + 0.0), "long");
        }
    }

    #[test]
    fn each_in_its_own_precision() {
        let mut rng = Rng::new(17);
        for n in [10, 400, 509, 512] {
            let data: Vec<f32> = (0..2 * n).map(|_| rng.range(-1.0, 1.0)).collect();
            let wide: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
            for (parts, inverse) in [(1, false), (2, false), (2, true)] {
                let p = Dft { length: List::EMPTY, axis: 0, inverse, onesided: false };
                let dims = [2 * n / parts, parts];
                let mut out = [DType::F32, DType::F64].map(|dtype| [Tensor::zeros(dtype, &[dims[0], 2])]);
                run(&p.into(), &[Some(&Tensor::of(&data, &dims))], &mut out[0], None, Isa::Portable).unwrap();
                run(&p.into(), &[Some(&Tensor::of(&wide, &dims))], &mut out[1], None, Isa::Portable).unwrap();
                let (narrow, wide) = (out[0][0].to_vec::<f32>(), out[1][0].to_vec::<f64>());
                let largest = wide.iter().fold(0.0f64, |m, x| m.max(x.abs()));
                for (a, b) in narrow.iter().zip(wide) {
                    assert!((f64::from(*a) - b).abs() < 2e-6 * largest, "{n} {parts} {inverse}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn workspace_grows_with_the_length() {
        let mut before = 0;
        for n in 0..3000 {
            let bytes = line::room(n).unwrap();
            assert!(bytes >= before, "{n}");
            before = bytes;
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
