//! What the kernels on image-like data share: windows along up to three spatial axes, and the numbers they compute in.

use crate::{Element, Fault, Isa};
use core::ops::{Add, AddAssign, Div, Mul, Range, Sub};
use half::{bf16, f16};
use plan::prim::{Activation, ActivationKind, DataLayout};

/// Windows over the input for each output, along three spatial axes. Axes that the data lacks come first, with extent 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Windows {
    /// Input extents.
    pub input: [usize; 3],
    /// Output extents.
    pub output: [usize; 3],
    /// Taps.
    pub kernel: [usize; 3],
    /// Step between outputs.
    pub stride: [usize; 3],
    /// Step between taps.
    pub dilation: [usize; 3],
    /// Padding before (negative: cropped).
    pub before: [isize; 3],
}

/// Right-aligns up to three items, filling from the left.
pub(crate) fn align3<T: Copy>(items: &[T], fill: T) -> Result<[T; 3], Fault> {
    let mut out = [fill; 3];
    let places = 3usize.checked_sub(items.len()).and_then(|skip| out.get_mut(skip..));
    places.ok_or(Fault::Shape("more than three spatial axes"))?.copy_from_slice(items);
    Ok(out)
}

impl Windows {
    /// Windows of the given lists, each with one item per spatial axis.
    ///
    /// # Errors
    /// When the lists differ in length, a step is 0, or a position does not fit `isize`.
    pub fn new(
        input: &[usize],
        output: &[usize],
        kernel: &[usize],
        stride: &[u32],
        dilation: &[u32],
        before: &[i64],
    ) -> Result<Windows, Fault> {
        let rank = input.len();
        if [output.len(), kernel.len(), stride.len(), dilation.len(), before.len()].iter().any(|l| *l != rank) {
            return Err(Fault::Shape("one window extent, step and padding for each spatial axis"));
        }
        let steps = |s: &[u32]| align3(s, 1).map(|s| s.map(|v| v as usize));
        let windows = Windows {
            input: align3(input, 1)?,
            output: align3(output, 1)?,
            kernel: align3(kernel, 1)?,
            stride: steps(stride)?,
            dilation: steps(dilation)?,
            before: narrow3(align3(before, 0)?)?,
        };
        windows.validate()?;
        Ok(windows)
    }

    /// Whether every output is made of the input element at the same place, and of nothing else.
    pub fn are_elements(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.before == [0; 3] && self.input == self.output
    }

    fn validate(&self) -> Result<(), Fault> {
        for a in 0..3 {
            if self.stride[a] == 0 || self.dilation[a] == 0 {
                return Err(Fault::Shape("a step of 0"));
            }
            let last = self.output[a].checked_mul(self.stride[a]);
            let reach = self.kernel[a].checked_mul(self.dilation[a]);
            let sum = last.zip(reach).and_then(|(l, r)| l.checked_add(r)?.checked_add(self.before[a].unsigned_abs()));
            if sum.and_then(|s| s.checked_add(self.input[a])).is_none_or(|s| isize::try_from(s).is_err()) {
                return Err(Fault::Extent);
            }
        }
        Ok(())
    }

    /// The same windows over fewer axes, where the elements of an axis and of the next can be counted as one (for data whose
    /// axes lie one in another, as channels-first).
    pub fn merged(&self) -> Windows {
        let mut v = *self;
        for _ in 0..2 {
            for (a, b) in [(1, 2), (0, 1)] {
                let whole = v.kernel[b] == 1 && v.before[b] == 0 && v.input[b] == v.output[b];
                let single = v.input[a] == 1 && v.output[a] == 1 && v.kernel[a] == 1 && v.before[a] == 0;
                let steps = v.input[b] == 1 || (v.stride[b] == 1 && v.stride[a] == 1);
                if !whole || !steps || single {
                    continue;
                }
                let extent = v.input[b];
                v.input[b] *= v.input[a];
                v.output[b] *= v.output[a];
                v.dilation[b] = v.dilation[a] * extent;
                (v.kernel[b], v.stride[b], v.before[b]) = (v.kernel[a], v.stride[a], v.before[a] * extent as isize);
                (v.input[a], v.output[a], v.kernel[a], v.stride[a], v.dilation[a], v.before[a]) = (1, 1, 1, 1, 1, 0);
            }
        }
        v
    }

    /// The input index that tap 0 of output `o` meets.
    #[inline(always)]
    pub fn start(&self, a: usize, o: usize) -> isize {
        (o * self.stride[a]) as isize - self.before[a]
    }

