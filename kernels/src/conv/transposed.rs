//! Transposed convolution of f32, phase by phase.
//!
//! Outputs that are a stride apart along every axis (a phase) are an ordinary convolution with stride 1 by the taps that reach
//! them, in reverse order. The weights of those taps are put into panels, each panel's results are computed next to each other
//! and then stored a stride apart.

use super::PANEL;
use super::columns::{self, Columns};
use super::micro;
use super::panels::Strip;
use crate::spatial::{Image, Windows};
use crate::{Fault, Isa};

/// Elements of data laid out at once.
const ELEMENTS: usize = 1 << 16;
/// Pixels laid out at once.
const PIXELS: usize = 1008;

/// A transposed convolution.
pub(crate) struct Transposed<'a> {
    /// Of the convolution that this one transposes: its input is our result.
    pub windows: Windows,
    pub x: Image,
    pub y: Image,
    pub group: usize,
    pub data: &'a [f32],
    /// `[c, m / group, taps]`
    pub weights: &'a [f32],
    pub bias: Option<&'a [f32]>,
}

/// The taps that reach one phase of an axis.
#[derive(Clone, Copy)]
struct Phase {
    /// The last of them, the distance to the one before, and how many there are.
    last: usize,
    step: usize,
    count: usize,
    /// Distance between the inputs of neighbouring taps, and elements before the first.
    dilation: usize,
    before: isize,
    /// Outputs of the phase.
    outputs: usize,
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Phase {
    fn new(v: &Windows, a: usize, phase: usize) -> Phase {
        let (stride, dilation) = (v.stride[a], v.dilation[a]);
        let step = stride / gcd(stride, dilation);
        let distance = |k: usize| phase as isize + v.before[a] - (k * dilation) as isize;
        let reaches = |k: &usize| distance(*k).rem_euclid(stride as isize) == 0;
        let first = (0..step.min(v.kernel[a])).find(reaches);
        let count = first.map_or(0, |first| (v.kernel[a] - first).div_ceil(step));
        let last = first.unwrap_or(0) + count.saturating_sub(1) * step;
        Phase {
            last,
            step,
            count,
            dilation: (dilation * step / stride).max(1),
            // Tap `last` of output 0 meets this input.
            before: -distance(last).div_euclid(stride as isize),
            outputs: v.input[a].saturating_sub(phase).div_ceil(stride),
        }
    }
}

/// The most taps of a phase, and the most outputs.
fn largest(v: &Windows) -> (usize, usize) {
    let (mut taps, mut outputs) = (1usize, 1usize);
    for a in 0..3 {
        let step = v.stride[a] / gcd(v.stride[a], v.dilation[a]);
        taps = taps.saturating_mul(v.kernel[a].div_ceil(step));
        outputs = outputs.saturating_mul(v.input[a].div_ceil(v.stride[a]));
    }
    (taps, outputs)
}

/// Pixels laid out at once of so many.
fn stretch(terms: usize, tile: usize) -> usize {
    (ELEMENTS / terms.max(1)).min(PIXELS) / tile * tile
}

/// Floats of the three parts of the workspace: weights, data, results.
fn parts(v: &Windows, channels: usize, m: usize) -> [usize; 3] {
    let (taps, outputs) = largest(v);
    let terms = channels.saturating_mul(taps);
    // Tiles have 48 pixels at most.
    let pixels = outputs.next_multiple_of(16).min(stretch(terms, 16).max(48));
    [terms.saturating_mul(m.next_multiple_of(PANEL)), data_bound(terms, outputs), pixels.saturating_mul(PANEL)]
}

/// As many elements as laid out data has, which never shrinks when terms or outputs grow.
fn data_bound(terms: usize, outputs: usize) -> usize {
    let all = terms.saturating_mul(outputs.next_multiple_of(16));
    all.min(ELEMENTS.max(terms.saturating_mul(48)))
}

/// Floats of workspace; never shrinks when an extent of the data grows.
pub(crate) fn workspace(v: &Windows, channels: usize, m: usize) -> usize {
    parts(v, channels, m).iter().fold(0, |sum, part| sum.saturating_add(*part))
}

/// Computes it.
///
/// # Errors
/// When the workspace is too small.
pub(crate) fn run(t: &Transposed<'_>, isa: Isa, y: &mut [f32], memory: &mut [f32]) -> Result<(), Fault> {
    let (channels, m) = (t.x.channels / t.group, t.y.channels / t.group);
    let [weights, data, results] = parts(&t.windows, channels, m);
    let given = size_of_val(memory);
    let fault = Fault::Workspace { needed: (weights + data + results) * size_of::<f32>(), given };
    let (weights, rest) = memory.split_at_mut_checked(weights).ok_or(fault)?;
    let (data, rest) = rest.split_at_mut_checked(data).ok_or(fault)?;
    let results = rest.get_mut(..results).ok_or(fault)?;
    let stride = t.windows.stride;
    for group in 0..t.group {
        for pz in 0..stride[0].min(t.windows.input[0]) {
            for py in 0..stride[1].min(t.windows.input[1]) {
                for px in 0..stride[2].min(t.windows.input[2]) {
                    let phases = [pz, py, px];
                    let mut part = Part { t, isa, group, phases, weights, data, results };
                    part.run(y);
                }
            }
        }
    }
    Ok(())
}

/// One phase of one group.
struct Part<'a, 'w> {
    t: &'a Transposed<'a>,
    isa: Isa,
    group: usize,
    phases: [usize; 3],
    weights: &'w mut [f32],
    data: &'w mut [f32],
    results: &'w mut [f32],
}

impl Part<'_, '_> {
    fn run(&mut self, y: &mut [f32]) {
        let (t, v) = (self.t, &self.t.windows);
        let axes = [0, 1, 2].map(|a| Phase::new(v, a, self.phases[a]));
        let windows = Windows {
            input: v.output,
            output: axes.map(|p| p.outputs),
            kernel: axes.map(|p| p.count),
            stride: [1; 3],
            dilation: axes.map(|p| p.dilation),
            before: axes.map(|p| p.before),
        };
        let (channels, m) = (t.x.channels / t.group, t.y.channels / t.group);
        let terms = channels * windows.taps_per_window();
        self.pack(&axes, channels, m);
        let (kernels, pixels) = (micro::kernels(self.isa), windows.output_plane());
        let tile = kernels.pixels.len() * kernels.lanes;
        // As the phase with the most terms, for which the workspace is sized.
        let stretch = stretch(channels * largest(v).0, tile).max(tile);
        for n in 0..t.y.batch {
            let x = t.data.get(t.x.at(n, self.group * channels, [0; 3])..).unwrap_or(&[]).as_ptr();
            for first in (0..pixels).step_by(stretch) {
                let range = (first, pixels.min(first + stretch));
                let columns = Columns { windows: &windows, x, channels, terms: (0, terms), pixels: range, tile };
                // SAFETY: the caller found the data as large as the windows say; the workspace holds all terms of a stretch.
                unsafe { columns::fill(self.isa, &columns, self.data.as_mut_ptr()) };
                for panel in (0..m).step_by(PANEL) {
                    self.panel(&columns, panel, PANEL.min(m - panel));
                    self.store(&windows, range, n, panel, PANEL.min(m - panel), y);
                }
            }
        }
    }

