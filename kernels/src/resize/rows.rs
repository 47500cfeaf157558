//! Fast resampling of f32: the taps of a block of outputs along the last axis are found once and used for every row. The rows
//! that an output row stands for are summed into one first.

use super::{Axis, Resampler, advance};
use crate::Isa;
use crate::spatial::{Work, with_isa};
use plan::MAX_RANK;
use plan::prim::{CoordinateMode, ResizeMode};

/// Outputs along the last axis whose taps are kept.
const BLOCK: usize = 128;
/// Input columns that are summed first.
const SPAN: usize = 256;
/// Taps along an axis.
const TAPS: usize = 4;

/// Whether [`resample`] can do it.
pub(super) fn supports(r: &Resampler<'_>) -> bool {
    !r.p.antialias && r.p.coordinates != CoordinateMode::CropAndResize && r.rank > 0
}

/// Resamples all of `x` into `y`, neither of which is empty.
pub(super) fn resample(r: &Resampler<'_>, isa: Isa, x: &[f32], y: &mut [f32]) {
    if let Some((last, outer)) = r.axes().split_last() {
        with_isa(isa, Rows { r, last, outer, x, y });
    }
}

struct Rows<'a, 'p> {
    r: &'a Resampler<'p>,
    last: &'a Axis,
    outer: &'a [Axis],
    x: &'a [f32],
    y: &'a mut [f32],
}

/// The taps of a block of outputs: inputs counted from `low`, and weights.
struct Table {
    count: usize,
    low: usize,
    /// Inputs from `low` to the last that is used.
    width: usize,
    places: [[u32; BLOCK]; TAPS],
    weights: [[f32; BLOCK]; TAPS],
    /// Every input twice, one after another.
    doubled: bool,
}

impl Table {
    fn new(r: &Resampler<'_>, axis: &Axis, first: usize, len: usize) -> Table {
        let mut table = Table {
            count: 1,
            low: usize::MAX,
            width: 0,
            places: [[0; BLOCK]; TAPS],
            weights: [[1.0; BLOCK]; TAPS],
            doubled: false,
        };
        let (mut high, mut places) = (0, [[0usize; BLOCK]; TAPS]);
        for j in 0..len {
            let mut taps = Axes1::new(r, axis, first + j);
            table.count = taps.count;
            for (places, weights) in places.iter_mut().zip(&mut table.weights).take(taps.count) {
                let (place, weight) = taps.next(r, axis);
                (places[j], weights[j]) = (place, weight as f32);
                table.low = table.low.min(place);
                high = high.max(place);
            }
        }
        table.width = high + 1 - table.low;
        for (to, from) in table.places.iter_mut().zip(&places).take(table.count) {
            for (to, from) in to.iter_mut().zip(from).take(len) {
                *to = (from - table.low) as u32;
            }
        }
        table.doubled = table.count == 1 && (0..len).all(|j| table.places[0][j] == j as u32 / 2);
        table
    }
}

/// The taps of one output.
struct Axes1 {
    taps: Option<super::Taps>,
    count: usize,
    i: i64,
    place: usize,
}

impl Axes1 {
    fn new(r: &Resampler<'_>, axis: &Axis, o: usize) -> Axes1 {
        if axis.same {
            return Axes1 { taps: None, count: 1, i: 0, place: o };
        }
        let taps = r.taps(axis, o);
        Axes1 { count: taps.count as usize, taps: Some(taps), i: 0, place: 0 }
    }

    /// Place and weight of the next tap.
    fn next(&mut self, r: &Resampler<'_>, axis: &Axis) -> (usize, f64) {
        let Some(taps) = &self.taps else { return (self.place, 1.0) };
        let i = self.i;
        self.i += 1;
        let place = taps.first.saturating_add(i).clamp(0, axis.input as i64 - 1) as usize;
        (place, if r.p.mode == ResizeMode::Nearest { 1.0 } else { r.weight(axis, taps, i) })
    }
}

