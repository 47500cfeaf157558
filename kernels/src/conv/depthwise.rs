//! Channels-first convolution with one input channel for each group, weights as they are (f32).
//!
//! A block of a channel's input is copied to the workspace with its padding, every row split into as many rows as the stride has
//! phases, so that for each tap neighbouring outputs meet neighbouring elements. Then outputs are vectors, taps are broadcast
//! weights, and no tap needs a test.

use super::Job;
use super::columns::{copy, zero};
use super::panels::{Operands, clip_of};
use crate::simd::{Simd, isa_fn};
use crate::spatial::Windows;
use crate::{Fault, activation};
use core::mem::MaybeUninit;

/// Elements of a block that stays in the first cache.
const BLOCK: usize = 6144;
/// Outputs of a block along the last axis.
const COLUMNS: usize = 256;
/// Taps along the last axis.
const TAPS: usize = 128;

/// Whether [`channels_first`] can do it.
pub(super) fn supports(job: &Job) -> bool {
    job.channels_per_group() == 1 && job.windows.kernel[2] <= TAPS && job.windows.kernel[1] <= TAPS
}

/// Where the elements for the taps along the last axis are in a row of a block.
#[derive(Clone, Copy)]
struct Layout {
    /// Rows that each input row is split into.
    slots: usize,
    /// One for each phase of the stride; else one for each tap.
    phases: bool,
}

impl Layout {
    fn new(v: &Windows) -> Layout {
        let phases = v.stride[2] <= 4;
        Layout { slots: if phases { v.stride[2] } else { v.kernel[2] }, phases }
    }

    /// Slot, and element for output 0, of a tap.
    fn place(&self, v: &Windows, k: usize) -> (usize, usize) {
        let distance = k * v.dilation[2];
        if self.phases { (distance % v.stride[2], distance / v.stride[2]) } else { (k, 0) }
    }

    /// Input columns before the first element of a slot, from where tap 0 of output 0 is.
    fn offset(&self, v: &Windows, slot: usize) -> usize {
        if self.phases { slot } else { slot * v.dilation[2] }
    }

    /// Elements of a slot for that many outputs.
    fn width(&self, v: &Windows, columns: usize) -> usize {
        let reach =
            if self.phases { v.kernel[2].saturating_sub(1).saturating_mul(v.dilation[2]) / v.stride[2] } else { 0 };
        columns.next_multiple_of(16).saturating_add(reach).next_multiple_of(16)
    }
}

/// Input rows for that many output rows.
fn rows_for(v: &Windows, rows: usize) -> usize {
    (rows.max(1) - 1).saturating_mul(v.stride[1]).saturating_add(v.kernel[1].saturating_sub(1) * v.dilation[1] + 1)
}

/// Elements of a block of that many output rows and columns.
fn elements(v: &Windows, rows: usize, columns: usize) -> usize {
    let layout = Layout::new(v);
    let rows = v.kernel[0].saturating_mul(rows_for(v, rows));
    rows.saturating_mul(layout.slots).saturating_mul(layout.width(v, columns))
}

/// The windows without a last axis that is trivial.
fn without_last(v: &Windows) -> Windows {
    let shift = |l: [usize; 3], fill: usize| [fill, l[0], l[1]];
    Windows {
        input: shift(v.input, 1),
        output: shift(v.output, 1),
        kernel: shift(v.kernel, 1),
        stride: shift(v.stride, 1),
        dilation: shift(v.dilation, 1),
        before: [0, v.before[0], v.before[1]],
    }
}

/// Floats of workspace; never shrinks when an extent grows.
pub(super) fn workspace(job: &Job) -> usize {
    let bound = |v: &Windows| {
        let columns = v.output[2].next_multiple_of(16).min(COLUMNS);
        (elements(v, v.output[1], columns), elements(v, 1, columns))
    };
    let v = &job.windows;
    let (all, one) = bound(v);
    // Whether the last axis is trivial depends on extents; what may be needed must not.
    let (other_all, other_one) = if v.kernel[2] == 1 { bound(&without_last(v)) } else { (0, 0) };
    all.max(other_all).min(BLOCK.max(one).max(other_one))
}

/// Output rows of a block of that many columns.
fn rows_of_block(v: &Windows, columns: usize) -> usize {
    let rows = v.output[1];
    if elements(v, rows, columns) <= BLOCK {
        return rows;
    }
    let row = elements(v, 1, columns) / rows_for(v, 1).max(1);
    let fit = (BLOCK / row.max(1)).saturating_sub(rows_for(v, 1)) / v.stride[1] + 1;
    // A fit of many rows is one of few; of none, one row at least.
    if elements(v, fit.min(rows), columns) > BLOCK { 1 } else { fit.min(rows) }
}

