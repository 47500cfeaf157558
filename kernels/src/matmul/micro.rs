//! The micro-kernels: a tile of C, up to 12 rows by 32 columns, held in registers over a stretch of `k`.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::{
    Isa,
    simd::{Portable, Simd},
};

/// Columns of a panel.
pub(crate) const PANEL: usize = 16;

/// One tile's work: `c = clip(a · b + biases + add)`.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Terms of each sum.
    pub k: usize,
    /// Row 0 of A at the first term.
    pub a: *const f32,
    /// With unit rows: the distance of terms (rows are adjacent). Else: the distance of rows (terms are adjacent).
    pub a_stride: isize,
    /// The first panel of B at the first term.
    pub b: *const f32,
    /// Distance of terms in B.
    pub b_k: isize,
    /// Distance of panels in B.
    pub b_panel: isize,
    /// The first element of C.
    pub c: *mut f32,
    /// Distance of rows in C, and in `add`.
    pub c_row: usize,
    /// Columns of C in this tile.
    pub cols: usize,
    /// What is added, with the layout of C (C itself, say), or null.
    pub add: *const f32,
    /// A bias for each column, or null.
    pub col_bias: *const f32,
    /// A bias for each row, or null.
    pub row_bias: *const f32,
    /// Limits of the result, where there are any.
    pub clip: Option<(f32, f32)>,
    /// What will be read soon: its first cache line, and how many there are.
    pub ahead: (*const f32, usize),
}

/// A micro-kernel.
///
/// # Safety
/// The instruction set is present, and the pointers of the tile are valid for the elements it names.
pub(super) type Kernel = unsafe fn(&Tile);

/// The largest tile of an instruction set: rows and panels.
pub(super) const fn tile_size(isa: Isa) -> (usize, usize) {
    match isa {
        Isa::Avx512 if cfg!(target_arch = "x86_64") => (12, 2),
        Isa::Avx2 if cfg!(target_arch = "x86_64") => (6, 1),
        _ => (4, 1),
    }
}

/// `MR` rows by `NV` vectors; `KU` independent sums where few rows would leave the pipelines waiting.
///
/// # Safety
/// As for [`Kernel`].
#[inline(always)]
unsafe fn tile<S: Simd, const MR: usize, const NV: usize, const KU: usize, const UNIT_ROWS: bool>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers of the tile, and they are only used for the elements it names.
    unsafe {
        let mut sums = [[[S::splat(0.0); NV]; MR]; KU];
        let mut a = t.a;
        let mut b = t.b;
        let mut k = t.k;
        let (mut ahead, mut lines) = t.ahead;
        while k >= KU {
            if lines > 0 {
                S::prefetch(ahead);
                ahead = ahead.wrapping_add(16);
                lines -= 1;
            }
            for sums in sums.iter_mut() {
                step::<S, MR, NV, UNIT_ROWS>(t, a, b, sums);
                a = a.wrapping_offset(if UNIT_ROWS { t.a_stride } else { 1 });
                b = b.wrapping_offset(t.b_k);
            }
            k -= KU;
        }
        while k > 0 {
            step::<S, MR, NV, UNIT_ROWS>(t, a, b, &mut sums[0]);
            a = a.wrapping_offset(if UNIT_ROWS { t.a_stride } else { 1 });
            b = b.wrapping_offset(t.b_k);
            k -= 1;
        }
        let mut acc = sums[0];
        for more in sums.iter().skip(1) {
            for (acc, more) in acc.iter_mut().zip(more) {
                for (acc, more) in acc.iter_mut().zip(more) {
                    *acc = S::add(*acc, *more);
                }
            }
        }
        finish::<S, MR, NV>(t, acc);
    }
}

/// One term of every sum.
///
/// # Safety
/// As for [`Kernel`], with `a` and `b` at that term.
#[inline(always)]
unsafe fn step<S: Simd, const MR: usize, const NV: usize, const UNIT_ROWS: bool>(
    t: &Tile,
    a: *const f32,
    b: *const f32,
    sums: &mut [[S::V; NV]; MR],
) {
    // SAFETY: as the caller's.
    unsafe {
        let mut cols = [S::splat(0.0); NV];
        for (v, col) in cols.iter_mut().enumerate() {
            let panel = (v * S::LANES / PANEL) as isize * t.b_panel;
            *col = S::load(b.wrapping_offset(panel).wrapping_add(v * S::LANES % PANEL));
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let x = if UNIT_ROWS { *a.wrapping_add(r) } else { *a.wrapping_offset(r as isize * t.a_stride) };
            let x = S::splat(x);
            for (sum, col) in sums.iter_mut().zip(cols) {
                *sum = S::fma(x, col, *sum);
            }
        }
    }
}