    /// The input index that tap `k` of output `o` meets, if it is inside.
    #[inline(always)]
    pub fn at(&self, a: usize, o: usize, k: usize) -> Option<usize> {
        let i = self.start(a, o) + (k * self.dilation[a]) as isize;
        if i >= 0 && (i as usize) < self.input[a] { Some(i as usize) } else { None }
    }

    /// The taps of output `o` that meet the input.
    #[inline(always)]
    pub fn taps(&self, a: usize, o: usize) -> Range<usize> {
        within(self.start(a, o), self.dilation[a], 0, self.input[a], self.kernel[a])
    }

    /// The taps of output `o` that meet the input or `after` elements of padding behind it, or the padding before it.
    pub fn padded_taps(&self, a: usize, o: usize, after: isize) -> usize {
        let shift = self.before[a].max(0);
        let end = self.input[a].saturating_add_signed(after.max(0)).saturating_add(shift as usize);
        within(self.start(a, o) + shift, self.dilation[a], 0, end, self.kernel[a]).len()
    }

    /// The outputs for which tap `k` meets the input.
    #[inline(always)]
    pub fn outputs(&self, a: usize, k: usize) -> Range<usize> {
        let start = (k * self.dilation[a]) as isize - self.before[a];
        within(start, self.stride[a], 0, self.input[a], self.output[a])
    }

    /// How many taps a window has.
    pub fn taps_per_window(&self) -> usize {
        self.kernel.iter().product()
    }

    /// How many elements the output has for each channel.
    pub fn output_plane(&self) -> usize {
        self.output.iter().product()
    }

    /// How many elements the input has for each channel.
    pub fn input_plane(&self) -> usize {
        self.input.iter().product()
    }
}

/// The `i` below `count` for which `start + i * step` is in `low..high`.
#[inline(always)]
fn within(start: isize, step: usize, low: isize, high: usize, count: usize) -> Range<usize> {
    let first = if start >= low { 0 } else { start.abs_diff(low).div_ceil(step) };
    let end = if start >= high as isize { 0 } else { (high as isize).abs_diff(start).div_ceil(step) };
    first.min(count)..end.min(count).max(first.min(count))
}

fn narrow3(values: [i64; 3]) -> Result<[isize; 3], Fault> {
    let mut out = [0; 3];
    for (to, from) in out.iter_mut().zip(values) {
        *to = isize::try_from(from).map_err(|_| Fault::Extent)?;
    }
    Ok(out)
}

/// Batch, channels and spatial extents of image-like data, and the strides of its axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Image {
    /// Images.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Distance between images.
    pub batch_stride: usize,
    /// Distance between channels.
    pub channel_stride: usize,
    /// Distances along the three spatial axes.
    pub strides: [usize; 3],
}

/// Splits dims into batch, channels and spatial extents.
pub(crate) fn split_dims(dims: &[usize], layout: DataLayout) -> Result<(usize, usize, &[usize]), Fault> {
    let wrong = Fault::Shape("data of batch, channels and one to three spatial axes");
    match (dims, layout) {
        ([n, c, spatial @ ..], DataLayout::ChannelsFirst) if (1..=3).contains(&spatial.len()) => Ok((*n, *c, spatial)),
        ([n, spatial @ .., c], DataLayout::ChannelsLast) if (1..=3).contains(&spatial.len()) => Ok((*n, *c, spatial)),
        _ => Err(wrong),
    }
}

impl Image {
    /// The image that lies contiguously with these extents.
    pub fn new(batch: usize, channels: usize, extents: [usize; 3], layout: DataLayout) -> Image {
        let plane: usize = extents.iter().product();
        let (channel_stride, step) = match layout {
            DataLayout::ChannelsFirst => (plane, 1),
            DataLayout::ChannelsLast => (1, channels),
        };
        let strides = [extents[1] * extents[2] * step, extents[2] * step, step];
        Image { batch, channels, batch_stride: channels * plane, channel_stride, strides }
    }

    /// The place of an element.
    #[inline(always)]
    pub fn at(&self, n: usize, c: usize, i: [usize; 3]) -> usize {
        let [a, b, d] = self.strides;
        n * self.batch_stride + c * self.channel_stride + i[0] * a + i[1] * b + i[2] * d
    }
}

/// Code to be compiled for each instruction set: `run` and what it calls must be `#[inline(always)]`.
pub(crate) trait Work {
    /// Does it.
    fn run(self);
}

