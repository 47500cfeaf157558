//! Channels-last convolution with packed f32 weights.
//!
//! * [`panels`]: output pixels by output channels, a matrix product with the weights on the right. A row of the left matrix is
//!   a pixel's window; for a window of one element it is the data itself.
//! * [`depthwise`]: vectors of channels, a window's elements times a panel's weights.

use super::panels::{Operands, clip_of};
use super::{Job, PANEL, Residual};
use crate::matmul::gemm::{self, A, Add, B, C, Epilogue, Mat, Size};
use crate::simd::{Simd, isa_fn};
use crate::{Fault, activation};
use core::ops::Range;

/// The extents of the product for one group, all images at once where a window is one element.
fn size(job: &Job) -> Size {
    let pixels = job.windows.output_plane();
    let k = job.channels_per_group() * job.windows.taps_per_window();
    Size { m: if job.windows.are_elements() { job.y.batch * pixels } else { pixels }, n: job.results_per_group(), k }
}

/// Floats of workspace for [`panels`]; never shrinks when an extent grows.
pub(super) fn workspace(job: &Job) -> usize {
    let pixels = job.windows.output_plane().saturating_mul(job.y.batch.max(1));
    // Whether a window is one element may depend on extents, so the larger product is taken.
    gemm::workspace(Size { m: pixels, ..size(job) }, false, true)
}

/// Convolution with panels of 16 output channels.
///
/// # Errors
/// When the workspace is too small.
pub(super) fn panels(job: &Job, o: &mut Operands<'_>) -> Result<(), Fault> {
    let (size, pointwise) = (size(job), job.windows.are_elements());
    let (channels, m, pixels) = (job.channels_per_group(), job.results_per_group(), job.windows.output_plane());
    let panels = m.div_ceil(PANEL) * size.k * PANEL;
    for n in 0..if pointwise { 1 } else { job.y.batch } {
        for group in 0..job.group {
            let place = n * pixels * job.y.channels + group * m;
            let epilogue = Epilogue {
                col_bias: o.bias.and_then(|b| b.get(group * m..)),
                row_bias: None,
                add: match o.residual {
                    Residual::None => Add::Nothing,
                    Residual::InPlace => Add::C,
                    Residual::At(r) => Add::Matrix(r.get(place..).unwrap_or(&[])),
                },
                activation: job.activation,
            };
            let x = o.x.get(job.x.at(n, group * channels, [0; 3])..).unwrap_or(&[]);
            let mut fill = |rows: Range<usize>, terms: Range<usize>, block: &mut [f32], stride: usize| {
                fill_rows(job, x, rows, terms, block, stride);
            };
            let a = if pointwise {
                A::Strided(Mat { data: x, origin: 0, row: job.x.channels as isize, col: 1 })
            } else {
                A::Fill(&mut fill)
            };
            let b = B::Panels(o.w.get(group * panels..).unwrap_or(&[]));
            let c = C { data: o.y.get_mut(place..).unwrap_or(&mut []), row: job.y.channels };
            gemm::run(o.isa, size, a, b, c, &epilogue, o.workspace)?;
        }
    }
    Ok(())
}

/// Writes the terms of the windows of some pixels; `x` starts with the group's first channel.
fn fill_rows(job: &Job, x: &[f32], rows: Range<usize>, terms: Range<usize>, block: &mut [f32], stride: usize) {
    let (v, channels) = (&job.windows, job.channels_per_group());
    for (pixel, row) in rows.zip(block.chunks_mut(stride.max(1))) {
        let [oz, oy, ox] =
            [pixel / (v.output[2] * v.output[1]), pixel / v.output[2] % v.output[1], pixel % v.output[2]];
        let (mut term, mut to) = (terms.start, row);
        while term < terms.end {
            let (tap, channel) = (term / channels, term % channels);
            let count = (channels - channel).min(terms.end - term);
            let [kz, ky, kx] = [tap / (v.kernel[2] * v.kernel[1]), tap / v.kernel[2] % v.kernel[1], tap % v.kernel[2]];
            let Some((part, rest)) = core::mem::take(&mut to).split_at_mut_checked(count) else { return };
            let from = match (v.at(0, oz, kz), v.at(1, oy, ky), v.at(2, ox, kx)) {
                (Some(z), Some(y), Some(q)) => x.get(job.x.at(0, channel, [z, y, q])..).and_then(|x| x.get(..count)),
                _ => None,
            };
            match from {
                Some(from) => part.copy_from_slice(from),
                None => part.fill(0.0),
            }
            to = rest;
            term += count;
        }
    }
}

