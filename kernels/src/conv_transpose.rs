//! Transposed convolution.
//!
//! Outputs along the last axis that are `stride` apart read neighbouring inputs through the same taps: they are summed as a
//! block, on the stack, and stored `stride` apart.

use crate::conv::transposed::{self, Transposed};
use crate::spatial::{Image, Real, Windows, Work, split_dims, with_isa};
use crate::{Call, Dst, Fault, Meta, Src};
use half::{bf16, f16};
use plan::DType;
use plan::prim::{ConvTranspose, DataLayout};

/// A validated transposed convolution.
#[derive(Clone, Copy)]
struct Job {
    /// Of the convolution that this one transposes: its input is our result.
    windows: Windows,
    x: Image,
    y: Image,
    group: usize,
}

impl Job {
    fn new(p: &ConvTranspose<i64>, x: &[usize], w: &[usize], y: &[usize]) -> Result<Job, Fault> {
        let (batch, channels, input) = split_dims(x, DataLayout::ChannelsFirst)?;
        let (y_batch, m, output) = split_dims(y, DataLayout::ChannelsFirst)?;
        let group = p.group as usize;
        let fits = batch == y_batch && group > 0 && channels % group == 0 && m % group == 0;
        match w {
            [wc, wm, kernel @ ..] if fits && *wc == channels && *wm == m / group => {
                let windows = Windows::new(output, input, kernel, &p.strides, &p.dilations, &p.before)?;
                let x = Image::new(batch, channels, windows.output, DataLayout::ChannelsFirst);
                let y = Image::new(batch, m, windows.input, DataLayout::ChannelsFirst);
                Ok(Job { windows, x, y, group })
            }
            _ => Err(Fault::Shape("data, weights and result of a transposed convolution")),
        }
    }

    /// Floats of workspace, for f32.
    fn workspace(&self) -> usize {
        transposed::workspace(&self.windows, self.x.channels / self.group, self.y.channels / self.group)
    }

    /// The input index that reaches output `o` of an axis through tap `k`, if there is one.
    fn source(&self, a: usize, o: usize, k: usize) -> Option<usize> {
        let v = &self.windows;
        let distance = o as isize + v.before[a] - (k * v.dilation[a]) as isize;
        let i = distance / v.stride[a] as isize;
        (distance >= 0 && distance % v.stride[a] as isize == 0 && i < v.output[a] as isize).then_some(i as usize)
    }
}

/// Runs [`ConvTranspose`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn conv_transpose(p: &ConvTranspose<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, w, mut y) = (call.src(0)?, call.src(1)?, call.dst(0)?);
    let job = Job::new(p, x.dims(), w.dims(), y.dims())?;
    match x.dtype() {
        DType::F32 => phases(&job, call, &x, &w, &mut y),
        DType::F64 => typed::<f64>(&job, call, &x, &w, &mut y),
        DType::F16 => typed::<f16>(&job, call, &x, &w, &mut y),
        DType::BF16 => typed::<bf16>(&job, call, &x, &w, &mut y),
        found => Err(Fault::DType { found, wanted: "a float" }),
    }
}

/// The fast kernel for f32.
fn phases(job: &Job, call: &mut Call<'_, '_>, x: &Src<'_>, w: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    let bias = bias_of::<f32>(job, call)?;
    let transposed = Transposed {
        windows: job.windows,
        x: job.x,
        y: job.y,
        group: job.group,
        data: x.slice()?,
        weights: w.slice()?,
        bias,
    };
    let memory = call.take_workspace_of(job.workspace())?;
    transposed::run(&transposed, call.isa(), y.slice()?, memory)
}

fn bias_of<'a, T: Real>(job: &Job, call: &Call<'_, 'a>) -> Result<Option<&'a [T]>, Fault> {
    match call.opt_src(2) {
        Some(bias) if bias.dims() != [job.y.channels] => Err(Fault::Shape("a bias for each output channel")),
        Some(bias) => bias.slice::<T>().map(Some),
        None => Ok(None),
    }
}