/// Runs work compiled for the given instruction set.
pub(crate) fn with_isa(isa: Isa, work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2(work: impl Work) {
            work.run();
        }
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512(work: impl Work) {
            work.run();
        }
        match isa {
            // SAFETY: an `Isa` above `Portable` is only made where the processor has these features.
            Isa::Avx512 => return unsafe { avx512(work) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { avx2(work) },
            Isa::Portable => {}
        }
    }
    let _ = isa;
    work.run();
}

/// A type to accumulate in.
pub(crate) trait Accumulator:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
{
    /// The nearest value to an integer.
    fn of_usize(v: usize) -> Self;
    /// The nearest value to a double.
    fn of_f64(v: f64) -> Self;
    /// As a double.
    fn to_f64(self) -> f64;
    /// The magnitude.
    fn magnitude(self) -> Self;
    /// `self` to the power of `p`.
    fn power(self, p: Self) -> Self;
    /// The square root.
    fn root(self) -> Self;
    /// The activation.
    fn activate(self, activation: &Activation) -> Self;
}

impl Accumulator for f32 {
    #[inline(always)]
    fn of_usize(v: usize) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn of_f64(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }
    fn power(self, p: f32) -> f32 {
        libm::powf(self, p)
    }
    fn root(self) -> f32 {
        libm::sqrtf(self)
    }
    fn activate(self, activation: &Activation) -> f32 {
        crate::activation::scalar(activation, self)
    }
}

impl Accumulator for f64 {
    #[inline(always)]
    fn of_usize(v: usize) -> f64 {
        v as f64
    }
    #[inline(always)]
    fn of_f64(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }
    fn power(self, p: f64) -> f64 {
        libm::pow(self, p)
    }
    fn root(self) -> f64 {
        libm::sqrt(self)
    }
    fn activate(self, activation: &Activation) -> f64 {
        activate_f64(activation, self)
    }
}

/// An activation in double precision.
fn activate_f64(activation: &Activation, v: f64) -> f64 {
    let (alpha, beta) = (f64::from(activation.alpha), f64::from(activation.beta));
    // Not `f64::clamp`, which panics on limits in the wrong order.
    let clip = |v: f64, low: f64, high: f64| {
        let v = if v < low { low } else { v };
        if v > high { high } else { v }
    };
    let sigmoid = |v: f64| 1.0 / (1.0 + libm::exp(-v));
    let gelu_tanh = |v: f64| v / 2.0 * (1.0 + libm::tanh(0.797_884_560_802_865_4 * (v + 0.044_715 * v * v * v)));
    match activation.kind {
        ActivationKind::Relu => clip(v, 0.0, f64::INFINITY),
        ActivationKind::LeakyRelu if v < 0.0 => alpha * v,
        ActivationKind::Clip => clip(v, alpha, beta),
        ActivationKind::Sigmoid => sigmoid(v),
        ActivationKind::Tanh => libm::tanh(v),
        ActivationKind::Silu => v * sigmoid(v),
        ActivationKind::HardSwish => v * clip(alpha * v + beta, 0.0, 1.0),
        ActivationKind::HardSigmoid => clip(alpha * v + beta, 0.0, 1.0),
        ActivationKind::Gelu => v / 2.0 * (1.0 + libm::erf(v * core::f64::consts::FRAC_1_SQRT_2)),
        ActivationKind::GeluTanh => gelu_tanh(v),
        ActivationKind::Elu if v < 0.0 => alpha * libm::expm1(v),
        ActivationKind::ScaledTanh => alpha * libm::tanh(beta * v),
        ActivationKind::Affine => alpha * v + beta,
        ActivationKind::ThresholdedRelu if v < alpha => 0.0,
        ActivationKind::Softsign => v / (1.0 + v.abs()),
        ActivationKind::Softplus => v.max(0.0) + libm::log1p(libm::exp(-v.abs())),
        ActivationKind::Identity
        | ActivationKind::LeakyRelu
        | ActivationKind::Elu
        | ActivationKind::ThresholdedRelu => v,
    }
}

/// A floating-point element and the type that sums of it are kept in.
pub(crate) trait Real: Element {
    /// The type of sums.
    type Acc: Accumulator;
    /// To the type of sums, exactly.
    fn widen(self) -> Self::Acc;
    /// Rounded to nearest even.
    fn narrow(v: Self::Acc) -> Self;
}

macro_rules! real {
    ($($t:ty, $acc:ty, $widen:expr, $narrow:expr);*) => { $(
        impl Real for $t {
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc {
                ($widen)(self)
            }
            #[inline(always)]
            fn narrow(v: $acc) -> $t {
                ($narrow)(v)
            }
        }
    )* };
}
real!(f32, f32, |v| v, |v| v; f64, f64, |v| v, |v| v; f16, f32, f16::to_f32, f16::from_f32; bf16, f32, bf16::to_f32, bf16::from_f32);

