//! Convolution: validation and choice of kernel.
//!
//! * `reference`: any type and layout, weights as they are;
//! * `panels` (with `columns` and `micro`): f32, channels-first, weights in panels of 16 output channels;
//! * `depthwise`: f32, channels-first, one input channel for each group, weights as they are;
//! * `winograd`: f32, channels-first, 3×3 windows with stride 1, transformed weights;
//! * `last`: f32, channels-last, packed weights.

mod columns;
mod depthwise;
mod last;
mod micro;
mod panels;
mod reference;
pub(crate) mod transposed;
pub(crate) mod winograd;

#[cfg(test)]
mod tests;

use crate::spatial::{Accumulator, Image, Real, Windows, split_dims};
use crate::{Call, Dst, Element, Fault, Meta, Src};
use half::{bf16, f16};
use plan::DType;
use plan::prim::{Activation, ActivationKind, Conv, ConvLayout, DataLayout};

/// Width of a panel of packed weights.
const PANEL: usize = 16;

/// A validated convolution.
#[derive(Clone, Copy, Debug)]
struct Job {
    windows: Windows,
    /// Of the data.
    x: Image,
    /// Of the result.
    y: Image,
    group: usize,
    activation: Activation,
}

impl Job {
    fn new(p: &Conv<i64>, x: &[usize], w: &[usize], y: &[usize]) -> Result<Job, Fault> {
        let (batch, channels, input) = split_dims(x, p.data)?;
        let (y_batch, m, output) = split_dims(y, p.data)?;
        let group = p.group as usize;
        if batch != y_batch || group == 0 || channels % group != 0 || m % group != 0 {
            return Err(Fault::Shape("batch and groups of a convolution"));
        }
        let mut kernel = p.kernel.map(|k| k as usize);
        if let (ConvLayout::Plain, [_, _, k @ ..]) = (p.weights, w) {
            kernel = plan::List::from_slice(k).ok_or(Fault::Shape("more than three spatial axes"))?;
        }
        let windows = Windows::new(input, output, &kernel, &p.strides, &p.dilations, &p.before)?;
        let job = Job {
            windows,
            x: Image::new(batch, channels, windows.input, p.data),
            y: Image::new(batch, m, windows.output, p.data),
            group,
            activation: p.activation,
        };
        job.check_weights(p.weights, w, &kernel)?;
        Ok(job)
    }

    fn check_weights(&self, layout: ConvLayout, w: &[usize], kernel: &[usize]) -> Result<(), Fault> {
        let (c, m) = (self.channels_per_group(), self.results_per_group());
        let taps = kernel.iter().try_fold(c, |all, k| all.checked_mul(*k)).ok_or(Fault::Extent)?;
        let fits = match layout {
            ConvLayout::Plain => matches!(w, [wm, wc, ..] if *wm == self.y.channels && *wc == c),
            ConvLayout::Panels16 => w == [self.group, m.div_ceil(PANEL), taps, PANEL],
            ConvLayout::Winograd4 => {
                self.group == 1
                    && winograd::supports(&self.windows)
                    && w == [winograd::PLACES, m.div_ceil(PANEL), c, PANEL]
            }
            ConvLayout::Depthwise16 => c == 1 && m == 1 && w == [self.group.div_ceil(PANEL), taps, PANEL],
        };
        if fits { Ok(()) } else { Err(Fault::Shape("weights of a convolution")) }
    }

    /// Floats of workspace.
    fn workspace(&self, p: &Conv<i64>, dtype: DType) -> usize {
        let terms = self.channels_per_group() * self.windows.taps_per_window();
        match (p.weights, p.data) {
            (ConvLayout::Panels16, DataLayout::ChannelsLast) => last::workspace(self),
            (ConvLayout::Panels16, DataLayout::ChannelsFirst) => {
                panels::workspace(terms, self.results_per_group(), self.windows.output_plane())
            }
            (ConvLayout::Winograd4, _) => winograd::workspace(self.x.channels),
            (ConvLayout::Plain, _) if dtype == DType::F32 && self.is_depthwise(p) => depthwise::workspace(self),
            _ => 0,
        }
    }

    /// Whether the kernel for one input channel in each group takes it.
    fn is_depthwise(&self, p: &Conv<i64>) -> bool {
        p.data == DataLayout::ChannelsFirst && p.weights == ConvLayout::Plain && depthwise::supports(self)
    }

