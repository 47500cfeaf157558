//! The micro-kernels of channels-first convolution: a tile of the result, output channels by pixels, held in registers over a
//! stretch of terms.
//!
//! A term is one input channel at one tap. Its weights lie side by side for the 16 channels of a panel, its data side by side
//! for the pixels. A tile either broadcasts weights to vectors of pixels, or, where few pixels are left, broadcasts
//! pixels to vectors of channels.

use crate::Isa;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Portable, Simd};
use core::mem::MaybeUninit;

/// One tile's work: `c = clip(weights · data + add + bias)`.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Terms.
    pub terms: usize,
    /// The weights of the first channel and term; those of the next term are 16 further on.
    pub weights: *const f32,
    /// The data of the first pixel and term.
    pub data: *const f32,
    /// Distance between terms in the data.
    pub data_row: usize,
    /// The result of the first channel and pixel.
    pub c: *mut f32,
    /// Distance between channels in `c` and `add`.
    pub c_row: usize,
    /// Channels of the tile.
    pub rows: usize,
    /// Pixels of the tile.
    pub cols: usize,
    /// What is added, laid out as `c` (may be `c`), or null.
    pub add: *const f32,
    /// A bias for each channel, or null.
    pub bias: *const f32,
    /// Limits of the result.
    pub clip: Option<(f32, f32)>,
    /// What will be read soon: its first cache line, and how many there are.
    pub ahead: (*const f32, usize),
}

/// A micro-kernel.
///
/// # Safety
/// The processor has the instruction set. The pointers are valid for `rows` and `cols`; weights and data moreover for all the
/// channels (within the panel) and pixels of a whole tile.
pub(super) type Kernel = unsafe fn(&Tile);

/// `MR` channels by `NV` vectors of pixels.
///
/// # Safety
/// As [`Kernel`].
#[inline(always)]
unsafe fn pixels<S: Simd, const MR: usize, const NV: usize>(t: &Tile) {
    const { assert!(MR * NV * S::LANES <= BLOCK, "a larger tile than there is room for") };
    // SAFETY: the caller vouches for the pointers, and no more than `rows` by `cols` results are touched.
    unsafe {
        let mut sums = [[S::splat(0.0); NV]; MR];
        let (mut weights, mut data) = (t.weights, t.data);
        let (mut ahead, mut lines) = t.ahead;
        for _ in 0..t.terms {
            if lines > 0 {
                S::prefetch(ahead);
                ahead = ahead.wrapping_add(16);
                lines -= 1;
            }
            let mut x = [S::splat(0.0); NV];
            for (v, x) in x.iter_mut().enumerate() {
                *x = S::load(data.add(v * S::LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let w = S::splat(*weights.add(r));
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = S::fma(w, x, *sum);
                }
            }
            weights = weights.wrapping_add(16);
            data = data.wrapping_add(t.data_row);
        }
        // Through memory, so that `sums` is never indexed by a variable and stays in registers.
        let mut block = [MaybeUninit::<f32>::uninit(); BLOCK];
        let block = block.as_mut_ptr().cast::<f32>();
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                S::store(block.add((r * NV + v) * S::LANES), *sum);
            }
        }
        for r in 0..t.rows.min(MR) {
            finish::<S, NV>(t, r, block.add(r * NV * S::LANES));
        }
    }
}

/// Room for the largest tile.
const BLOCK: usize = 8 * 3 * 16;

/// Adds what is to be added to the sums of row `r` of the tile, limits and stores them.
///
/// # Safety
/// As [`Kernel`]; `NV` vectors are at `sums`.
#[inline(always)]
unsafe fn finish<S: Simd, const NV: usize>(t: &Tile, r: usize, sums: *const f32) {
    // SAFETY: as the caller's; no more than `cols` results are touched.
    unsafe {
        let whole = t.cols == NV * S::LANES;
        let bias = S::splat(if t.bias.is_null() { 0.0 } else { *t.bias.add(r) });
        for v in 0..NV {
            let at = r * t.c_row + v * S::LANES;
            let left = t.cols.saturating_sub(v * S::LANES).min(S::LANES);
            let mut sum = S::load(sums.add(v * S::LANES));
            if !t.bias.is_null() {
                sum = S::add(sum, bias);
            }
            if !t.add.is_null() {
                let from = t.add.wrapping_add(at);
                sum = S::add(sum, if whole { S::load(from) } else { S::load_part(from, left) });
            }
            if let Some((low, high)) = t.clip {
                sum = S::min(S::splat(high), S::max(S::splat(low), sum));
            }
            let to = t.c.wrapping_add(at);
            if whole { S::store(to, sum) } else { S::store_part(to, sum, left) }
        }
    }
}

