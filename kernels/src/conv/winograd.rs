//! Convolution by 3×3 windows with stride 1, in the domain of Winograd's minimal filtering F(4×4, 3×3): 36 products for 16 results
//! instead of 144 (A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
//!
//! The result is cut into tiles of 4×4 pixels. A tile's 6×6 data `d` become `Bᵀ d B`, which is multiplied, at each of its 36 places, by
//! the weights there (`G g Gᵀ`, made while planning): 36 matrix products, output channels by tiles. What they give becomes the tile,
//! `Aᵀ m A`. Both transforms run over vectors of neighbouring tiles.
//!
//! Sums are taken in another order and over larger terms than in the plain kernels: results are within `1e-5` of the sum of the
//! magnitudes of the terms. An infinite or NaN element spoils its whole tile.

use super::micro::{self, Kernels, Tile};
use super::panels::{Operands, clip_of, multiply_tile};
use super::{Job, PANEL, Residual};
use crate::simd::{Simd, isa_fn};
use crate::{Fault, Isa, activation, spatial::Windows};
use core::mem::MaybeUninit;
use plan::prim::Activation;

/// Places of a transformed tile.
pub(super) const PLACES: usize = 36;

/// Tiles that are multiplied at once.
const BLOCK: usize = 48;

/// Columns of data under a row of `BLOCK` tiles and the start of the next one.
const COLUMNS: usize = 4 * (BLOCK + 1);

/// Floats between the lines of a transform: of tiles, and one more.
const LINE: usize = BLOCK + 16;

/// Floats of workspace: transformed data of all channels, and products of a panel, for a block of tiles.
pub(super) fn workspace(channels: usize) -> usize {
    channels.saturating_add(PANEL).saturating_mul(PLACES * BLOCK)
}

/// Whether windows are of the kind that is computed here.
pub(super) fn supports(windows: &Windows) -> bool {
    windows.kernel == [1, 3, 3]
        && windows.stride == [1; 3]
        && windows.dilation == [1; 3]
        && windows.before[0] == 0
        && windows.input[0] == 1
        && windows.output[0] == 1
}

/// A run of tiles side by side.
#[derive(Clone, Copy)]
struct Run {
    /// The first tile's row and column, counted in tiles.
    row: usize,
    col: usize,
    /// Tiles.
    count: usize,
    /// The first tile's number in its block.
    at: usize,
}

/// Channels-first convolution with weights in [`plan::prim::ConvLayout::Winograd4`].
///
/// # Errors
/// When the workspace is too small.
pub(super) fn channels_first(job: &Job, o: &mut Operands<'_>) -> Result<(), Fault> {
    let needed = workspace(job.x.channels);
    let given = o.workspace.len();
    if given < needed {
        return Err(Fault::Workspace { needed: needed.saturating_mul(4), given: given * 4 });
    }
    let [_, height, width] = job.windows.output;
    let (down, across) = (height.div_ceil(4), width.div_ceil(4));
    for n in 0..job.y.batch {
        for from in (0..down * across).step_by(BLOCK) {
            let to = (down * across).min(from + BLOCK);
            block(job, o, n, Tiles { from, to, across });
        }
    }
    Ok(())
}

/// A block of tiles of an image that is `across` tiles wide, in rows one after another.
#[derive(Clone, Copy)]
struct Tiles {
    from: usize,
    to: usize,
    across: usize,
}

impl Tiles {
    /// Calls `f` for each run of tiles in one row.
    fn each_run(self, mut f: impl FnMut(Run)) {
        let mut tile = self.from;
        while tile < self.to {
            let (row, col) = (tile / self.across, tile % self.across);
            let count = (self.across - col).min(self.to - tile);
            f(Run { row, col, count, at: tile - self.from });
            tile += count;
        }
    }
}

