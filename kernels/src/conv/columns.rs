//! The data of a stretch of output pixels, laid out for the micro-kernels in tiles: a tile holds a row for each term (tap,
//! channel), and a row holds, for each pixel of the tile, the input element that the term meets, or zero in the padding.

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
    /// Pixels of a tile.
    pub tile: usize,
}

impl Columns<'_> {
    /// Pixels of a tile with padding: the last tile goes on to a multiple of 16.
    #[inline(always)]
    pub fn width(&self, tile: usize) -> usize {
        let left = self.pixels.1 - self.pixels.0 - tile * self.tile;
        if left < self.tile { left.next_multiple_of(16) } else { self.tile }
    }

    /// Where a tile starts.
    #[inline(always)]
    pub fn start(&self, tile: usize) -> usize {
        tile * self.tile * (self.terms.1 - self.terms.0)
    }
}

isa_fn! {
    /// Writes the tiles of `columns` at `to`.
    ///
    /// # Safety
    /// The terms and pixels are those of the windows; `x` is valid for all the channels, `to` for the terms by the
    /// pixels, rounded up to a multiple of 16; a tile has a multiple of 16 pixels.
    pub(super) unsafe fn fill(columns: &Columns<'_>, to: *mut f32) = fill_raw;
}

/// # Safety
/// That of [`fill`], and the processor has `S`.
#[inline(always)]
unsafe fn fill_raw<S: Simd>(columns: &Columns<'_>, to: *mut f32) {
    let Columns { channels, terms, pixels, tile, .. } = *columns;
    let mut term = terms.0;
    while term < terms.1 {
        let (tap, channel) = (term / channels, term % channels);
        let end = channels.min(channel + terms.1 - term);
        // SAFETY: the rows of these terms are among those that the caller vouches for.
        unsafe { fill_tap::<S>(columns, tap, channel..end, term - terms.0, to) };
        term += end - channel;
    }
    let count = pixels.1 - pixels.0;
    let (last, rest) = (count / tile, count.next_multiple_of(16) - count);
    if rest > 0 {
        let width = columns.width(last);
        let at = to.wrapping_add(columns.start(last) + count - last * tile);
        for i in 0..terms.1 - terms.0 {
            // SAFETY: a row of the last tile has a multiple of 16 elements.
            unsafe { zero::<S>(at.wrapping_add(i * width), rest) };
        }
    }
}

/// The rows of some channels at one tap, from row `row` on.
///
/// # Safety
/// That of [`fill_raw`].
#[inline(always)]
unsafe fn fill_tap<S: Simd>(columns: &Columns<'_>, tap: usize, channels: Range<usize>, row: usize, to: *mut f32) {
    let v = columns.windows;
    let (kx, ky, kz) = (tap % v.kernel[2], tap / v.kernel[2] % v.kernel[1], tap / (v.kernel[2] * v.kernel[1]));
    let plane = v.input_plane();
    let inside = v.outputs(2, kx);
    let (mut pixel, end) = columns.pixels;
    let width = v.output[2];
    let (mut ox, mut oy) = (pixel % width, pixel / width % v.output[1]);
    let mut oz = pixel / (width * v.output[1]);
    let (mut tile, mut offset) = (0, 0);
    while pixel < end {
        // Outputs of one row and one tile: zeros, then elements, then zeros.
        let count = (width - ox).min(end - pixel).min(columns.tile - offset);
        let (low, high) = (inside.start.clamp(ox, ox + count), inside.end.clamp(ox, ox + count));
        let tile_width = columns.width(tile);
        let to = to.wrapping_add(columns.start(tile) + row * tile_width + offset);
        let place = v.at(0, oz, kz).zip(v.at(1, oy, ky)).filter(|_| low < high);
        let mut run = Run {
            from: columns.x,
            plane,
            to,
            width: tile_width,
            rows: channels.len(),
            before: count,
            count: 0,
            after: 0,
        };
        if let Some((iz, iy)) = place {
            let ix = (low * v.stride[2] + kx * v.dilation[2]).wrapping_add_signed(v.before[2].wrapping_neg());
            let first = channels.start * plane + (iz * v.input[1] + iy) * v.input[2] + ix;
            let from = columns.x.wrapping_add(first);
            run = Run { from, before: low - ox, count: high - low, after: ox + count - high, ..run };
        }
        // SAFETY: the tile has a place for each pixel of each row; the outputs `low..high` meet elements of the input's row.
        unsafe { run.write::<S>(v.stride[2]) };
        (pixel, ox, offset) = (pixel + count, ox + count, offset + count);
        if offset == columns.tile {
            (tile, offset) = (tile + 1, 0);
        }
        if ox == width {
            (ox, oy) = (0, oy + 1);
        }
        if oy == v.output[1] {
            (oy, oz) = (0, oz + 1);
        }
    }
}

/// The same stretch of pixels in some rows.
#[derive(Clone, Copy)]
struct Run {
    /// The first element.
    from: *const f32,
    /// Distance to that of the next row.
    plane: usize,
    to: *mut f32,
    /// Distance to the next row.
    width: usize,
    rows: usize,
    /// Zeros, elements and zeros.
    before: usize,
    count: usize,
    after: usize,
}

impl Run {
    /// # Safety
    /// The elements can be read and the rows written, and the processor has `S`.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, step: usize) {
        let (mut from, mut to) = (self.from, self.to);
        for _ in 0..self.rows {
            // SAFETY: passed on to the caller.
            unsafe {
                if self.before > 0 {
                    zero::<S>(to, self.before);
                }
                if self.count > 0 {
                    copy::<S>(from, step, to.wrapping_add(self.before), self.count);
                }
                if self.after > 0 {
                    zero::<S>(to.wrapping_add(self.before + self.count), self.after);
                }
            }
            (from, to) = (from.wrapping_add(self.plane), to.wrapping_add(self.width));
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