/// `T` pixels by the 16 channels of a panel in `NV` vectors, with `KU` independent sums of every element.
///
/// # Safety
/// As [`Kernel`].
#[inline(always)]
unsafe fn channels<S: Simd, const T: usize, const NV: usize, const KU: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers, and no more than `rows` by `cols` results are touched.
    unsafe {
        let mut sums = [[[S::splat(0.0); NV]; T]; KU];
        let (mut weights, mut data, mut left) = (t.weights, t.data, t.terms);
        while left >= KU {
            for sums in sums.iter_mut() {
                term::<S, T, NV>(weights, data, sums);
                weights = weights.wrapping_add(16);
                data = data.wrapping_add(t.data_row);
            }
            left -= KU;
        }
        for _ in 0..left {
            term::<S, T, NV>(weights, data, &mut sums[0]);
            weights = weights.wrapping_add(16);
            data = data.wrapping_add(t.data_row);
        }
        for p in 0..T {
            let mut all = [0f32; 16];
            for v in 0..NV {
                let mut sum = sums[0][p][v];
                for more in sums.iter().skip(1) {
                    sum = S::add(sum, more[p][v]);
                }
                S::store(all.as_mut_ptr().add(v * S::LANES), sum);
            }
            for (r, sum) in all.iter().enumerate().take(t.rows) {
                let mut sum = *sum;
                if !t.bias.is_null() {
                    sum += *t.bias.add(r);
                }
                let at = r * t.c_row + p;
                if !t.add.is_null() {
                    sum += *t.add.add(at);
                }
                if let Some((low, high)) = t.clip {
                    // NaN stays NaN.
                    sum = if sum < low { low } else { sum };
                    sum = if sum > high { high } else { sum };
                }
                *t.c.add(at) = sum;
            }
        }
    }
}

/// One term of the sums of [`channels`].
///
/// # Safety
/// As [`Kernel`].
#[inline(always)]
unsafe fn term<S: Simd, const T: usize, const NV: usize>(
    weights: *const f32,
    data: *const f32,
    sums: &mut [[S::V; NV]; T],
) {
    // SAFETY: as the caller's.
    unsafe {
        let mut w = [S::splat(0.0); NV];
        for (v, w) in w.iter_mut().enumerate() {
            *w = S::load(weights.add(v * S::LANES));
        }
        for (p, sums) in sums.iter_mut().enumerate() {
            let x = S::splat(*data.add(p));
            for (sum, w) in sums.iter_mut().zip(w) {
                *sum = S::fma(x, w, *sum);
            }
        }
    }
}

/// The kernels of one instruction set.
pub(super) struct Kernels {
    /// Lanes of a vector.
    pub lanes: usize,
    /// For 1, 2, … vectors of pixels: numbers of channels, ascending, with a kernel for each.
    ///
    /// The one that is chosen for the channels left in a panel (the first that is large enough, else the last) never reaches
    /// beyond the panel.
    pub pixels: &'static [&'static [(usize, Kernel)]],
    /// For 1, 2, … pixels and 16 channels.
    pub channels: &'static [Kernel],
}

macro_rules! kernels {
    ($(#[$feature:meta])* $name:ident, $simd:ty, lanes: $lanes:literal, vectors: $nv:literal,
        pixels: [$($pv:literal: [$($mr:literal),*]),*], channels: [$(($t:literal, $ku:literal)),*]) => {
        mod $name {
            use super::*;

            // `unsafe` to call also where no feature is enabled: for the pointers.
            $(#[$feature])*
            unsafe fn by_pixels<const MR: usize, const NV: usize>(t: &Tile) {
                // SAFETY: the caller vouches for the tile, and the features of the vectors are enabled here.
                unsafe { pixels::<$simd, MR, NV>(t) }
            }

            $(#[$feature])*
            unsafe fn by_channels<const T: usize, const KU: usize>(t: &Tile) {
                // SAFETY: as above.
                unsafe { channels::<$simd, T, $nv, KU>(t) }
            }

            const _: () = assert!(<$simd>::LANES == $lanes && $nv * $lanes == 16, "a panel of 16 channels");

            pub(super) const KERNELS: Kernels = Kernels {
                lanes: $lanes,
                pixels: &[$(&[$(($mr, by_pixels::<$mr, $pv>)),*]),*],
                channels: &[$(by_channels::<$t, $ku>),*],
            };
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels!(#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")] avx512, Avx512, lanes: 16, vectors: 1,
    pixels: [1: [4, 8], 2: [4, 8], 3: [4, 8]],
    channels: [(1, 8), (2, 4), (3, 3), (4, 2), (5, 2), (6, 2), (7, 1), (8, 1)]);
#[cfg(target_arch = "x86_64")]
kernels!(#[target_feature(enable = "avx2,fma,f16c")] avx2, Avx2, lanes: 8, vectors: 2,
    pixels: [1: [4, 8], 2: [2, 4, 6]],
    channels: [(1, 4), (2, 2), (3, 1), (4, 1)]);
kernels!(portable, Portable, lanes: 8, vectors: 2,
    pixels: [1: [2, 4], 2: [2]],
    channels: [(1, 1), (2, 1)]);

/// The kernels of an instruction set.
pub(super) fn kernels(isa: Isa) -> &'static Kernels {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &avx512::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::KERNELS,
        _ => &portable::KERNELS,
    }
}