    /// Puts the weights of the phase's taps into panels `[ceil(m / 16), taps * channels, 16]`.
    fn pack(&mut self, axes: &[Phase; 3], channels: usize, m: usize) {
        let (t, v) = (self.t, &self.t.windows);
        let mut rows = self.weights.chunks_exact_mut(PANEL);
        for panel in (0..m).step_by(PANEL) {
            for z in 0..axes[0].count {
                for r in 0..axes[1].count {
                    for q in 0..axes[2].count {
                        let tap = [z, r, q].into_iter().zip(axes).zip(v.kernel);
                        let tap = tap.fold(0, |at, ((i, p), extent)| at * extent + p.last - i * p.step);
                        for c in 0..channels {
                            let Some(row) = rows.next() else { return };
                            let first = (self.group * channels + c) * m;
                            for (j, to) in row.iter_mut().enumerate() {
                                let at = (first + panel + j) * v.taps_per_window() + tap;
                                *to = if panel + j < m { t.weights.get(at).copied().unwrap_or(0.0) } else { 0.0 };
                            }
                        }
                    }
                }
            }
        }
    }

    /// Computes up to 16 output channels of a stretch into the results.
    fn panel(&mut self, columns: &Columns<'_>, panel: usize, rows: usize) {
        let terms = columns.terms.1;
        let bias = self.t.bias.and_then(|b| b.get(self.group * (self.t.y.channels / self.t.group) + panel..));
        let strip = Strip {
            kernels: micro::kernels(self.isa),
            weights: self.weights.as_ptr().wrapping_add(panel * terms),
            terms,
            m: rows,
            // `Strip` counts pixels from the first of the image.
            c: self.results.as_mut_ptr().wrapping_sub(columns.pixels.0),
            c_row: columns.pixels.1 - columns.pixels.0,
            residual: core::ptr::null(),
            bias: bias.map_or(core::ptr::null(), <[f32]>::as_ptr),
            clip: None,
        };
        // SAFETY: the results hold 16 channels of a stretch, the weights all panels, and the data its tiles.
        unsafe { strip.multiply_columns(columns, self.data.as_ptr()) };
    }

    /// Stores the results where they belong.
    fn store(&self, windows: &Windows, pixels: (usize, usize), n: usize, panel: usize, rows: usize, y: &mut [f32]) {
        let (t, stride) = (self.t, self.t.windows.stride);
        let first = self.group * (t.y.channels / t.group) + panel;
        let [_, height, width] = windows.output;
        for (r, results) in self.results.chunks_exact(pixels.1 - pixels.0).take(rows).enumerate() {
            let (mut at, mut results) = (pixels.0, results);
            while at < pixels.1 {
                let q = [at / (height * width), at / width % height, at % width];
                let count = (width - q[2]).min(pixels.1 - at);
                let (row, rest) = results.split_at(count);
                let o = [0, 1, 2].map(|a| q[a] * stride[a] + self.phases[a]);
                let to = y.get_mut(t.y.at(n, first + r, o)..).unwrap_or(&mut []);
                match stride[2] {
                    1 => to.iter_mut().zip(row).for_each(|(to, v)| *to = *v),
                    s => to.iter_mut().step_by(s).zip(row).for_each(|(to, v)| *to = *v),
                }
                (at, results) = (at + count, rest);
            }
        }
    }
}