impl Work for Rows<'_, '_> {
    #[inline(always)]
    fn run(mut self) {
        let rows: usize = self.outer.iter().map(|a| a.output).product();
        for first in (0..self.last.output).step_by(BLOCK) {
            let len = BLOCK.min(self.last.output - first);
            let table = Table::new(self.r, self.last, first, len);
            let (mut o, mut previous) = ([0; MAX_RANK], None);
            for row in 0..rows {
                let at = row * self.last.output + first;
                let single = self.source(&o);
                match single.zip(previous) {
                    // The same row again.
                    Some((source, (last_source, last_at))) if source == last_source => {
                        self.y.copy_within(last_at..last_at + len, at);
                    }
                    _ => self.row(&table, single, &o, at, len),
                }
                previous = single.map(|source| (source, at));
                advance(&mut o, self.outer);
            }
        }
    }
}

impl Rows<'_, '_> {
    /// Where the input row of an output row starts, if it is one with weight 1.
    #[inline(always)]
    fn source(&self, o: &[usize; MAX_RANK]) -> Option<usize> {
        let mut at = 0;
        for (axis, o) in self.outer.iter().zip(o) {
            let mut taps = Axes1::new(self.r, axis, *o);
            if taps.count != 1 {
                return None;
            }
            at += taps.next(self.r, axis).0 * axis.step;
        }
        Some(at)
    }

    /// One row of one block.
    #[inline(always)]
    fn row(&mut self, table: &Table, single: Option<usize>, o: &[usize; MAX_RANK], at: usize, len: usize) {
        let y = &mut self.y[at..at + len];
        if let Some(source) = single {
            return table.apply(&self.x[source + table.low..][..table.width], y);
        }
        if table.width <= SPAN {
            let mut columns = [0f32; SPAN];
            let columns = &mut columns[..table.width];
            Sum { r: self.r, axes: self.outer, x: self.x, o }.add(0, table.low, 1.0, &mut |row, weight| {
                for (sum, x) in columns.iter_mut().zip(row) {
                    *sum += weight * x;
                }
            });
            return table.apply(columns, y);
        }
        y.fill(0.0);
        let mut part = [0f32; BLOCK];
        Sum { r: self.r, axes: self.outer, x: self.x, o }.add(0, table.low, 1.0, &mut |row, weight| {
            table.apply(row, &mut part[..len]);
            for (sum, x) in y.iter_mut().zip(&part) {
                *sum += weight * x;
            }
        });
    }
}

impl Table {
    /// Resamples a row that starts at `low`.
    #[inline(always)]
    fn apply(&self, row: &[f32], y: &mut [f32]) {
        if self.doubled {
            for (pair, x) in y.chunks_mut(2).zip(row) {
                pair.fill(*x);
            }
            return;
        }
        match self.count {
            1 => {
                for (y, place) in y.iter_mut().zip(&self.places[0]) {
                    *y = row[*place as usize];
                }
            }
            2 => {
                let [p0, p1, ..] = &self.places;
                let [w0, w1, ..] = &self.weights;
                for ((((y, p0), p1), w0), w1) in y.iter_mut().zip(p0).zip(p1).zip(w0).zip(w1) {
                    *y = w0 * row[*p0 as usize] + w1 * row[*p1 as usize];
                }
            }
            _ => {
                for (j, y) in y.iter_mut().enumerate() {
                    let mut sum = 0.0;
                    for (places, weights) in self.places.iter().zip(&self.weights) {
                        sum += weights[j] * row[places[j] as usize];
                    }
                    *y = sum;
                }
            }
        }
    }
}

/// The rows that an output row is the weighted sum of.
struct Sum<'a, 'p> {
    r: &'a Resampler<'p>,
    axes: &'a [Axis],
    x: &'a [f32],
    o: &'a [usize; MAX_RANK],
}

impl Sum<'_, '_> {
    /// Calls `f` with each row, from the element that is `at` further on than its axes say, and its weight.
    fn add(&self, a: usize, at: usize, weight: f32, f: &mut dyn FnMut(&[f32], f32)) {
        let (Some(axis), Some(o)) = (self.axes.get(a), self.o.get(a)) else {
            return f(self.x.get(at..).unwrap_or(&[]), weight);
        };
        let mut taps = Axes1::new(self.r, axis, *o);
        for _ in 0..taps.count {
            let (place, part) = taps.next(self.r, axis);
            if part != 0.0 {
                self.add(a + 1, at + place * axis.step, weight * part as f32, f);
            }
        }
    }
}
