//! Taking elements and slices by indices.

use crate::{
    Call, Dst, Fault, Src,
    index::Indices,
    map::memory::{load_packed, store_packed},
    number::match_bits,
    walk::Walk,
};
use plan::prim::{Gather, GatherElements, GatherNd};

/// Checks that data and result have one type and that the data is not written.
fn check(data: &Src<'_>, dst: &Dst<'_>) -> Result<(), Fault> {
    if data.dtype() != dst.dtype() {
        return Err(Fault::DType { found: data.dtype(), wanted: dst.dtype().name() });
    }
    if data.is_shared() {
        return Err(Fault::Shared);
    }
    if !dst.is_contiguous() {
        return Err(Fault::Strided);
    }
    Ok(())
}

/// Runs [`Gather`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or an index is out of range.
pub fn gather(p: &Gather, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (data, indices, mut dst) = (call.src(0)?, Indices::of(call.src(1)?)?, call.dst(0)?);
    check(&data, &dst)?;
    let axis = usize::from(p.axis);
    let extent = *data.dims().get(axis).ok_or(Fault::Shape("the axis is not one of the data"))?;
    let (outer, inner) = (&data.dims()[..axis], &data.dims()[axis + 1..]);
    let want = outer.iter().chain(indices.dims()).chain(inner);
    if !want.eq(dst.dims()) {
        return Err(Fault::Shape("the result of Gather has other dims"));
    }
    if dst.is_empty() {
        return Ok(());
    }
    let parts = Parts {
        outer: Walk::new(outer, [&data.strides()[..axis]]),
        inner: Walk::new(inner, [&data.strides()[axis + 1..]]),
        indices: Walk::new(indices.dims(), [indices.strides()]),
        step: data.strides()[axis],
        extent,
    };
    let from = data.as_ptr().cast_const();
    if data.dtype().bits() < 8 {
        let (dtype, to, mut place) = (data.dtype(), dst.as_ptr(), 0);
        return parts.slices(&indices, |at| {
            parts.inner.rows(|[row]| {
                for i in 0..parts.inner.row() as isize {
                    let at = at + row + i * parts.inner.row_strides()[0];
                    // SAFETY: the element is one of the data; `place` counts the elements of the result.
                    unsafe { store_packed(dtype, to, place, load_packed(dtype, from, at)) };
                    place += 1;
                }
                Ok(())
            })
        });
    }
    match_bits!(data.dtype(), T => {
        let mut out = dst.bits::<T>()?;
        // SAFETY: the offsets are those of elements of the data.
        parts.slices(&indices, |at| unsafe {
            let from = from.cast::<T>().offset(at);
            let (row, step) = (parts.inner.row(), parts.inner.row_strides()[0]);
            parts.inner.rows(|[at]| {
                let (here, rest) = core::mem::take(&mut out).split_at_mut_checked(row).ok_or(Fault::OutOfBounds)?;
                out = rest;
                if step == 1 {
                    here.copy_from_slice(core::slice::from_raw_parts(from.offset(at), row));
                } else {
                    for (i, to) in here.iter_mut().enumerate() {
                        *to = from.offset(at + i as isize * step).read();
                    }
                }
                Ok(())
            })
        })
    })
}

/// The axes of the data of a [`Gather`].
struct Parts {
    outer: Walk<1>,
    inner: Walk<1>,
    indices: Walk<1>,
    step: isize,
    extent: usize,
}