/// Convolution with one input channel for each group.
///
/// # Errors
/// When the workspace is too small.
pub(super) fn channels_first(job: &Job, o: &mut Operands<'_>) -> Result<(), Fault> {
    let mut v = job.windows;
    let trivial = |v: &Windows| v.input[2] == 1 && v.output[2] == 1 && v.kernel[2] == 1 && v.before[2] == 0;
    if trivial(&v) {
        v = without_last(&v);
    }
    let needed = workspace(job);
    if o.workspace.len() < needed {
        return Err(Fault::Workspace { needed: needed * 4, given: o.workspace.len() * 4 });
    }
    let parts = v.output[2].div_ceil(COLUMNS);
    let columns = v.output[2].div_ceil(parts.max(1)).next_multiple_of(16).min(COLUMNS);
    let (clip, activate) = clip_of(&job.activation);
    let m = job.results_per_group();
    let null = core::ptr::null();
    let mut depthwise = Depthwise {
        v,
        layout: Layout::new(&v),
        rows: rows_of_block(&v, columns),
        columns,
        results: m,
        x: null,
        w: null,
        y: core::ptr::null_mut(),
        add: null,
        bias: null,
        clip,
        block: o.workspace.as_mut_ptr(),
        places: [0; TAPS],
    };
    let width = depthwise.layout.width(&v, columns);
    for (k, place) in depthwise.places.iter_mut().enumerate().take(v.kernel[2]) {
        let (slot, at) = depthwise.layout.place(&v, k);
        *place = slot * width + at;
    }
    for n in 0..job.y.batch {
        for group in 0..job.group {
            let y = job.y.at(n, group * m, [0; 3]);
            depthwise.x = o.x[job.x.at(n, group, [0; 3])..].as_ptr();
            depthwise.w = o.w[group * m * v.taps_per_window()..].as_ptr();
            depthwise.y = o.y[y..].as_mut_ptr();
            depthwise.add = o.residual.first(o.y, y);
            depthwise.bias = o.bias.map_or(null, |b| b[group * m..].as_ptr());
            // SAFETY: `Job` found the operands as large as the windows say, and the workspace holds a block.
            unsafe { run(o.isa, &depthwise) };
            if activate {
                let y = &mut o.y[y..][..m * v.output_plane()];
                activation::apply(&job.activation, o.isa, y);
            }
        }
    }
    Ok(())
}

/// One channel's work.
struct Depthwise {
    v: Windows,
    layout: Layout,
    /// Output rows and columns of a block.
    rows: usize,
    columns: usize,
    /// Output channels.
    results: usize,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
    add: *const f32,
    bias: *const f32,
    clip: Option<(f32, f32)>,
    block: *mut f32,
    /// Of the taps along the last axis: where their elements are in a row of the block.
    places: [usize; TAPS],
}

isa_fn! {
    /// All outputs of one input channel.
    ///
    /// # Safety
    /// The pointers are valid for what the windows say, `block` for a block of the given rows and columns.
    unsafe fn run(d: &Depthwise) = run_raw;
}

/// # Safety
/// That of [`run`], and the processor has `S`.
#[inline(always)]
unsafe fn run_raw<S: Simd>(d: &Depthwise) {
    let [depth, height, width] = d.v.output;
    for oz in 0..depth {
        for oy in (0..height).step_by(d.rows) {
            let rows = d.rows.min(height - oy);
            for ox in (0..width).step_by(d.columns) {
                let columns = d.columns.min(width - ox);
                // SAFETY: passed on to the caller.
                unsafe {
                    d.fill::<S>([oz, oy, ox], rows);
                    for result in 0..d.results {
                        d.multiply::<S>([oz, oy, ox], rows, columns, result);
                    }
                }
            }
        }
    }
}

impl Depthwise {
    /// Copies the input under some output rows, and a block's columns, to the block.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn fill<S: Simd>(&self, [oz, oy, ox]: [usize; 3], rows: usize) {
        let v = &self.v;
        let (input_rows, width) = (rows_for(v, rows), self.layout.width(v, self.columns));
        for slot in 0..self.layout.slots {
            // The elements of this slot that are within the input's row.
            let start = v.start(2, ox) + self.layout.offset(v, slot) as isize;
            let step = v.stride[2];
            let low = if start < 0 { start.unsigned_abs().div_ceil(step) } else { 0 }.min(width);
            let end = (v.input[2] as isize - start).max(0).unsigned_abs().div_ceil(step).clamp(low, width);
            let ix = start + (low * step) as isize;
            let mut to = self.block.wrapping_add(slot * width);
            for kz in 0..v.kernel[0] {
                let iz = v.at(0, oz, kz);
                for r in 0..input_rows {
                    let iy = v.start(1, oy) + r as isize;
                    // SAFETY: a slot has `width` elements; `low..end` are elements of row `iy`.
                    unsafe {
                        if let (Some(iz), true, true) = (iz, iy >= 0 && (iy as usize) < v.input[1], low < end) {
                            let row = (iz * v.input[1] + iy as usize) * v.input[2];
                            if low > 0 {
                                zero::<S>(to, low);
                            }
                            let from = self.x.wrapping_add(row).wrapping_offset(ix);
                            copy::<S>(from, step, to.wrapping_add(low), end - low);
                            if end < width {
                                zero::<S>(to.wrapping_add(end), width - end);
                            }
                        } else {
                            zero::<S>(to, width);
                        }
                    }
                    to = to.wrapping_add(self.layout.slots * width);
                }
            }
        }
    }

    /// The outputs of one output channel that a block covers.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn multiply<S: Simd>(&self, [oz, oy, ox]: [usize; 3], rows: usize, columns: usize, result: usize) {
        let v = &self.v;
        let plane = v.output_plane();
        let first = result * plane + (oz * v.output[1] + oy) * v.output[2] + ox;
        let line = self.layout.slots * self.layout.width(v, self.columns);
        let mut r = 0;
        while r < rows {
            let mut c = 0;
            let left = rows - r;
            while c < columns {
                let tile = Tile {
                    d: self,
                    w: self.w.wrapping_add(result * v.taps_per_window()),
                    block: self.block.wrapping_add(r * v.stride[1] * line + c),
                    line,
                    plane: rows_for(v, rows) * line,
                    result,
                    at: first + r * v.output[2] + c,
                    rows: left,
                    columns: columns - c,
                };
                // SAFETY: passed on to the caller; columns of a block go on to a multiple of 16.
                unsafe {
                    let wide = columns - c > S::LANES;
                    if left == 1 && columns - c > 2 * S::LANES {
                        tile.run::<S, 1, 4>();
                        c += 4 * S::LANES;
                    } else if wide {
                        tile.run::<S, 4, 2>();
                        c += 2 * S::LANES;
                    } else {
                        tile.run::<S, 4, 1>();
                        c += S::LANES;
                    }
                }
            }
            r += if left == 1 { 1 } else { 4 };
        }
    }
}

