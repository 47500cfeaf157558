//! Convolution with f32 weights in panels of 16 output channels.
//!
//! Channels-first: output channels by output pixels, a matrix product in which the weights are on the left. The data of a
//! stretch of pixels is laid out in the workspace ([`super::columns`]) and multiplied by every panel while it is in the cache; sums
//! of many terms are taken in parts, kept in the result between them.

use super::columns::{self, Columns};
use super::micro::{self, Kernels, Tile};
use super::{Job, PANEL, Residual};
use crate::{Fault, Isa, activation, spatial::Windows};
use plan::prim::{Activation, ActivationKind};

/// How much is laid out and multiplied at once.
#[derive(Clone, Copy)]
struct Limits {
    /// Terms.
    terms: usize,
    /// Elements of data.
    elements: usize,
}

impl Limits {
    /// Few weights (1 MiB) stay in the second cache: then the data can stay in the first (30 KiB), beside 16 channels' weights.
    const FIRST_CACHE: Limits = Limits { terms: 160, elements: 160 * 48 };
    /// Many weights have to be read again for each block of data: then the data fills a part of the second cache (256 KiB).
    const SECOND_CACHE: Limits = Limits { terms: 384, elements: 1 << 16 };

    fn new(terms: usize, m: usize) -> Limits {
        let few = terms.checked_mul(m).is_some_and(|weights| weights <= 1 << 18);
        if few { Limits::FIRST_CACHE } else { Limits::SECOND_CACHE }
    }
}

/// With fewer terms than this, broadcasting pixels does not repay the scattered stores.
const FEW_TERMS: usize = 32;

/// Floats of workspace for this many terms, output channels and pixels; never shrinks when one grows.
pub(super) fn workspace(terms: usize, m: usize, pixels: usize) -> usize {
    let limits = Limits::new(terms, m);
    // The last tile is padded to whole cache lines.
    pixels.next_multiple_of(16).saturating_mul(terms.min(limits.terms)).min(limits.elements)
}

/// The operands.
pub(super) struct Operands<'a> {
    pub isa: Isa,
    pub x: &'a [f32],
    /// Packed weights.
    pub w: &'a [f32],
    pub bias: Option<&'a [f32]>,
    pub residual: Residual<'a, f32>,
    pub y: &'a mut [f32],
    pub workspace: &'a mut [f32],
}

/// The limits that stand for an activation, and whether there is more to it than limits.
pub(super) fn clip_of(activation: &Activation) -> (Option<(f32, f32)>, bool) {
    match activation.kind {
        ActivationKind::Identity => (None, false),
        ActivationKind::Relu => (Some((0.0, f32::INFINITY)), false),
        ActivationKind::Clip => (Some((activation.alpha, activation.beta)), false),
        _ => (None, true),
    }
}

/// Channels-first convolution.
///
/// # Errors
/// When the workspace is too small.
pub(super) fn channels_first(job: &Job, o: &mut Operands<'_>) -> Result<(), Fault> {
    if job.windows.input_plane() == 1 && job.windows.output_plane() == 1 && job.windows.taps_per_window() == 1 {
        // One element for each channel lies as channels-last data does.
        return super::last::panels(job, o);
    }
    let windows = job.windows.merged();
    let (channels, m, pixels) = (job.channels_per_group(), job.results_per_group(), windows.output_plane());
    let terms = channels * windows.taps_per_window();
    let needed = workspace(terms, m, pixels);
    if o.workspace.len() < needed {
        return Err(Fault::Workspace { needed: needed * 4, given: o.workspace.len() * 4 });
    }
    let kernels = micro::kernels(o.isa);
    let (clip, activate) = clip_of(&job.activation);
    let tile = kernels.pixels.len() * kernels.lanes;
    let (part, stretch) = stretches(&Limits::new(terms, m), terms, tile);
    let readable = if readable_in_place(&windows) { pixels / tile * tile } else { 0 };
    for n in 0..job.y.batch {
        for group in 0..job.group {
            let x = o.x[job.x.at(n, group * channels, [0; 3])..].as_ptr();
            let y = job.y.at(n, group * m, [0; 3]);
            let strip = Strip {
                kernels,
                weights: o.w[group * m.div_ceil(PANEL) * terms * PANEL..].as_ptr(),
                terms,
                m,
                c: o.y[y..].as_mut_ptr(),
                c_row: pixels,
                residual: o.residual.first(o.y, y),
                bias: o.bias.map_or(core::ptr::null(), |b| b[group * m..].as_ptr()),
                clip,
            };
            let mut first = 0;
            while first < pixels {
                let in_place = first < readable;
                let end = (first + stretch).min(if in_place { readable } else { pixels });
                for from in (0..terms.max(1)).step_by(part) {
                    let terms = (from, terms.min(from + part));
                    // SAFETY: `Job` found the data as large as its windows say, and the workspace holds `part` terms of
                    // `stretch` pixels (or of all, padded).
                    unsafe {
                        if in_place {
                            let data = Tiles::in_place(x, pixels, terms, first, tile);
                            strip.multiply(terms, (first, end), &data);
                        } else {
                            let columns = Columns { windows: &windows, x, channels, terms, pixels: (first, end), tile };
                            columns::fill(o.isa, &columns, o.workspace.as_mut_ptr());
                            strip.multiply_columns(&columns, o.workspace.as_ptr());
                        }
                    }
                }
                if activate {
                    for channel in 0..m {
                        let row = &mut o.y[y + channel * pixels..][first..end];
                        activation::apply(&job.activation, o.isa, row);
                    }
                }
                first = end;
            }
        }
    }
    Ok(())
}