impl Parts {
    /// Calls `f` with the offset of each slice, in the order of the result.
    #[inline(always)]
    fn slices(&self, indices: &Indices<'_>, mut f: impl FnMut(isize) -> Result<(), Fault>) -> Result<(), Fault> {
        let ([outer_step], [index_step]) = (self.outer.row_strides(), self.indices.row_strides());
        self.outer.rows(|[at]| {
            for i in 0..self.outer.row() as isize {
                let at = at + i * outer_step;
                self.indices.rows(|[place]| {
                    for k in 0..self.indices.row() as isize {
                        // SAFETY: the offset is that of an index.
                        let index = unsafe { indices.get(place + k * index_step, self.extent)? };
                        f(at + index as isize * self.step)?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }
}

/// Runs [`GatherElements`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or an index is out of range.
pub fn gather_elements(p: &GatherElements, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (data, indices, mut dst) = (call.src(0)?, Indices::of(call.src(1)?)?, call.dst(0)?);
    check(&data, &dst)?;
    let axis = usize::from(p.axis);
    let extent = *data.dims().get(axis).ok_or(Fault::Shape("the axis is not one of the data"))?;
    let fits = indices.dims().iter().zip(data.dims()).enumerate().all(|(a, (i, d))| a == axis || i <= d);
    if indices.dims() != dst.dims() || indices.dims().len() != data.dims().len() || !fits {
        return Err(Fault::Shape("indices and result of GatherElements differ, or exceed the data"));
    }
    let mut strides = *data.shape();
    let step = data.strides()[axis];
    strides.set_stride(axis, 0);
    let walk = Walk::new(indices.dims(), [indices.strides(), strides.strides()]);
    let from = data.as_ptr().cast_const();
    match_bits!(data.dtype(), T => {
        let mut out = dst.bits::<T>()?.iter_mut();
        let [index_step, data_step] = walk.row_strides();
        walk.rows(|[index_at, data_at]| {
            for (i, to) in out.by_ref().take(walk.row()).enumerate() {
                let i = i as isize;
                // SAFETY: the index is one of the view; the data's offset is within each of its axes.
                unsafe {
                    let index = indices.get(index_at + i * index_step, extent)?;
                    *to = from.cast::<T>().offset(data_at + i * data_step + index as isize * step).read();
                }
            }
            Ok(())
        })
    })
}

/// Runs [`GatherNd`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or an index is out of range.
pub fn gather_nd(p: &GatherNd, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (data, indices, mut dst) = (call.src(0)?, Indices::of(call.src(1)?)?, call.dst(0)?);
    check(&data, &dst)?;
    let tuples = Tuples::new(data.dims(), indices.dims(), usize::from(p.batch_dims))?;
    if !call.src(1)?.is_contiguous() || !data.is_contiguous() {
        return Err(Fault::Strided);
    }
    if dst.len() != tuples.count.saturating_mul(tuples.inner) {
        return Err(Fault::Shape("the result of GatherND has another size"));
    }
    if dst.is_empty() {
        return Ok(());
    }
    match_bits!(data.dtype(), T => {
        let from = data.bits::<T>()?;
        for (i, to) in dst.bits::<T>()?.chunks_exact_mut(tuples.inner).enumerate() {
            // SAFETY: there are `count` tuples.
            let at = unsafe { tuples.place(&indices, i)? };
            to.copy_from_slice(from.get(at..at + tuples.inner).ok_or(Fault::OutOfBounds)?);
        }
        Ok(())
    })
}

/// Index tuples along the last axis of contiguous indices, into contiguous data.
pub(crate) struct Tuples<'d> {
    /// How many tuples.
    pub(crate) count: usize,
    /// Elements of the slice that a tuple names.
    pub(crate) inner: usize,
    /// Extents that a tuple's indices go into.
    axes: &'d [usize],
    /// Elements of one batch of the data.
    batch: usize,
    /// Tuples of one batch.
    per_batch: usize,
}

impl<'d> Tuples<'d> {
    /// # Errors
    /// When the dims do not fit together.
    pub(crate) fn new(data: &'d [usize], indices: &[usize], batch_dims: usize) -> Result<Self, Fault> {
        let (k, lead) = indices.split_last().ok_or(Fault::Shape("indices need an axis of tuples"))?;
        let end = batch_dims.checked_add(*k).filter(|e| *e <= data.len()).ok_or(Fault::Shape("tuples too long"))?;
        if lead.len() < batch_dims || lead[..batch_dims] != data[..batch_dims] {
            return Err(Fault::Shape("batch axes differ"));
        }
        Ok(Tuples {
            count: lead.iter().product(),
            inner: data[end..].iter().product(),
            axes: &data[batch_dims..end],
            batch: data[batch_dims..].iter().product(),
            per_batch: lead[batch_dims..].iter().product(),
        })
    }

    /// Where in the data the slice of tuple `i` begins.
    ///
    /// # Errors
    /// When an index is out of range.
    ///
    /// # Safety
    /// `i < count`, and the indices are contiguous and have the dims given.
    pub(crate) unsafe fn place(&self, indices: &Indices<'_>, i: usize) -> Result<usize, Fault> {
        let (mut at, first) = (0, i * self.axes.len());
        for (axis, extent) in self.axes.iter().enumerate() {
            // SAFETY: passed on to the caller.
            let index = unsafe { indices.get((first + axis) as isize, *extent)? };
            at = at * extent + index;
        }
        Ok(i / self.per_batch.max(1) * self.batch + at * self.inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Fault, Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{
        DType,
        prim::{Gather, GatherElements, GatherNd},
    };
    use std::{vec, vec::Vec};

    /// 0, 1, 2, ... as u16.
    fn counted(dims: &[usize]) -> Tensor {
        let data: Vec<u16> = (0..dims.iter().product::<usize>() as u16).collect();
        Tensor::of(&data, dims)
    }

    fn draw(n: usize, extent: usize, rng: &mut Rng) -> Vec<i64> {
        (0..n).map(|_| rng.below(2 * extent) as i64 - extent as i64).collect()
    }

    fn wrap(i: i64, extent: usize) -> usize {
        (if i < 0 { i + extent as i64 } else { i }) as usize
    }

    #[test]
    fn gather_takes_slices() {
        let mut rng = Rng::new(30);
        let dims = [4, 5, 6];
        for axis in 0..3 {
            for index_dims in [&[][..], &[3], &[2, 2], &[0]] {
                let data = counted(&dims);
                let n = index_dims.iter().product();
                let picks = draw(n, dims[axis], &mut rng);
                let (outer, inner): (usize, usize) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
                let mut want = Vec::new();
                for o in 0..outer {
                    for i in &picks {
                        want.extend((0..inner).map(|k| ((o * dims[axis] + wrap(*i, dims[axis])) * inner + k) as u16));
                    }
                }
                let out: Vec<usize> = dims[..axis].iter().chain(index_dims).chain(&dims[axis + 1..]).copied().collect();
                let narrow: Vec<i32> = picks.iter().map(|i| *i as i32).collect();
                for indices in [Tensor::of(&picks, index_dims).scattered(&mut rng), Tensor::of(&narrow, index_dims)] {
                    for data in [data.clone(), data.scattered(&mut rng)] {
                        let mut w = [Tensor::zeros(DType::U16, &out)];
                        let p = Gather { axis: axis as u8 };
                        run(&p.into(), &[Some(&data), Some(&indices)], &mut w, None, Isa::Portable).unwrap();
                        assert_eq!(w[0].to_vec::<u16>(), want);
                    }
                }
            }
        }
    }

    #[test]
    fn packed_rows() {
        let data = Tensor::with_bits(DType::U4, &[0x21u8, 0x43, 0x65], &[2, 3]);
        let mut w = [Tensor::zeros(DType::U4, &[1, 3])];
        let index = Tensor::of(&[1i64], &[1]);
        run(&Gather { axis: 0 }.into(), &[Some(&data), Some(&index)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].bytes()[..2], [0x54, 0x06]);
    }

    #[test]
    fn bad_indices_are_faults() {
        let data = counted(&[3, 2]);
        let mut w = [Tensor::zeros(DType::U16, &[1, 2])];
        for index in [3, -4, i64::MIN, i64::MAX] {
            let indices = Tensor::of(&[index], &[1]);
            let got = run(&Gather { axis: 0 }.into(), &[Some(&data), Some(&indices)], &mut w, None, Isa::Portable);
            assert_eq!(got, Err(Fault::Index { index, extent: 3 }));
        }
    }

    #[test]
    fn elements_by_their_place() {
        let mut rng = Rng::new(31);
        let (dims, index_dims) = ([3, 4, 5], [2, 4, 3]);
        for axis in 0..3 {
            let picks = draw(24, dims[axis], &mut rng);
            let mut want = Vec::new();
            for (n, pick) in picks.iter().enumerate() {
                let mut at = [n / 12, n / 3 % 4, n % 3];
                at[axis] = wrap(*pick, dims[axis]);
                want.push((at[0] * 20 + at[1] * 5 + at[2]) as u16);
            }
            let (data, indices) =
                (counted(&dims).scattered(&mut rng), Tensor::of(&picks, &index_dims).scattered(&mut rng));
            let mut w = [Tensor::zeros(DType::U16, &index_dims)];
            let p = GatherElements { axis: axis as u8 };
            let done = run(&p.into(), &[Some(&data), Some(&indices)], &mut w, None, Isa::Portable);
            // Other axes of the indices may not exceed the data's.
            assert_eq!(done, Ok(vec![-1, -1]));
            assert_eq!(w[0].to_vec::<u16>(), want);
        }
    }

    #[test]
    fn tuples_name_slices() {
        let data = counted(&[2, 3, 4]);
        let mut w = [Tensor::zeros(DType::U16, &[2, 4])];
        let indices = Tensor::of(&[1i64, 0, -2, 2], &[2, 2]);
        run(&GatherNd { batch_dims: 0 }.into(), &[Some(&data), Some(&indices)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<u16>(), [12, 13, 14, 15, 8, 9, 10, 11]);
        let indices = Tensor::of(&[2i64, 0], &[2, 1]);
        run(&GatherNd { batch_dims: 1 }.into(), &[Some(&data), Some(&indices)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<u16>(), [8, 9, 10, 11, 12, 13, 14, 15]);
    }
}
