//! Pooling: the largest, the mean or a norm of the elements of a window.
//!
//! Channels-first, the rows under a block of outputs are folded into one row first, and that row along the last axis after:
//! a window of `k * k` costs `2 k`. Channels-last, the channels of a block are folded side by side.

use crate::spatial::{Accumulator, Image, Real, Windows, Work, split_dims, with_isa};
use crate::{Call, Dst, Element, Fault, Isa, Src};
use core::marker::PhantomData;
use half::{bf16, f16};
use plan::DType;
use plan::prim::{DataLayout, Pool, PoolKind};

/// A validated pooling.
#[derive(Clone, Copy)]
struct Job {
    windows: Windows,
    after: [isize; 3],
    x: Image,
    y: Image,
    include_pad: bool,
    column_major: bool,
    layout: DataLayout,
}

impl Job {
    fn new(p: &Pool<i64>, x: &[usize], y: &[usize]) -> Result<Job, Fault> {
        let (batch, channels, input) = split_dims(x, p.data)?;
        let (y_batch, y_channels, output) = split_dims(y, p.data)?;
        if (batch, channels) != (y_batch, y_channels) || p.after.len() != input.len() {
            return Err(Fault::Shape("pooling keeps batch and channels"));
        }
        let kernel = p.kernel.map(|k| k as usize);
        let windows = Windows::new(input, output, &kernel, &p.strides, &p.dilations, &p.before)?;
        let after = crate::spatial::align3(&p.after, 0)?;
        Ok(Job {
            windows,
            // Beyond any window there is nothing to count.
            after: after.map(|a| a.clamp(0, isize::MAX as i64 / 2) as isize),
            x: Image::new(batch, channels, windows.input, p.data),
            y: Image::new(batch, channels, windows.output, p.data),
            include_pad: p.count_include_pad,
            column_major: p.column_major,
            layout: p.data,
        })
    }

    /// How many elements count in a mean, along one axis.
    fn count(&self, a: usize, o: usize) -> usize {
        if self.include_pad { self.windows.padded_taps(a, o, self.after[a]) } else { self.windows.taps(a, o).len() }
    }
}

/// Runs [`Pool`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn pool(p: &Pool<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, mut y, isa) = (call.src(0)?, call.dst(0)?, call.isa());
    let job = Job::new(p, x.dims(), y.dims())?;
    let mut places = call.opt_dst(1);
    match p.kind {
        PoolKind::Max => match x.dtype() {
            DType::F32 => max::<f32>(&job, isa, &x, &mut y, &mut places),
            DType::F64 => max::<f64>(&job, isa, &x, &mut y, &mut places),
            DType::F16 => max::<f16>(&job, isa, &x, &mut y, &mut places),
            DType::BF16 => max::<bf16>(&job, isa, &x, &mut y, &mut places),
            DType::I8 => max::<i8>(&job, isa, &x, &mut y, &mut places),
            DType::U8 => max::<u8>(&job, isa, &x, &mut y, &mut places),
            DType::I16 => max::<i16>(&job, isa, &x, &mut y, &mut places),
            DType::I32 => max::<i32>(&job, isa, &x, &mut y, &mut places),
            DType::I64 => max::<i64>(&job, isa, &x, &mut y, &mut places),
            found => Err(Fault::DType { found, wanted: "a float or a signed or 8-bit integer" }),
        },
        kind => match x.dtype() {
            DType::F32 => sums::<f32>(kind, &job, isa, &x, &mut y),
            DType::F64 => sums::<f64>(kind, &job, isa, &x, &mut y),
            DType::F16 => sums::<f16>(kind, &job, isa, &x, &mut y),
            DType::BF16 => sums::<bf16>(kind, &job, isa, &x, &mut y),
            found => Err(Fault::DType { found, wanted: "a float" }),
        },
    }
}