/// Biases, addend, limits, and storing.
///
/// # Safety
/// As for [`Kernel`].
#[inline(always)]
unsafe fn finish<S: Simd, const MR: usize, const NV: usize>(t: &Tile, mut acc: [[S::V; NV]; MR]) {
    // SAFETY: as the caller's; no more than `cols` columns are touched.
    unsafe {
        let whole = t.cols >= NV * S::LANES;
        if !t.col_bias.is_null() {
            for v in 0..NV {
                let bias = load::<S>(t.col_bias, v, t.cols, whole);
                for row in acc.iter_mut() {
                    row[v] = S::add(row[v], bias);
                }
            }
        }
        for (r, row) in acc.iter_mut().enumerate() {
            if !t.row_bias.is_null() {
                let bias = S::splat(*t.row_bias.add(r));
                for x in row.iter_mut() {
                    *x = S::add(*x, bias);
                }
            }
            if !t.add.is_null() {
                let add = t.add.wrapping_add(r * t.c_row);
                for (v, x) in row.iter_mut().enumerate() {
                    *x = S::add(*x, load::<S>(add, v, t.cols, whole));
                }
            }
            if let Some((lo, hi)) = t.clip {
                for x in row.iter_mut() {
                    // `min` and `max` give their second argument where either is NaN: it stays.
                    *x = S::min(S::splat(hi), S::max(S::splat(lo), *x));
                }
            }
            let c = t.c.wrapping_add(r * t.c_row);
            for (v, x) in row.iter().enumerate() {
                let at = c.wrapping_add(v * S::LANES);
                if whole {
                    S::store(at, *x);
                } else {
                    S::store_part(at, *x, t.cols.saturating_sub(v * S::LANES).min(S::LANES));
                }
            }
        }
    }
}

/// Vector `v` of a row with `cols` elements.
///
/// # Safety
/// `row` is valid for `cols` elements, and for all of the vector if `whole`.
#[inline(always)]
unsafe fn load<S: Simd>(row: *const f32, v: usize, cols: usize, whole: bool) -> S::V {
    let at = row.wrapping_add(v * S::LANES);
    // SAFETY: as the caller's.
    unsafe { if whole { S::load(at) } else { S::load_part(at, cols.saturating_sub(v * S::LANES).min(S::LANES)) } }
}

macro_rules! kernels {
    ($(#[$feature:meta])* $name:ident, $v:ty, one: $one:literal, two: $two:literal, rows: [$($mr:literal => $ku:literal),*]) => {
        mod $name {
            use super::*;

            // `unsafe` to call also where no feature is enabled: for the pointers.
            $(#[$feature])*
            unsafe fn kernel<const MR: usize, const NV: usize, const KU: usize, const UNIT_ROWS: bool>(t: &Tile) {
                // SAFETY: the caller vouches for the tile, and the features of `$v` are enabled here.
                unsafe { tile::<$v, MR, NV, KU, UNIT_ROWS>(t) }
            }

            /// The kernel for a tile of so many rows and panels.
            pub(super) fn choose(rows: usize, panels: usize, unit_rows: bool) -> Option<Kernel> {
                Some(match (rows, panels, unit_rows) {
                    $(($mr, 1, true) => kernel::<$mr, $one, $ku, true>,
                    ($mr, 1, false) => kernel::<$mr, $one, $ku, false>,)*
                    $(($mr, 2, true) if $two > $one => kernel::<$mr, $two, $ku, true>,
                    ($mr, 2, false) if $two > $one => kernel::<$mr, $two, $ku, false>,)*
                    _ => return None,
                })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels!(#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")] avx512, Avx512, one: 1, two: 2,
    rows: [1 => 4, 2 => 2, 3 => 2, 4 => 1, 5 => 1, 6 => 1, 7 => 1, 8 => 1, 9 => 1, 10 => 1, 11 => 1, 12 => 1]);
#[cfg(target_arch = "x86_64")]
kernels!(#[target_feature(enable = "avx2,fma")] avx2, Avx2, one: 2, two: 2,
    rows: [1 => 4, 2 => 2, 3 => 1, 4 => 1, 5 => 1, 6 => 1]);
kernels!(portable, Portable, one: 2, two: 2, rows: [1 => 1, 2 => 1, 3 => 1, 4 => 1]);

/// The kernel for a tile of so many rows and panels, within [`tile_size`].
pub(super) fn choose(isa: Isa, rows: usize, panels: usize, unit_rows: bool) -> Option<Kernel> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::choose(rows, panels, unit_rows),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::choose(rows, panels, unit_rows),
        _ => portable::choose(rows, panels, unit_rows),
    }
}