    /// Input channels of a group.
    fn channels_per_group(&self) -> usize {
        self.x.channels / self.group
    }

    /// Output channels of a group.
    fn results_per_group(&self) -> usize {
        self.y.channels / self.group
    }
}

/// Where the residual of a convolution is.
#[derive(Clone, Copy)]
enum Residual<'a, T> {
    None,
    /// In the result itself.
    InPlace,
    At(&'a [T]),
}

impl<'a, T: Element> Residual<'a, T> {
    /// Where the elements from `at` on are; null where there are none. `y` is the result.
    fn first(&self, y: &[T], at: usize) -> *const T {
        match self {
            Residual::None => core::ptr::null(),
            Residual::InPlace => y[at..].as_ptr(),
            Residual::At(r) => r[at..].as_ptr(),
        }
    }

    fn of(src: Option<Src<'a>>, dst: &Dst<'_>) -> Result<Self, Fault> {
        let Some(src) = src else { return Ok(Residual::None) };
        if src.dims() != dst.dims() {
            return Err(Fault::Shape("a residual with the dims of the result"));
        }
        if src.is_shared() { Ok(Residual::InPlace) } else { src.slice().map(Residual::At) }
    }
}

fn bias_of<'a, T: Element>(call: &Call<'_, 'a>, m: usize) -> Result<Option<&'a [T]>, Fault> {
    let Some(bias) = call.opt_src(2) else { return Ok(None) };
    if bias.dims() != [m] {
        return Err(Fault::Shape("a bias for each output channel"));
    }
    bias.slice().map(Some)
}

/// Runs [`Conv`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn conv(p: &Conv<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, w, mut y) = (call.src(0)?, call.src(1)?, call.dst(0)?);
    let job = Job::new(p, x.dims(), w.dims(), y.dims())?;
    if y.is_empty() {
        return Ok(());
    }
    match (p.weights, x.dtype()) {
        (ConvLayout::Depthwise16, _) if p.data == DataLayout::ChannelsFirst => {
            Err(Fault::Unsupported("these weights with channels-first data"))
        }
        (ConvLayout::Winograd4, _) if p.data == DataLayout::ChannelsLast => {
            Err(Fault::Unsupported("these weights with channels-last data"))
        }
        (ConvLayout::Panels16 | ConvLayout::Depthwise16 | ConvLayout::Winograd4, DType::F32) => {
            fast(&job, p, call, &x, &w, &mut y)
        }
        (ConvLayout::Plain, DType::F32) if job.is_depthwise(p) => fast(&job, p, call, &x, &w, &mut y),
        (ConvLayout::Plain, DType::F32) => plain::<f32>(&job, call, &x, &w, &mut y),
        (ConvLayout::Plain, DType::F64) => plain::<f64>(&job, call, &x, &w, &mut y),
        (ConvLayout::Plain, DType::F16) => plain::<f16>(&job, call, &x, &w, &mut y),
        (ConvLayout::Plain, DType::BF16) => plain::<bf16>(&job, call, &x, &w, &mut y),
        (ConvLayout::Plain, DType::U8) => bytes::<u8>(&job, call, &x, &w, &mut y),
        (ConvLayout::Plain, DType::I8) => bytes::<i8>(&job, call, &x, &w, &mut y),
        (_, found) => Err(Fault::DType { found, wanted: "f32 (packed) or a float or 8-bit integer" }),
    }
}