fn max<T: Ordered>(
    job: &Job,
    isa: Isa,
    x: &Src<'_>,
    y: &mut Dst<'_>,
    places: &mut Option<Dst<'_>>,
) -> Result<(), Fault> {
    let (x, y_dims) = (x.slice::<T>()?, plan::Axes::from_slice(y.dims()).unwrap_or_default());
    let y = y.slice::<T>()?;
    match places {
        None => with_isa(isa, Rows { job, x, y, fold: Largest(PhantomData) }),
        Some(places) => {
            if places.dims() != y_dims.as_slice() {
                return Err(Fault::Shape("an index for each largest element"));
            }
            max_with_places(job, x, y, places.slice::<i64>()?);
        }
    }
    Ok(())
}

fn sums<T: Real>(kind: PoolKind, job: &Job, isa: Isa, x: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    let (x, y) = (x.slice::<T>()?, y.slice::<T>()?);
    match kind {
        PoolKind::Lp { p } => with_isa(isa, Rows { job, x, y, fold: Norm { p, of: PhantomData } }),
        _ => with_isa(isa, Rows { job, x, y, fold: Mean(PhantomData) }),
    }
    Ok(())
}

/// An element type with an order and a lowest value.
trait Ordered: Element + PartialOrd {
    const LOWEST: Self;
}

macro_rules! ordered {
    ($($t:ty => $v:expr),*) => { $(impl Ordered for $t { const LOWEST: $t = $v; })* };
}
ordered!(f32 => f32::NEG_INFINITY, f64 => f64::NEG_INFINITY, f16 => f16::NEG_INFINITY, bf16 => bf16::NEG_INFINITY,
    i8 => i8::MIN, u8 => 0, i16 => i16::MIN, i32 => i32::MIN, i64 => i64::MIN);

/// The reference level, which finds the place of the first largest element, too.
fn max_with_places<T: Ordered>(job: &Job, x: &[T], y: &mut [T], places: &mut [i64]) {
    let (v, [_, h, w], [d, rows, _]) = (&job.windows, job.windows.input, job.windows.input);
    for n in 0..job.y.batch {
        for c in 0..job.y.channels {
            for oz in 0..v.output[0] {
                for oy in 0..v.output[1] {
                    for ox in 0..v.output[2] {
                        let mut best: Option<(T, [usize; 3])> = None;
                        for iz in v.taps(0, oz).filter_map(|k| v.at(0, oz, k)) {
                            for iy in v.taps(1, oy).filter_map(|k| v.at(1, oy, k)) {
                                for ix in v.taps(2, ox).filter_map(|k| v.at(2, ox, k)) {
                                    let value = x[job.x.at(n, c, [iz, iy, ix])];
                                    if best.is_none_or(|(b, _)| value > b) {
                                        best = Some((value, [iz, iy, ix]));
                                    }
                                }
                            }
                        }
                        let at = job.y.at(n, c, [oz, oy, ox]);
                        let first = (n * job.y.channels + c) * v.input_plane();
                        (y[at], places[at]) = match best {
                            None => (T::LOWEST, -1),
                            Some((value, [z, r, q])) if job.column_major => {
                                (value, (first + z + (r + q * rows) * d) as i64)
                            }
                            Some((value, [z, r, q])) => (value, (first + (z * h + r) * w + q) as i64),
                        };
                    }
                }
            }
        }
    }
}

/// What is done with the elements of a window.
trait Fold<T>: Copy {
    /// What is kept of some of them.
    type Kept: Copy;
    /// Of none.
    fn none(&self) -> Self::Kept;
    /// Of one.
    fn of(&self, v: T) -> Self::Kept;
    /// Of both.
    fn join(&self, a: Self::Kept, b: Self::Kept) -> Self::Kept;
    /// The result, for a window in which `count` elements count.
    fn result(&self, kept: Self::Kept, count: usize) -> T;
}

#[derive(Clone, Copy)]
struct Largest<T>(PhantomData<T>);

impl<T: Ordered> Fold<T> for Largest<T> {
    type Kept = T;
    #[inline(always)]
    fn none(&self) -> T {
        T::LOWEST
    }
    #[inline(always)]
    fn of(&self, v: T) -> T {
        v
    }
    #[inline(always)]
    fn join(&self, a: T, b: T) -> T {
        if b > a { b } else { a }
    }
    #[inline(always)]
    fn result(&self, kept: T, _: usize) -> T {
        kept
    }
}