/// How many terms are summed at once, and for how many pixels, in whole tiles: as many as fit.
fn stretches(limits: &Limits, terms: usize, tile: usize) -> (usize, usize) {
    let parts = terms.div_ceil(limits.terms).max(1);
    let part = terms.div_ceil(parts).max(1);
    (part, (limits.elements / part / tile * tile).max(tile))
}

/// Elements after which rows meet in one set of the first cache, and how near to that they may come.
const SETS: usize = 1024;
const NEAR: usize = 48;

/// Whether the rows of a matrix of channels by pixels are the data itself, and lie so that those of a tile do not push each other
/// out of the cache.
fn readable_in_place(v: &Windows) -> bool {
    v.are_elements() && (NEAR..=SETS - NEAR).contains(&(v.input_plane() % SETS))
}

/// Where the micro-kernels find the data of a stretch of pixels and terms.
struct Tiles {
    /// The first pixel at the first term.
    first: *const f32,
    /// Distance between tiles.
    step: usize,
    /// Pixels of a tile.
    tile: usize,
    /// Distance between the terms of a tile; of a last one that is not whole.
    row: usize,
    last_row: usize,
}

impl Tiles {
    /// Laid out in the workspace.
    fn of(columns: &Columns<'_>, first: *const f32) -> Tiles {
        let last = (columns.pixels.1 - columns.pixels.0) / columns.tile;
        let step = columns.tile * (columns.terms.1 - columns.terms.0);
        Tiles { first, step, tile: columns.tile, row: columns.tile, last_row: columns.width(last) }
    }

    /// In the data itself: channels by pixels.
    fn in_place(x: *const f32, plane: usize, terms: (usize, usize), pixel: usize, tile: usize) -> Tiles {
        let first = x.wrapping_add(terms.0 * plane + pixel);
        Tiles { first, step: tile, tile, row: plane, last_row: plane }
    }
}

/// One group of one image.
pub(super) struct Strip {
    pub kernels: &'static Kernels,
    /// The group's weights.
    pub weights: *const f32,
    pub terms: usize,
    pub m: usize,
    pub c: *mut f32,
    pub c_row: usize,
    /// As `c`, or null.
    pub residual: *const f32,
    /// The group's biases, or null.
    pub bias: *const f32,
    pub clip: Option<(f32, f32)>,
}

impl Strip {
    /// Multiplies all panels by a stretch of pixels and terms, laid out in tiles at `data`.
    ///
    /// # Safety
    /// The pointers are valid for all the channels, terms and pixels, and `data` for the tiles.
    pub unsafe fn multiply_columns(&self, columns: &Columns<'_>, data: *const f32) {
        // SAFETY: passed on to the caller; the tiles are padded to whole vectors.
        unsafe { self.multiply(columns.terms, columns.pixels, &Tiles::of(columns, data)) }
    }