/// Computes a block of tiles of image `n`, whose workspace is large enough.
fn block(job: &Job, o: &mut Operands<'_>, n: usize, tiles: Tiles) {
    let (v, channels, m) = (&job.windows, job.x.channels, job.y.channels);
    let (data, products) = o.workspace.split_at_mut(channels * PLACES * BLOCK);
    for channel in 0..channels {
        let source = Source { windows: v, x: o.x[job.x.at(n, channel, [0; 3])..].as_ptr() };
        let place = data[channel * BLOCK..].as_mut_ptr();
        tiles.each_run(|run| {
            // SAFETY: `Job` found the data as large as the windows say, and the block has room for each run at each place of
            // each channel.
            unsafe { spread(o.isa, &source, run, place.wrapping_add(run.at), channels * BLOCK) }
        });
    }
    let (kernels, (clip, activate)) = (micro::kernels(o.isa), clip_of(&job.activation));
    for panel in 0..m.div_ceil(PANEL) {
        let weights = Weights { at: o.w.as_ptr(), panels: m.div_ceil(PANEL), panel, channels };
        // SAFETY: `Job` found the weights as large as their dims say; data and products are those of the block.
        unsafe { multiply(kernels, &weights, data.as_ptr(), products.as_mut_ptr(), tiles.to - tiles.from) };
        for row in 0..PANEL.min(m - panel * PANEL) {
            let channel = panel * PANEL + row;
            let plane = job.y.at(n, channel, [0; 3]);
            let target = Target {
                windows: v,
                y: o.y[plane..].as_mut_ptr(),
                residual: match o.residual {
                    Residual::None => core::ptr::null(),
                    Residual::InPlace => o.y[plane..].as_ptr(),
                    Residual::At(r) => r[plane..].as_ptr(),
                },
                bias: o.bias.map_or(0.0, |b| b[channel]),
                clip,
                activation: activate.then_some((&job.activation, o.isa)),
            };
            let from = products[row * BLOCK..].as_ptr();
            tiles.each_run(|run| {
                // SAFETY: as above, and the result is as large as the windows say.
                unsafe { gather(o.isa, &target, run, from.wrapping_add(run.at)) }
            });
        }
    }
}

/// The transformed weights of a panel of output channels.
struct Weights {
    at: *const f32,
    panels: usize,
    panel: usize,
    channels: usize,
}

impl Weights {
    /// Those at a place.
    fn place(&self, place: usize) -> *const f32 {
        self.at.wrapping_add((place * self.panels + self.panel) * self.channels * PANEL)
    }
}

/// The products of a panel of output channels with `tiles` tiles, at every place.
///
/// # Safety
/// The pointers are valid for the panel, and for a block.
unsafe fn multiply(kernels: &Kernels, weights: &Weights, data: *const f32, products: *mut f32, tiles: usize) {
    // Whole vectors: what stands in the lanes beyond is computed and never read.
    let cols = tiles.next_multiple_of(16).min(BLOCK);
    let (channels, null) = (weights.channels, core::ptr::null());
    for place in 0..PLACES {
        let tile = Tile {
            terms: channels,
            weights: weights.place(place),
            data: data.wrapping_add(place * channels * BLOCK),
            data_row: BLOCK,
            c: products.wrapping_add(place * PANEL * BLOCK),
            c_row: BLOCK,
            rows: PANEL,
            cols: 0,
            add: null,
            bias: null,
            clip: None,
            ahead: (weights.place(place + 1), channels),
        };
        let mut at = 0;
        while at < cols {
            let ahead = (tile.ahead.0, if at == 0 && place + 1 < PLACES { channels } else { 0 });
            let (data, c) = (tile.data.wrapping_add(at), tile.c.wrapping_add(at));
            // SAFETY: passed on to the caller; a block is a multiple of every vector.
            at += unsafe { multiply_tile(kernels, Tile { data, c, ahead, ..tile }, cols - at) };
        }
    }
}

/// One channel of the data.
struct Source<'a> {
    windows: &'a Windows,
    x: *const f32,
}

