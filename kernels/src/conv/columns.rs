//! The data of a stretch of output pixels, laid out as rows of terms for the micro-kernels: a row holds, for every pixel, the
//! input element that the term (tap, channel) meets, or zero in the padding.

use crate::simd::{Simd, isa_fn};
use crate::spatial::Windows;
use core::ops::Range;

/// A stretch of terms and pixels of one group of one image.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    /// The windows.
    pub windows: &'a Windows,
    /// The first element of the group's first channel.
    pub x: *const f32,
    /// Channels of the group.
    pub channels: usize,
    /// The first term (tap * channels + channel) and the one past the last.
    pub terms: (usize, usize),
    /// The first output pixel and the one past the last.
    pub pixels: (usize, usize),
    /// Distance between rows.
    pub row: usize,
}

isa_fn! {
    /// Writes the rows of `columns` at `to`, and zeros after them up to a multiple of 16 pixels.
    ///
    /// # Safety
    /// The terms and pixels are those of the windows; `x` is valid for all the channels, `to` for all the rows of `row` elements.
    pub(super) unsafe fn fill(columns: &Columns<'_>, to: *mut f32) = fill_raw;
}

/// # Safety
/// That of [`fill`], and the processor has `S`.
#[inline(always)]
unsafe fn fill_raw<S: Simd>(columns: &Columns<'_>, to: *mut f32) {
    let Columns { channels, terms, pixels, row, .. } = *columns;
    let (mut term, count) = (terms.0, pixels.1 - pixels.0);
    while term < terms.1 {
        let (tap, channel) = (term / channels, term % channels);
        let end = channels.min(channel + terms.1 - term);
        let to = to.wrapping_add((term - terms.0) * row);
        // SAFETY: the rows of these terms are among those that the caller vouches for.
        unsafe { fill_tap::<S>(columns, tap, channel..end, to) };
        term += end - channel;
    }
    let rest = count.next_multiple_of(16) - count;
    if rest > 0 {
        for i in 0..terms.1 - terms.0 {
            // SAFETY: a row has a multiple of 16 elements.
            unsafe { zero::<S>(to.wrapping_add(i * row + count), rest) };
        }
    }
}

/// The rows of some channels at one tap.
///
/// # Safety
/// That of [`fill_raw`].
#[inline(always)]
unsafe fn fill_tap<S: Simd>(columns: &Columns<'_>, tap: usize, channels: Range<usize>, to: *mut f32) {
    let v = columns.windows;
    let (kx, ky, kz) = (tap % v.kernel[2], tap / v.kernel[2] % v.kernel[1], tap / (v.kernel[2] * v.kernel[1]));
    let plane = v.input_plane();
    let inside = v.outputs(2, kx);
    let (mut pixel, end) = columns.pixels;
    let width = v.output[2];
    let (mut ox, mut oy) = (pixel % width, pixel / width % v.output[1]);
    let mut oz = pixel / (width * v.output[1]);
    while pixel < end {
        // The outputs of one row: zeros, then elements, then zeros.
        let count = (width - ox).min(end - pixel);
        let (low, high) = (inside.start.clamp(ox, ox + count), inside.end.clamp(ox, ox + count));
        let at = to.wrapping_add(pixel - columns.pixels.0);
        let place = v.at(0, oz, kz).zip(v.at(1, oy, ky)).filter(|_| low < high);
        if let Some((iz, iy)) = place {
            let ix = (low * v.stride[2] + kx * v.dilation[2]).wrapping_add_signed(v.before[2].wrapping_neg());
            let from = columns.x.wrapping_add((iz * v.input[1] + iy) * v.input[2] + ix);
            for (i, c) in channels.clone().enumerate() {
                let (at, from) = (at.wrapping_add(i * columns.row), from.wrapping_add(c * plane));
                // SAFETY: the row has room for `count` more; the outputs `low..high` meet elements of the input's row.
                unsafe {
                    if low > ox {
                        zero::<S>(at, low - ox);
                    }
                    copy::<S>(from, v.stride[2], at.wrapping_add(low - ox), high - low);
                    if ox + count > high {
                        zero::<S>(at.wrapping_add(high - ox), ox + count - high);
                    }
                }
            }
        } else {
            for i in 0..channels.len() {
                // SAFETY: the row has room for `count` more.
                unsafe { zero::<S>(at.wrapping_add(i * columns.row), count) };
            }
        }
        pixel += count;
        ox = 0;
        oy += 1;
        if oy == v.output[1] {
            (oy, oz) = (0, oz + 1);
        }
    }
}

/// # Safety
/// `n` elements can be written at `to`, and the processor has `S`.
#[inline(always)]
pub(super) unsafe fn zero<S: Simd>(to: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: passed on to the caller.
    unsafe {
        while i + S::LANES <= n {
            S::store(to.wrapping_add(i), S::splat(0.0));
            i += S::LANES;
        }
        if i < n {
            S::store_part(to.wrapping_add(i), S::splat(0.0), n - i);
        }
    }
}

/// Copies `n` elements that are `step` apart to neighbouring places.
///
/// # Safety
/// They can be read and written, and the processor has `S`.
#[inline(always)]
pub(super) unsafe fn copy<S: Simd>(from: *const f32, step: usize, to: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: passed on to the caller.
    unsafe {
        match step {
            1 => {
                while i + S::LANES <= n {
                    S::store(to.wrapping_add(i), S::load(from.wrapping_add(i)));
                    i += S::LANES;
                }
                if i < n {
                    S::store_part(to.wrapping_add(i), S::load_part(from.wrapping_add(i), n - i), n - i);
                }
            }
            2 => {
                // A constant step lets the compiler use whole loads and shuffles.
                let (from, to) = (core::slice::from_raw_parts(from, 2 * n - 1), core::slice::from_raw_parts_mut(to, n));
                for (to, pair) in to.iter_mut().zip(from.chunks_exact(2)) {
                    *to = pair[0];
                }
                to[n - 1] = from[2 * n - 2];
            }
            _ => {
                while i < n {
                    *to.wrapping_add(i) = *from.wrapping_add(i * step);
                    i += 1;
                }
            }
        }
    }
}