#[cfg(test)]
pub(crate) mod testing {
    //! A small generator of test data.

    use std::vec::Vec;

    /// Numbers that repeat for a seed (xorshift).
    pub struct Numbers(u64);

    impl Numbers {
        /// A generator with a seed.
        pub fn new(seed: u64) -> Numbers {
            Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
        }
        /// The next 64 bits.
        pub fn bits(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
        /// An integer in a range, both ends among them.
        pub fn range(&mut self, low: usize, high: usize) -> usize {
            low + ((self.bits() >> 11) as usize) % (high - low + 1)
        }
        /// A float in -1..1.
        pub fn float(&mut self) -> f32 {
            ((self.bits() >> 40) as f32) / (1u64 << 23) as f32 - 1.0
        }
        /// Floats in -1..1.
        pub fn floats(&mut self, len: usize) -> Vec<f32> {
            (0..len).map(|_| self.float()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn ranges_agree_with_positions() {
        for (input, output, kernel, stride, dilation, before) in [
            (5, 4, 3, 2, 1, 1),
            (7, 9, 3, 1, 3, 4),
            (3, 3, 5, 2, 2, 6),
            (6, 2, 2, 3, 1, -1),
            (0, 2, 2, 1, 1, 1),
            (1, 5, 4, 1, 1, 9),
        ] {
            let w = Windows::new(&[input], &[output], &[kernel], &[stride], &[dilation], &[before]).unwrap();
            for o in 0..output {
                for k in 0..kernel {
                    let inside = w.at(2, o, k).is_some();
                    assert_eq!(w.taps(2, o).contains(&k), inside);
                    assert_eq!(w.outputs(2, k).contains(&o), inside);
                }
            }
        }
    }

    #[test]
    fn merged_windows_meet_the_same_elements() {
        let of = |input: &[usize], output: &[usize], kernel: &[usize], stride: &[u32], before: &[i64]| {
            Windows::new(input, output, kernel, stride, &vec![1; input.len()], before).unwrap()
        };
        for v in [
            of(&[5, 4], &[5, 4], &[1, 1], &[1, 1], &[0, 0]),
            of(&[5, 4], &[4, 4], &[3, 1], &[1, 1], &[1, 0]),
            of(&[5, 1], &[2, 1], &[3, 1], &[2, 1], &[1, 0]),
            of(&[5, 4, 3], &[3, 4, 3], &[3, 1, 1], &[1, 1, 1], &[0, 0, 0]),
            of(&[2, 5, 4], &[2, 4, 4], &[2, 3, 1], &[2, 1, 1], &[1, 1, 0]),
            of(&[1, 7, 1], &[1, 3, 1], &[1, 3, 1], &[1, 2, 3], &[0, 0, 0]),
            of(&[4, 4], &[2, 2], &[1, 1], &[2, 2], &[0, 0]),
        ] {
            let meets = |v: &Windows| {
                let mut all = vec![];
                for tap in 0..v.taps_per_window() {
                    let k = [tap / v.kernel[2] / v.kernel[1], tap / v.kernel[2] % v.kernel[1], tap % v.kernel[2]];
                    for o in 0..v.output_plane() {
                        let o = [o / v.output[2] / v.output[1], o / v.output[2] % v.output[1], o % v.output[2]];
                        let i: Vec<_> = (0..3).map(|a| v.at(a, o[a], k[a])).collect();
                        all.push(match i[..] {
                            [Some(z), Some(y), Some(x)] => Some((z * v.input[1] + y) * v.input[2] + x),
                            _ => None,
                        });
                    }
                }
                all
            };
            assert_eq!(meets(&v), meets(&v.merged()), "{v:?}");
        }
        let v = of(&[9, 5, 4], &[9, 5, 4], &[1, 1, 1], &[1, 1, 1], &[0, 0, 0]).merged();
        assert_eq!((v.input, v.output), ([1, 1, 180], [1, 1, 180]));
    }

    #[test]
    fn bad_windows_are_refused() {
        assert!(Windows::new(&[1], &[1], &[1], &[0], &[1], &[0]).is_err());
        assert!(Windows::new(&[1], &[usize::MAX], &[1], &[2], &[1], &[0]).is_err());
        assert!(Windows::new(&[1; 4], &[1; 4], &[1; 4], &[1; 4], &[1; 4], &[0; 4]).is_err());
        assert!(Windows::new(&[1], &[1, 1], &[1], &[1], &[1], &[0]).is_err());
    }
}