isa_fn! {
    /// Writes the transformed data of a run at `to`: `stride` floats lie between places.
    ///
    /// # Safety
    /// The source is valid for its plane, `to` for the run at every place.
    unsafe fn spread(source: &Source<'_>, run: Run, to: *mut f32, stride: usize) = spread_raw;
    /// Makes the tiles of a run of what lies at `from`: a block of a panel lies between places.
    ///
    /// # Safety
    /// The target is valid for its plane, `from` for the run at every place.
    unsafe fn gather(target: &Target<'_>, run: Run, from: *const f32) = gather_raw;
}

/// One row of data under a run, apart by the four columns of a tile.
type Phases = [[MaybeUninit<f32>; LINE]; 4];

/// # Safety
/// That of [`spread`], and the processor has `S`.
#[inline(always)]
unsafe fn spread_raw<S: Simd>(source: &Source<'_>, run: Run, to: *mut f32, stride: usize) {
    let mut rows = [const { [[MaybeUninit::<f32>::uninit(); LINE]; 4] }; 6];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: passed on to the caller.
        unsafe { source.row::<S>(run, i, row) };
    }
    let mut t = 0;
    while t < run.count {
        let n = S::LANES.min(run.count - t);
        // SAFETY: `row` has written `count + 1` columns of each phase, and `to` has room for `n` more tiles at each place.
        unsafe {
            let mut half = [[S::splat(0.0); 6]; 6];
            for j in 0..6 {
                let mut d = [S::splat(0.0); 6];
                for (d, row) in d.iter_mut().zip(&rows) {
                    *d = S::load_part(row[j % 4].as_ptr().cast::<f32>().add(t + j / 4), n);
                }
                for (half, d) in half.iter_mut().zip(data_transform::<S>(d)) {
                    half[j] = d;
                }
            }
            for (i, half) in half.into_iter().enumerate() {
                for (j, d) in data_transform::<S>(half).into_iter().enumerate() {
                    S::store_part(to.add((i * 6 + j) * stride + t), d, n);
                }
            }
        }
        t += n;
    }
}

/// `Bᵀ d`.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
unsafe fn data_transform<S: Simd>([d0, d1, d2, d3, d4, d5]: [S::V; 6]) -> [S::V; 6] {
    // SAFETY: passed on to the caller.
    unsafe {
        let (four, two) = (S::splat(4.0), S::splat(2.0));
        let (minus_four, minus_five) = (S::splat(-4.0), S::splat(-5.0));
        let (even, odd) = (S::fma(minus_four, d2, d4), S::fma(minus_four, d1, d3));
        let (even2, odd2) = (S::sub(d4, d2), S::mul(two, S::sub(d3, d1)));
        [
            S::fma(four, d0, S::fma(minus_five, d2, d4)),
            S::add(even, odd),
            S::sub(even, odd),
            S::add(even2, odd2),
            S::sub(even2, odd2),
            S::fma(four, d1, S::fma(minus_five, d3, d5)),
        ]
    }
}

impl Source<'_> {
    /// Row `i` of the data under a run, with zeros in the padding: `count + 1` columns of each phase.
    ///
    /// # Safety
    /// That of [`spread_raw`].
    #[inline(always)]
    unsafe fn row<S: Simd>(&self, run: Run, i: usize, to: &mut Phases) {
        let v = self.windows;
        let width = 4 * (run.count + 1);
        let y = (run.row * 4 + i).checked_add_signed(v.before[1].wrapping_neg()).filter(|y| *y < v.input[1]);
        let start = (run.col * 4) as isize - v.before[2];
        // The columns that lie in the data.
        let low = start.wrapping_neg().clamp(0, width as isize) as usize;
        let high = (v.input[2] as isize - start).clamp(low as isize, width as isize) as usize;
        let row = y.map(|y| self.x.wrapping_add(y * v.input[2]).wrapping_offset(start)).filter(|_| low < high);
        let mut line;
        let from = match row {
            // SAFETY: all of the columns lie in the row.
            Some(row) if high - low == width => unsafe { core::slice::from_raw_parts(row, width) },
            row => {
                line = [0f32; COLUMNS];
                if let Some(row) = row {
                    let place = line[low..high].as_mut_ptr();
                    // SAFETY: the columns from `low` to `high` lie in the row, and in the line.
                    unsafe { super::columns::copy::<S>(row.wrapping_add(low), 1, place, high - low) };
                }
                &line[..width]
            }
        };
        let [a, b, c, d] = to;
        let phases = a.iter_mut().zip(b).zip(c).zip(d);
        for (four, (((a, b), c), d)) in from.chunks_exact(4).zip(phases) {
            a.write(four[0]);
            b.write(four[1]);
            c.write(four[2]);
            d.write(four[3]);
        }
    }
}

/// One channel of the result, and what becomes of it.
struct Target<'a> {
    windows: &'a Windows,
    y: *mut f32,
    /// As `y`, or null.
    residual: *const f32,
    bias: f32,
    clip: Option<(f32, f32)>,
    activation: Option<(&'a Activation, Isa)>,
}