#[derive(Clone, Copy)]
struct Mean<T>(PhantomData<T>);

impl<T: Real> Fold<T> for Mean<T> {
    type Kept = T::Acc;
    #[inline(always)]
    fn none(&self) -> T::Acc {
        T::Acc::default()
    }
    #[inline(always)]
    fn of(&self, v: T) -> T::Acc {
        v.widen()
    }
    #[inline(always)]
    fn join(&self, a: T::Acc, b: T::Acc) -> T::Acc {
        a + b
    }
    #[inline(always)]
    fn result(&self, kept: T::Acc, count: usize) -> T {
        T::narrow(kept / T::Acc::of_usize(count.max(1)))
    }
}

#[derive(Clone, Copy)]
struct Norm<T> {
    p: u32,
    of: PhantomData<T>,
}

impl<T: Real> Fold<T> for Norm<T> {
    type Kept = T::Acc;
    #[inline(always)]
    fn none(&self) -> T::Acc {
        T::Acc::default()
    }
    #[inline(always)]
    fn of(&self, v: T) -> T::Acc {
        let v = v.widen();
        match self.p {
            1 => v.magnitude(),
            2 => v * v,
            p => v.magnitude().power(T::Acc::of_usize(p as usize)),
        }
    }
    #[inline(always)]
    fn join(&self, a: T::Acc, b: T::Acc) -> T::Acc {
        a + b
    }
    #[inline(always)]
    fn result(&self, kept: T::Acc, _: usize) -> T {
        T::narrow(match self.p {
            1 => kept,
            2 => kept.root(),
            p => kept.power(T::Acc::of_f64(1.0 / f64::from(p.max(1)))),
        })
    }
}

/// Outputs (or channels) folded side by side.
const BLOCK: usize = 64;
/// Input columns folded into one row.
const SPAN: usize = 320;

/// Pooling without places.
struct Rows<'a, T, F> {
    job: &'a Job,
    x: &'a [T],
    y: &'a mut [T],
    fold: F,
}

