//! Padding and cropping.

use crate::{Call, Fault, Plain, Src, number::match_bits, walk::Walk};
use plan::{
    MAX_RANK,
    prim::{Pad, PadMode},
};

/// Runs [`Pad`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn pad(p: &Pad<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, value, dst) = (call.src(0)?, call.opt_src(1), call.dst(0)?);
    if src.dtype() != dst.dtype() {
        return Err(Fault::DType { found: src.dtype(), wanted: dst.dtype().name() });
    }
    if src.dims().len() != dst.dims().len() || p.before.len() != dst.dims().len() {
        return Err(Fault::Shape("Pad keeps the rank"));
    }
    if src.is_shared() {
        return Err(Fault::Shared);
    }
    if dst.is_empty() {
        return Ok(());
    }
    if p.mode != PadMode::Constant && src.is_empty() {
        return Err(Fault::Shape("nothing to pad with"));
    }
    match_bits!(dst.dtype(), T => {
        let fill = match value {
            Some(v) if p.mode == PadMode::Constant => scalar::<T>(&v, &src)?,
            _ => T::default(),
        };
        let task = Task { before: &p.before, mode: p.mode, src: &src, dims: dst.dims(), strides: dst.strides() };
        // SAFETY: the shapes are those of the views, checked to have one rank and one element size.
        unsafe { task.run(src.as_ptr().cast::<T>(), dst.as_ptr().cast::<T>(), fill) }
    })
}

/// The only element of a view of the data's type.
fn scalar<T: Plain>(value: &Src<'_>, data: &Src<'_>) -> Result<T, Fault> {
    if value.dtype() != data.dtype() {
        return Err(Fault::DType { found: value.dtype(), wanted: data.dtype().name() });
    }
    value.bits::<T>()?.first().copied().ok_or(Fault::Shape("the value to pad with is missing"))
}

/// The element of an axis of `extent` that stands at `i`, which may lie outside; none for a constant.
fn source(mode: PadMode, i: i64, extent: usize) -> Option<usize> {
    let n = extent as i64;
    if (0..n).contains(&i) {
        return Some(i as usize);
    }
    match mode {
        PadMode::Constant => None,
        PadMode::Edge => Some(i.clamp(0, n - 1) as usize),
        PadMode::Wrap => Some(i.rem_euclid(n) as usize),
        PadMode::Reflect => {
            // The pattern repeats after there and back, the ends counted once.
            let period = (2 * n - 2).max(1);
            let i = i.rem_euclid(period);
            Some(i.min(period - i).min(n - 1) as usize)
        }
    }
}

struct Task<'t> {
    before: &'t [i64],
    mode: PadMode,
    src: &'t Src<'t>,
    dims: &'t [usize],
    strides: &'t [isize],
}

impl Task<'_> {
    /// # Safety
    /// `from` and `to` are the first elements of source and destination, which do not overlap; neither result is empty.
    unsafe fn run<T: Plain>(&self, from: *const T, to: *mut T, fill: T) -> Result<(), Fault> {
        let Some((last, outer)) = self.dims.split_last() else {
            // SAFETY: one element each.
            unsafe { to.write(from.read()) };
            return Ok(());
        };
        let axis = outer.len();
        let walk = Walk::new(outer, [&self.strides[..axis]]);
        let (mut index, mut first) = ([0usize; MAX_RANK], true);
        // Rows in order of the axes that were not joined: places are counted along.
        let mut row = |at: isize| {
            if !first {
                advance(&mut index, outer);
            }
            first = false;
            let base = self.source_row(&index[..axis]);
            // SAFETY: the row begins at `at` in the destination, and at `base` in the source.
            unsafe { self.row(base.map(|b| from.offset(b)), to.offset(at), *last, fill) }
        };
        walk.rows(|[at]| {
            for i in 0..walk.row() as isize {
                row(at + i * walk.row_strides()[0]);
            }
            Ok(())
        })
    }

    /// The offset of the source row for an outer index of the destination; none where it is padding.
    fn source_row(&self, index: &[usize]) -> Option<isize> {
        let mut base = 0isize;
        for (axis, i) in index.iter().enumerate() {
            let place = source(self.mode, *i as i64 - self.before[axis], self.src.dims()[axis])?;
            base += place as isize * self.src.strides()[axis];
        }
        Some(base)
    }

    /// One row along the last axis.
    ///
    /// # Safety
    /// The rows can be read and written.
    unsafe fn row<T: Plain>(&self, from: Option<*const T>, to: *mut T, n: usize, fill: T) {
        let axis = self.dims.len() - 1;
        let (extent, before) = (self.src.dims()[axis], self.before[axis]);
        let (d, s) = (self.strides[axis], self.src.strides()[axis]);
        let from = from.filter(|_| extent > 0);
        // The part that lies within the source.
        let start = if from.is_none() { n } else { before.clamp(0, n as i64) as usize };
        let end = extent.saturating_add_signed(before as isize).clamp(start, n);
        for i in (0..start).chain(end..n) {
            let place = source(self.mode, i as i64 - before, extent);
            // SAFETY: `i` is within the destination's row, `place` within the source's.
            unsafe {
                let value = match (from, place) {
                    (Some(from), Some(place)) => from.offset(place as isize * s).read(),
                    _ => fill,
                };
                to.offset(i as isize * d).write(value);
            }
        }
        let Some(from) = from.filter(|_| end > start) else { return };
        let skip = start as i64 - before;
        // SAFETY: the part is within both rows.
        unsafe {
            let (from, to) = (from.offset(skip as isize * s), to.offset(start as isize * d));
            if d == 1 && s == 1 {
                core::ptr::copy_nonoverlapping(from, to, end - start);
            } else {
                for i in 0..(end - start) as isize {
                    to.offset(i * d).write(from.offset(i * s).read());
                }
            }
        }
    }
}