fn typed<T: Real>(job: &Job, call: &Call<'_, '_>, x: &Src<'_>, w: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    let bias = bias_of::<T>(job, call)?.unwrap_or(&[]);
    with_isa(call.isa(), Blocks { job, x: x.slice()?, w: w.slice()?, bias, y: y.slice()? });
    Ok(())
}

/// Outputs summed together.
const BLOCK: usize = 64;

struct Blocks<'a, T> {
    job: &'a Job,
    x: &'a [T],
    w: &'a [T],
    bias: &'a [T],
    y: &'a mut [T],
}

impl<T: Real> Work for Blocks<'_, T> {
    #[inline(always)]
    fn run(mut self) {
        let (job, [depth, height, width]) = (self.job, self.job.windows.input);
        let stride = job.windows.stride[2];
        for n in 0..job.y.batch {
            for m in 0..job.y.channels {
                for oz in 0..depth {
                    for oy in 0..height {
                        for phase in 0..stride.min(width) {
                            let outputs = (width - phase).div_ceil(stride);
                            for first in (0..outputs).step_by(BLOCK) {
                                self.block(n, m, [oz, oy, phase], first, BLOCK.min(outputs - first));
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<T: Real> Blocks<'_, T> {
    /// The outputs at `phase + stride * (first + 0..count)`.
    #[inline(always)]
    fn block(&mut self, n: usize, m: usize, [oz, oy, phase]: [usize; 3], first: usize, count: usize) {
        let (job, v) = (self.job, &self.job.windows);
        let (channels, results) = (job.x.channels / job.group, job.y.channels / job.group);
        let group = m / results;
        let bias = self.bias.get(m).map_or(T::Acc::default(), |b| b.widen());
        let (mut sums, stride) = ([bias; BLOCK], v.stride[2] as isize);
        for kx in 0..v.kernel[2] {
            let distance = phase as isize + v.before[2] - (kx * v.dilation[2]) as isize;
            if distance.rem_euclid(stride) != 0 {
                continue;
            }
            let shift = first as isize + distance.div_euclid(stride);
            let low = shift.min(0).unsigned_abs();
            let high = (v.output[2] as isize - shift).clamp(0, count as isize) as usize;
            if low >= high {
                continue;
            }
            let ix = (shift + low as isize) as usize;
            for kz in 0..v.kernel[0] {
                for ky in 0..v.kernel[1] {
                    let (Some(iz), Some(iy)) = (job.source(0, oz, kz), job.source(1, oy, ky)) else { continue };
                    let tap = (kz * v.kernel[1] + ky) * v.kernel[2] + kx;
                    for c in group * channels..(group + 1) * channels {
                        let w = self.w[(c * results + m % results) * v.taps_per_window() + tap].widen();
                        let row = &self.x[job.x.at(n, c, [iz, iy, ix])..][..high - low];
                        for (sum, x) in sums[low..high].iter_mut().zip(row) {
                            *sum += w * x.widen();
                        }
                    }
                }
            }
        }
        let row = &mut self.y[job.y.at(n, m, [oz, oy, phase + first * v.stride[2]])..];
        for (y, sum) in row.iter_mut().step_by(v.stride[2]).zip(sums.iter().take(count)) {
            *y = T::narrow(*sum);
        }
    }
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &ConvTranspose<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let meta = |list: &[Option<Meta>], i: usize| list.get(i).copied().flatten().ok_or(Fault::Missing { operand: i });
    let (x, w, y) = (meta(reads, 0)?, meta(reads, 1)?, meta(writes, 0)?);
    let job = Job::new(p, &x.dims, &w.dims, &y.dims)?;
    let floats = if x.dtype == DType::F32 { job.workspace() } else { 0 };
    floats.checked_mul(size_of::<f32>()).ok_or(Fault::Extent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute;
    use crate::spatial::testing::Numbers;
    use crate::testing::isas;
    use plan::List;
    use std::{vec, vec::Vec};

    #[test]
    fn each_input_adds_its_window() {
        let mut numbers = Numbers::new(3);
        for round in 0..80 {
            let (n, group, c, m) = (numbers.range(1, 2), numbers.range(1, 2), numbers.range(1, 4), numbers.range(1, 3));
            let mut pair = |low, high| [numbers.range(low, high), numbers.range(low, high)];
            let (input, k, s, d, before) = (pair(1, 80), pair(1, 4), pair(1, 3), pair(1, 2), pair(0, 2));
            let extra = pair(0, 2);
            let full = |a: usize| (input[a] - 1) * s[a] + (k[a] - 1) * d[a] + 1 + extra[a];
            let out = [full(0).saturating_sub(before[0] + 1), full(1).saturating_sub(before[1] + 1)];
            let (channels, results) = (group * c, group * m);
            let x = numbers.floats(n * channels * input[0] * input[1]);
            let w = numbers.floats(channels * m * k[0] * k[1]);
            let bias = numbers.floats(results);
            let mut want = vec![0f64; n * results * out[0] * out[1]];
            for (i, v) in want.iter_mut().enumerate() {
                *v = f64::from(bias[i / (out[0] * out[1]) % results]);
            }
            for (i, x) in x.iter().enumerate() {
                let (ix, iy) = (i % input[1], i / input[1] % input[0]);
                let (channel, image) = (i / (input[0] * input[1]) % channels, i / (input[0] * input[1]) / channels);
                for (j, w) in w.iter().enumerate().filter(|(j, _)| j / (m * k[0] * k[1]) == channel) {
                    let (oy, ox) = (iy * s[0] + j / k[1] % k[0] * d[0], ix * s[1] + j % k[1] * d[1]);
                    let result = channel / c * m + j / (k[0] * k[1]) % m;
                    if oy >= before[0] && ox >= before[1] && oy - before[0] < out[0] && ox - before[1] < out[1] {
                        let at = (image * results + result) * out[0] + oy - before[0];
                        want[at * out[1] + ox - before[1]] += f64::from(*x) * f64::from(*w);
                    }
                }
            }
            let list = |v: [usize; 2]| List::of(v.map(|v| v as u32));
            let p = ConvTranspose {
                strides: list(s),
                dilations: list(d),
                before: List::of(before.map(|b| b as i64)),
                group: group as u32,
            };
            for isa in isas() {
                let mut y = vec![f32::NAN; want.len()];
                let reads: Vec<_> = [
                    (&x, vec![n, channels, input[0], input[1]]),
                    (&w, vec![channels, m, k[0], k[1]]),
                    (&bias, vec![results]),
                ]
                .iter()
                .map(|(data, dims)| Some(Src::from_slice(data, dims).unwrap()))
                .collect();
                let y_dims = [n, results, out[0], out[1]];
                let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: List::from_slice(dims).unwrap() });
                let metas: Vec<_> = reads.iter().map(|r: &Option<Src>| r.and_then(|r| meta(r.dims()))).collect();
                let needed = workspace(&p, &metas, &[meta(&y_dims)]).unwrap();
                let grown = [n, results, out[0] + s[0] * round % 3, out[1] + round % 5];
                assert!(needed <= workspace(&p, &metas, &[meta(&grown)]).unwrap());
                let mut memory = vec![0u64; needed.div_ceil(8)];
                // SAFETY: every bit pattern is a byte.
                let (_, memory, _) = unsafe { memory.align_to_mut::<u8>() };
                let mut writes = [Some(Dst::from_slice(&mut y, &y_dims).unwrap())];
                execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut memory[..needed], &mut [], isa)).unwrap();
                for (y, want) in y.iter().zip(&want) {
                    assert!((f64::from(*y) - want).abs() < 1e-4, "{round}: {y} for {want}, {p:?}");
                }
                // The level for the other types.
                let job = Job::new(&p, &metas[0].unwrap().dims, &metas[1].unwrap().dims, &y_dims).unwrap();
                y.fill(f32::NAN);
                with_isa(isa, Blocks { job: &job, x: &x, w: &w, bias: &bias, y: &mut y });
                for (y, want) in y.iter().zip(&want) {
                    assert!((f64::from(*y) - want).abs() < 1e-4, "{round}: {y} for {want}, {p:?}");
                }
            }
        }
    }
}