    /// Multiplies all panels by a stretch of terms and pixels, whose data are in `tiles`.
    ///
    /// # Safety
    /// The pointers are valid for all the channels, terms and pixels, and whole vectors of data can be read.
    unsafe fn multiply(&self, terms: (usize, usize), pixels: (usize, usize), tiles: &Tiles) {
        let count = pixels.1 - pixels.0;
        for panel in (0..self.m).step_by(PANEL) {
            let first = panel * self.c_row + pixels.0;
            let c = self.c.wrapping_add(first);
            let null = core::ptr::null();
            let (add, bias) = match terms.0 {
                0 if self.residual.is_null() => (null, self.bias),
                0 => (self.residual.wrapping_add(first), self.bias),
                _ => (c.cast_const(), null),
            };
            let tile = Tile {
                terms: terms.1 - terms.0,
                weights: self.weights.wrapping_add((panel * self.terms) + terms.0 * PANEL),
                data: tiles.first,
                data_row: tiles.row,
                c,
                c_row: self.c_row,
                rows: PANEL.min(self.m - panel),
                cols: 0,
                add,
                bias: if bias.is_null() { null } else { bias.wrapping_add(panel) },
                clip: if terms.1 == self.terms { self.clip } else { None },
                ahead: (null, 0),
            };
            for (i, start) in (0..count).step_by(tiles.tile).enumerate() {
                let data = tiles.first.wrapping_add(i * tiles.step);
                let end = count.min(start + tiles.tile);
                let data_row = if end - start < tiles.tile { tiles.last_row } else { tiles.row };
                // The weights of the next panel are brought near while the first tile is computed.
                let ahead = (tile.weights.wrapping_add(self.terms * PANEL), if i == 0 { tile.terms } else { 0 });
                let tile = Tile { data, data_row, ahead, ..tile };
                let mut at = start;
                while at < end {
                    let add = if add.is_null() { add } else { add.wrapping_add(at) };
                    let (data, c) = (tile.data.wrapping_add(at - start), c.wrapping_add(at));
                    // SAFETY: passed on to the caller; a panel has 16 channels, and tiles have a multiple of 16 pixels.
                    at += unsafe { multiply_tile(self.kernels, Tile { data, c, add, ..tile }, end - at) };
                }
            }
        }
    }
}

/// Computes all the channels of a panel for the first of `left` pixels, and says for how many.
///
/// # Safety
/// As [`micro::Kernel`].
#[inline]
pub(super) unsafe fn multiply_tile(kernels: &Kernels, tile: Tile, left: usize) -> usize {
    let lanes = kernels.lanes;
    let (whole, rest) = (left / lanes, left % lanes);
    // What is left after whole vectors goes channel by channel if it is little, else as one more vector.
    let most = kernels.pixels.len();
    let little = rest <= kernels.channels.len() && tile.terms >= FEW_TERMS;
    let vectors = if whole < most && rest > 0 && !little { whole + 1 } else { whole.min(most) };
    if vectors == 0 {
        if let Some(kernel) = rest.checked_sub(1).and_then(|i| kernels.channels.get(i)) {
            // SAFETY: passed on to the caller.
            unsafe { kernel(&Tile { cols: rest, ..tile }) };
        }
        return rest;
    }
    let cols = left.min(vectors * lanes);
    let (sizes, mut row) = (kernels.pixels[vectors - 1], 0);
    while row < tile.rows {
        let left = tile.rows - row;
        let Some((step, kernel)) = sizes.iter().find(|(size, _)| *size >= left).or(sizes.last()) else { break };
        let add = if tile.add.is_null() { tile.add } else { tile.add.wrapping_add(row * tile.c_row) };
        let bias = if tile.bias.is_null() { tile.bias } else { tile.bias.wrapping_add(row) };
        let (weights, c) = (tile.weights.wrapping_add(row), tile.c.wrapping_add(row * tile.c_row));
        // Each of these brings its part of what is ahead.
        let part = tile.ahead.1 * step / PANEL;
        let ahead = (tile.ahead.0.wrapping_add(row / step * part * PANEL), part);
        // SAFETY: passed on to the caller.
        unsafe { kernel(&Tile { weights, c, rows: left.min(*step), cols, add, bias, ahead, ..tile }) };
        row += step;
    }
    cols
}