/// Outputs held in registers.
struct Tile<'a> {
    d: &'a Depthwise,
    w: *const f32,
    /// The element under tap 0 of the first output.
    block: *const f32,
    /// Distance between rows and between planes of the block.
    line: usize,
    plane: usize,
    result: usize,
    /// The place of the first output, and how many rows and columns there are from there.
    at: usize,
    rows: usize,
    columns: usize,
}

impl Tile<'_> {
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn run<S: Simd, const MR: usize, const NV: usize>(&self) {
        const { assert!(MR * NV * S::LANES <= 8 * 16, "a larger tile than there is room for") };
        let v = &self.d.v;
        // SAFETY: passed on to the caller. Rows beyond the last are computed from the last, and vectors beyond the last column from
        // the first, and not stored; a vector with a last column is within the row, which goes on to a multiple of 16.
        unsafe {
            let mut sums = [[S::splat(0.0); NV]; MR];
            let mut lines = [self.block; MR];
            for (r, line) in lines.iter_mut().enumerate() {
                *line = self.block.wrapping_add(r.min(self.rows - 1) * v.stride[1] * self.line);
            }
            // Vectors that start beyond the last column read the first one again.
            let mut offsets = [0; NV];
            for (i, offset) in offsets.iter_mut().enumerate() {
                *offset = if i * S::LANES < self.columns { i * S::LANES } else { 0 };
            }
            let mut w = self.w;
            for kz in 0..v.kernel[0] {
                for ky in 0..v.kernel[1] {
                    let row = kz * self.plane + ky * v.dilation[1] * self.line;
                    for place in self.d.places.iter().take(v.kernel[2]) {
                        let weight = S::splat(*w);
                        w = w.wrapping_add(1);
                        for (sums, line) in sums.iter_mut().zip(lines) {
                            let at = line.wrapping_add(row + place);
                            for (sum, offset) in sums.iter_mut().zip(offsets) {
                                *sum = S::fma(weight, S::load(at.wrapping_add(offset)), *sum);
                            }
                        }
                    }
                }
            }
            // Through memory, so that `sums` is never indexed by a variable and stays in registers.
            let mut block = [MaybeUninit::<f32>::uninit(); 8 * 16];
            let block = block.as_mut_ptr().cast::<f32>();
            for (r, sums) in sums.iter().enumerate() {
                for (i, sum) in sums.iter().enumerate() {
                    S::store(block.add((r * NV + i) * S::LANES), *sum);
                }
            }
            for r in 0..MR.min(self.rows) {
                for i in 0..NV {
                    let left = self.columns.saturating_sub(i * S::LANES).min(S::LANES);
                    if left > 0 {
                        let at = self.at + r * v.output[2] + i * S::LANES;
                        self.finish::<S>(S::load(block.add((r * NV + i) * S::LANES)), at, left);
                    }
                }
            }
        }
    }

    /// Bias, addend and limits for the first `left` of a vector of sums, and storing.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, mut sum: S::V, at: usize, left: usize) {
        let d = self.d;
        // SAFETY: passed on to the caller.
        unsafe {
            if !d.bias.is_null() {
                sum = S::add(sum, S::splat(*d.bias.add(self.result)));
            }
            if !d.add.is_null() {
                sum = S::add(sum, S::load_part(d.add.add(at), left));
            }
            if let Some((low, high)) = d.clip {
                sum = S::min(S::splat(high), S::max(S::splat(low), sum));
            }
            if left == S::LANES { S::store(d.y.add(at), sum) } else { S::store_part(d.y.add(at), sum, left) }
        }
    }
}