/// The next index in row-major order.
fn advance(index: &mut [usize; MAX_RANK], dims: &[usize]) {
    for (i, dim) in index.iter_mut().zip(dims).rev() {
        *i += 1;
        if *i < *dim {
            return;
        }
        *i = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{Axes, DType};
    use std::vec::Vec;

    /// The source index in one dimension, by walking step by step.
    fn slow(mode: PadMode, i: i64, n: i64) -> Option<i64> {
        match mode {
            _ if (0..n).contains(&i) => Some(i),
            PadMode::Constant => None,
            PadMode::Edge => Some(if i < 0 { 0 } else { n - 1 }),
            PadMode::Wrap => slow(mode, if i < 0 { i + n } else { i - n }, n),
            PadMode::Reflect if n == 1 => Some(0),
            PadMode::Reflect => slow(mode, if i < 0 { -i } else { 2 * (n - 1) - i }, n),
        }
    }

    #[test]
    fn all_modes_agree_with_the_definition() {
        let mut rng = Rng::new(50);
        for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
            for round in 0..80 {
                let rank = rng.below(4);
                let dims: Vec<usize> = (0..rank).map(|_| 1 + rng.below(6)).collect();
                let before: Vec<i64> = (0..rank).map(|_| rng.below(9) as i64 - 3).collect();
                let out: Vec<usize> =
                    (0..rank).map(|a| (dims[a] as i64 + before[a] + rng.below(9) as i64 - 3).max(0) as usize).collect();
                let n: usize = dims.iter().product();
                let data: Vec<f32> = (0..n).map(|i| i as f32 + 1.0).collect();
                let (src, value) = (Tensor::of(&data, &dims), Tensor::of(&[-7f32], &[]));
                let given = rng.below(2) == 0;
                let mut want = Vec::new();
                for flat in 0..out.iter().product() {
                    let (mut rest, mut at, mut step, mut inside) = (flat, 0usize, 1usize, true);
                    for a in (0..rank).rev() {
                        match slow(mode, (rest % out[a]) as i64 - before[a], dims[a] as i64) {
                            Some(i) => at += i as usize * step,
                            None => inside = false,
                        }
                        rest /= out[a];
                        step *= dims[a];
                    }
                    want.push(if inside {
                        data[at]
                    } else if given {
                        -7.0
                    } else {
                        0.0
                    });
                }
                let src = if round % 2 == 0 { src } else { src.scattered(&mut rng) };
                let mut w = [Tensor::zeros(DType::F32, &out)];
                if round % 3 == 0 {
                    w[0] = w[0].scattered(&mut rng);
                }
                let p = Pad { before: Axes::from_slice(&before).unwrap(), mode };
                let value = given.then_some(&value);
                run(&p.into(), &[Some(&src), value], &mut w, None, Isa::Portable).unwrap();
                assert_eq!(w[0].to_vec::<f32>(), want, "{mode:?} {dims:?} {before:?} {out:?}");
            }
        }
    }

    #[test]
    fn nothing_is_padded_with_a_constant_only() {
        let src = Tensor::zeros(DType::F32, &[0]);
        let mut w = [Tensor::zeros(DType::F32, &[2])];
        let value = Tensor::of(&[3f32], &[]);
        let mut go = |mode| {
            run(&Pad { before: Axes::of([1]), mode }.into(), &[Some(&src), Some(&value)], &mut w, None, Isa::Portable)
        };
        assert!(go(PadMode::Edge).is_err());
        go(PadMode::Constant).unwrap();
        assert_eq!(w[0].to_vec::<f32>(), [3.0, 3.0]);
    }
}