fn plain<T: Real>(job: &Job, call: &Call<'_, '_>, x: &Src<'_>, w: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault>
where
    T::Acc: reference::Sum,
{
    let bias = bias_of::<T>(call, job.y.channels)?;
    let residual = Residual::<T>::of(call.opt_src(3), y)?;
    let (x, w, y) = (x.slice::<T>()?, w.slice::<T>()?, y.slice::<T>()?);
    reference::convolve(
        job,
        x,
        w,
        T::widen,
        |w, _| w.widen(),
        |i, m, mut sum| {
            if let Some(bias) = bias {
                sum += bias[m].widen();
            }
            // What is merged into the convolution sees what it alone would have stored.
            if !matches!(residual, Residual::None) || job.activation.kind != ActivationKind::Identity {
                sum = T::narrow(sum).widen();
            }
            match residual {
                Residual::None => {}
                Residual::InPlace => sum = T::narrow(sum + y[i].widen()).widen(),
                Residual::At(r) => sum = T::narrow(sum + r[i].widen()).widen(),
            }
            y[i] = T::narrow(sum.activate(&job.activation));
        },
    );
    Ok(())
}

/// The fast kernels for f32.
fn fast(
    job: &Job,
    p: &Conv<i64>,
    call: &mut Call<'_, '_>,
    x: &Src<'_>,
    w: &Src<'_>,
    y: &mut Dst<'_>,
) -> Result<(), Fault> {
    let needed = job.workspace(p, x.dtype());
    let mut operands = panels::Operands {
        isa: call.isa(),
        x: x.slice()?,
        w: w.slice()?,
        bias: bias_of(call, job.y.channels)?,
        residual: Residual::of(call.opt_src(3), y)?,
        y: y.slice()?,
        workspace: call.take_workspace_of(needed)?,
    };
    match (p.data, p.weights) {
        (DataLayout::ChannelsFirst, ConvLayout::Plain) => depthwise::channels_first(job, &mut operands),
        (DataLayout::ChannelsFirst, ConvLayout::Winograd4) => winograd::channels_first(job, &mut operands),
        (DataLayout::ChannelsFirst, _) => panels::channels_first(job, &mut operands),
        (DataLayout::ChannelsLast, ConvLayout::Depthwise16) => {
            last::depthwise(job, &mut operands);
            Ok(())
        }
        (DataLayout::ChannelsLast, _) => last::panels(job, &mut operands),
    }
}

/// An 8-bit integer.
trait Byte: Element {
    fn wide(self) -> i32;
}

impl Byte for u8 {
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
}

impl Byte for i8 {
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
}

fn bytes<X: Byte>(job: &Job, call: &Call<'_, '_>, x: &Src<'_>, w: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    match w.dtype() {
        DType::U8 => integers::<X, u8>(job, call, x, w, y),
        DType::I8 => integers::<X, i8>(job, call, x, w, y),
        found => Err(Fault::DType { found, wanted: "u8 or i8" }),
    }
}

/// The zero points of an operand, which has the element type `T`: one, or one for each of `count`.
fn zero_points<'a, T: Byte>(src: Option<Src<'a>>, count: usize) -> Result<&'a [T], Fault> {
    let Some(src) = src else { return Ok(&[]) };
    if src.len() != 1 && src.len() != count {
        return Err(Fault::Shape("one zero point, or one for each channel"));
    }
    src.slice()
}

fn integers<X: Byte, W: Byte>(
    job: &Job,
    call: &Call<'_, '_>,
    x: &Src<'_>,
    w: &Src<'_>,
    y: &mut Dst<'_>,
) -> Result<(), Fault> {
    let bias = bias_of::<i32>(call, job.y.channels)?;
    let residual = Residual::<i32>::of(call.opt_src(3), y)?;
    let x_zero = zero_points::<X>(call.opt_src(4), 1)?.first().map_or(0, |z| z.wide());
    let w_zero = zero_points::<W>(call.opt_src(5), job.y.channels)?;
    let (x, w, y) = (x.slice::<X>()?, w.slice::<W>()?, y.slice::<i32>()?);
    reference::convolve(
        job,
        x,
        w,
        |x: X| x.wide() - x_zero,
        |w, m| w.wide() - w_zero.get(m).or(w_zero.first()).map_or(0, |z| z.wide()),
        |i, m, sum: i32| {
            let sum = sum.wrapping_add(bias.map_or(0, |b| b[m]));
            y[i] = sum.wrapping_add(match residual {
                Residual::None => 0,
                Residual::InPlace => y[i],
                Residual::At(r) => r[i],
            });
        },
    );
    Ok(())
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &Conv<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let dims = |list: &[Option<Meta>], i: usize| list.get(i).copied().flatten().ok_or(Fault::Missing { operand: i });
    let (x, w, y) = (dims(reads, 0)?, dims(reads, 1)?, dims(writes, 0)?);
    let job = Job::new(p, &x.dims, &w.dims, &y.dims)?;
    job.workspace(p, x.dtype).checked_mul(size_of::<f32>()).ok_or(Fault::Extent)
}