/// Convolution with one input and one output channel for each group.
pub(super) fn depthwise(job: &Job, o: &mut Operands<'_>) {
    let (clip, activate) = clip_of(&job.activation);
    let null = core::ptr::null();
    let depthwise = Depthwise {
        job,
        x: o.x.as_ptr(),
        w: o.w.as_ptr(),
        y: o.y.as_mut_ptr(),
        add: match o.residual {
            Residual::None => null,
            Residual::InPlace => o.y.as_ptr(),
            Residual::At(r) => r.as_ptr(),
        },
        bias: o.bias.map_or(null, <[f32]>::as_ptr),
        clip,
    };
    // SAFETY: `Job` found the operands as large as the windows and channels say.
    unsafe { run(o.isa, &depthwise) };
    if activate {
        activation::apply(&job.activation, o.isa, o.y);
    }
}

struct Depthwise<'a> {
    job: &'a Job,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
    add: *const f32,
    bias: *const f32,
    clip: Option<(f32, f32)>,
}

isa_fn! {
    /// All of [`depthwise`] but what is more than limits.
    ///
    /// # Safety
    /// The pointers are valid for what the windows and channels say.
    unsafe fn run(d: &Depthwise<'_>) = run_raw;
}

/// # Safety
/// That of [`run`], and the processor has `S`.
#[inline(always)]
unsafe fn run_raw<S: Simd>(d: &Depthwise<'_>) {
    let (v, m) = (&d.job.windows, d.job.y.channels);
    for n in 0..d.job.y.batch {
        for oz in 0..v.output[0] {
            for oy in 0..v.output[1] {
                for ox in 0..v.output[2] {
                    let mut channel = 0;
                    while channel < m {
                        // SAFETY: passed on to the caller.
                        unsafe {
                            if m - channel >= 4 * S::LANES {
                                d.pixel::<S, 4>(n, [oz, oy, ox], channel);
                                channel += 4 * S::LANES;
                            } else {
                                d.pixel::<S, 1>(n, [oz, oy, ox], channel);
                                channel += S::LANES;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Depthwise<'_> {
    /// `NV` vectors of channels of one pixel; only the last may have fewer channels.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn pixel<S: Simd, const NV: usize>(&self, n: usize, o: [usize; 3], channel: usize) {
        let (job, v) = (self.job, &self.job.windows);
        let left = (job.y.channels - channel).min(NV * S::LANES);
        let (taps, whole) = (v.taps_per_window(), left == NV * S::LANES);
        // SAFETY: passed on to the caller: `left` channels are there, and panels have 16.
        unsafe {
            let mut sums = [S::splat(0.0); NV];
            for kz in v.taps(0, o[0]) {
                for ky in v.taps(1, o[1]) {
                    for kx in v.taps(2, o[2]) {
                        let place = [v.at(0, o[0], kz), v.at(1, o[1], ky), v.at(2, o[2], kx)];
                        let [Some(z), Some(y), Some(q)] = place else { continue };
                        let x = self.x.add(job.x.at(n, channel, [z, y, q]));
                        let tap = (kz * v.kernel[1] + ky) * v.kernel[2] + kx;
                        for (i, sum) in sums.iter_mut().enumerate() {
                            let c = channel + i * S::LANES;
                            let w = S::load(self.w.add((c / PANEL * taps + tap) * PANEL + c % PANEL));
                            let x = x.wrapping_add(i * S::LANES);
                            let x = if whole { S::load(x) } else { S::load_part(x, left - i * S::LANES) };
                            *sum = S::fma(w, x, *sum);
                        }
                    }
                }
            }
            let at = job.y.at(n, channel, o);
            for (i, sum) in sums.iter_mut().enumerate() {
                let (skip, left) = (i * S::LANES, (left - i * S::LANES).min(S::LANES));
                if !self.bias.is_null() {
                    *sum = S::add(*sum, S::load_part(self.bias.add(channel + skip), left));
                }
                if !self.add.is_null() {
                    *sum = S::add(*sum, S::load_part(self.add.add(at + skip), left));
                }
                if let Some((low, high)) = self.clip {
                    *sum = S::min(S::splat(high), S::max(S::splat(low), *sum));
                }
                S::store_part(self.y.add(at + skip), *sum, left);
            }
        }
    }
}