impl<T: Copy, F: Fold<T>> Work for Rows<'_, T, F> {
    #[inline(always)]
    fn run(mut self) {
        let (job, v) = (self.job, &self.job.windows);
        // The outputs whose windows' columns fit in a row of `SPAN`.
        let reach = (v.kernel[2].max(1) - 1) * v.dilation[2] + 1;
        let block = BLOCK.min(SPAN.saturating_sub(reach) / v.stride[2] + 1);
        for n in 0..job.y.batch {
            for oz in 0..v.output[0] {
                for oy in 0..v.output[1] {
                    match job.layout {
                        DataLayout::ChannelsLast => {
                            for ox in 0..v.output[2] {
                                self.channels(n, [oz, oy, ox]);
                            }
                        }
                        DataLayout::ChannelsFirst if reach > SPAN => {
                            for ox in 0..v.output[2] {
                                for c in 0..job.y.channels {
                                    self.single(n, c, [oz, oy, ox]);
                                }
                            }
                        }
                        DataLayout::ChannelsFirst => {
                            for c in 0..job.y.channels {
                                for first in (0..v.output[2]).step_by(block) {
                                    self.block(n, c, [oz, oy, first], block.min(v.output[2] - first));
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<T: Copy, F: Fold<T>> Rows<'_, T, F> {
    /// `count` outputs along the last axis, channels-first.
    #[inline(always)]
    fn block(&mut self, n: usize, c: usize, [oz, oy, first]: [usize; 3], count: usize) {
        let (job, v, fold) = (self.job, &self.job.windows, self.fold);
        let last = v.start(2, first + count - 1) + ((v.kernel[2].max(1) - 1) * v.dilation[2]) as isize + 1;
        let low = v.start(2, first).clamp(0, v.input[2] as isize);
        let high = last.clamp(low, v.input[2] as isize);
        let (low, width) = (low as usize, (high - low) as usize);
        let mut columns = [fold.none(); SPAN];
        for iz in v.taps(0, oz).filter_map(|k| v.at(0, oz, k)) {
            for iy in v.taps(1, oy).filter_map(|k| v.at(1, oy, k)) {
                let row = &self.x[job.x.at(n, c, [iz, iy, low])..][..width];
                for (kept, x) in columns.iter_mut().zip(row) {
                    *kept = fold.join(*kept, fold.of(*x));
                }
            }
        }
        let mut kept = [fold.none(); BLOCK];
        for k in 0..v.kernel[2] {
            let outputs = v.outputs(2, k);
            let (from, to) = (outputs.start.max(first), outputs.end.min(first + count));
            if from >= to {
                continue;
            }
            let Some(ix) = v.at(2, from, k) else { continue };
            let (kept, columns) = (&mut kept[from - first..to - first], &columns[ix - low..]);
            match v.stride[2] {
                1 => kept.iter_mut().zip(columns).for_each(|(k, x)| *k = fold.join(*k, *x)),
                2 => kept.iter_mut().zip(columns.iter().step_by(2)).for_each(|(k, x)| *k = fold.join(*k, *x)),
                s => kept.iter_mut().zip(columns.iter().step_by(s)).for_each(|(k, x)| *k = fold.join(*k, *x)),
            }
        }
        let rows = job.count(0, oz) * job.count(1, oy);
        let inner = if job.include_pad { 0..0 } else { self.whole_windows() };
        let y = &mut self.y[job.y.at(n, c, [oz, oy, first])..][..count];
        for (i, (y, kept)) in y.iter_mut().zip(kept).enumerate() {
            let ox = first + i;
            let columns = if inner.contains(&ox) { v.kernel[2] } else { job.count(2, ox) };
            *y = fold.result(kept, rows * columns);
        }
    }

    /// The outputs along the last axis whose windows lie within the input.
    #[inline(always)]
    fn whole_windows(&self) -> core::ops::Range<usize> {
        let v = &self.job.windows;
        if v.kernel[2] == 0 { 0..0 } else { v.outputs(2, 0).start..v.outputs(2, v.kernel[2] - 1).end }
    }

    /// One output of one channel.
    fn single(&mut self, n: usize, c: usize, [oz, oy, ox]: [usize; 3]) {
        let (job, v, fold) = (self.job, &self.job.windows, self.fold);
        let mut kept = fold.none();
        for iz in v.taps(0, oz).filter_map(|k| v.at(0, oz, k)) {
            for iy in v.taps(1, oy).filter_map(|k| v.at(1, oy, k)) {
                for ix in v.taps(2, ox).filter_map(|k| v.at(2, ox, k)) {
                    kept = fold.join(kept, fold.of(self.x[job.x.at(n, c, [iz, iy, ix])]));
                }
            }
        }
        let count = job.count(0, oz) * job.count(1, oy) * job.count(2, ox);
        self.y[job.y.at(n, c, [oz, oy, ox])] = fold.result(kept, count);
    }

    /// One output of all channels, channels-last.
    #[inline(always)]
    fn channels(&mut self, n: usize, [oz, oy, ox]: [usize; 3]) {
        let (job, v, fold) = (self.job, &self.job.windows, self.fold);
        let count = job.count(0, oz) * job.count(1, oy) * job.count(2, ox);
        for first in (0..job.y.channels).step_by(BLOCK) {
            let width = BLOCK.min(job.y.channels - first);
            let mut kept = [fold.none(); BLOCK];
            for iz in v.taps(0, oz).filter_map(|k| v.at(0, oz, k)) {
                for iy in v.taps(1, oy).filter_map(|k| v.at(1, oy, k)) {
                    for ix in v.taps(2, ox).filter_map(|k| v.at(2, ox, k)) {
                        let x = &self.x[job.x.at(n, first, [iz, iy, ix])..][..width];
                        for (kept, x) in kept.iter_mut().zip(x) {
                            *kept = fold.join(*kept, fold.of(*x));
                        }
                    }
                }
            }
            let y = &mut self.y[job.y.at(n, first, [oz, oy, ox])..][..width];
            for (y, kept) in y.iter_mut().zip(kept) {
                *y = fold.result(kept, count);
            }
        }
    }
}

#[cfg(test)]
mod tests;