/// # Safety
/// That of [`gather`], and the processor has `S`.
#[inline(always)]
unsafe fn gather_raw<S: Simd>(target: &Target<'_>, run: Run, from: *const f32) {
    let mut rows = [const { [[MaybeUninit::<f32>::uninit(); LINE]; 4] }; 4];
    let mut t = 0;
    while t < run.count {
        let n = S::LANES.min(run.count - t);
        // SAFETY: passed on to the caller; a line has room for a whole vector from any tile on.
        unsafe {
            let mut half = [[S::splat(0.0); 6]; 4];
            for j in 0..6 {
                let mut m = [S::splat(0.0); 6];
                for (i, m) in m.iter_mut().enumerate() {
                    *m = S::load_part(from.add((i * 6 + j) * PANEL * BLOCK + t), n);
                }
                for (half, y) in half.iter_mut().zip(result_transform::<S>(m)) {
                    half[j] = y;
                }
            }
            for (half, row) in half.into_iter().zip(&mut rows) {
                for (y, phase) in result_transform::<S>(half).into_iter().zip(row) {
                    S::store(phase.as_mut_ptr().cast::<f32>().add(t), y);
                }
            }
        }
        t += n;
    }
    for (i, row) in rows.iter().enumerate() {
        // SAFETY: passed on to the caller; `count` columns of each phase were written.
        unsafe { target.row::<S>(run, i, row) };
    }
}

/// `Aᵀ m`.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
unsafe fn result_transform<S: Simd>([m0, m1, m2, m3, m4, m5]: [S::V; 6]) -> [S::V; 4] {
    // SAFETY: passed on to the caller.
    unsafe {
        let (near, near_odd) = (S::add(m1, m2), S::sub(m1, m2));
        let (far, far_odd) = (S::add(m3, m4), S::sub(m3, m4));
        [
            S::add(m0, S::add(near, far)),
            S::fma(S::splat(2.0), far_odd, near_odd),
            S::fma(S::splat(4.0), far, near),
            S::add(m5, S::fma(S::splat(8.0), far_odd, near_odd)),
        ]
    }
}

impl Target<'_> {
    /// Row `i` of the tiles of a run: finished, and stored as far as it lies in the result.
    ///
    /// # Safety
    /// That of [`gather_raw`], and `count` columns of each phase are initialised.
    #[inline(always)]
    unsafe fn row<S: Simd>(&self, run: Run, i: usize, phases: &Phases) {
        let v = self.windows;
        let (y, x) = (run.row * 4 + i, run.col * 4);
        if y >= v.output[1] || x >= v.output[2] {
            return;
        }
        let mut line = [0f32; 4 * BLOCK];
        let [a, b, c, d] = phases;
        for (four, (((a, b), c), d)) in line.chunks_exact_mut(4).zip(a.iter().zip(b).zip(c).zip(d)).take(run.count) {
            // SAFETY: passed on to the caller.
            unsafe { four.copy_from_slice(&[a.assume_init(), b.assume_init(), c.assume_init(), d.assume_init()]) };
        }
        let width = (4 * run.count).min(v.output[2] - x);
        let at = y * v.output[2] + x;
        let residual = if self.residual.is_null() { self.residual } else { self.residual.wrapping_add(at) };
        let finish = |i: usize, n: usize| {
            // SAFETY: `n` elements from `i` on lie in the line, and in the row of the residual.
            unsafe {
                let place = line.as_mut_ptr().add(i);
                let mut y = S::add(S::load_part(place, n), S::splat(self.bias));
                if !residual.is_null() {
                    y = S::add(y, S::load_part(residual.add(i), n));
                }
                if let Some((low, high)) = self.clip {
                    y = S::min(S::splat(high), S::max(S::splat(low), y));
                }
                S::store_part(place, y, n);
            }
        };
        // SAFETY: the processor has `S`.
        unsafe { crate::simd::each::<S>(width, finish) };
        if let Some((activation, isa)) = self.activation {
            activation::apply(activation, isa, &mut line[..width]);
        }
        // SAFETY: passed on to the caller: these lie in the result.
        unsafe { super::columns::copy::<S>(line.as_ptr(), 1, self.y.add(at), width) };
    }
}

/// What the weights of a window become: `G g Gᵀ`, for `g` in rows of three.
pub(crate) fn transformed_weights(g: &[f32; 9]) -> [f32; PLACES] {
    let rows = |[a, b, c]: [f64; 3]| {
        let (outer, wide) = ((a + c) / 6.0, (a / 4.0 + c) / 6.0);
        [a / 4.0, -(outer + b / 6.0), b / 6.0 - outer, wide + b / 12.0, wide - b / 12.0, c]
    };
    let mut half = [[0f64; 3]; 6];
    for j in 0..3 {
        let column = [0, 1, 2].map(|i| f64::from(g[i * 3 + j]));
        for (half, v) in half.iter_mut().zip(rows(column)) {
            half[j] = v;
        }
    }
    let mut out = [0f32; PLACES];
    for (out, half) in out.chunks_exact_mut(6).zip(half) {
        for (out, v) in out.iter_mut().zip(rows(half)) {
            *out = v as f32;
        }
    }
    out
}
