//! The largest or smallest elements along an axis.
//!
//! NaN counts as greater than all numbers. A heap of the `k` best so far is kept in the result's indices, so no workspace is
//! needed; at the end it is sorted in place.

use crate::{
    Call, Fault,
    number::{match_number, order},
    walk::Walk,
};
use core::cmp::Ordering;
use plan::{Axes, DType, prim::TopK};

/// Runs [`TopK`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn topk(p: &TopK, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut values, mut places) = (call.src(0)?, call.dst(0)?, call.dst(1)?);
    let axis = usize::from(p.axis);
    let extent = *src.dims().get(axis).ok_or(Fault::Shape("the axis is not one of the data"))?;
    if values.dims() != places.dims() || values.dims().len() != src.dims().len() {
        return Err(Fault::Shape("values and indices have equal dims"));
    }
    let k = values.dims()[axis];
    let fits = src.dims().iter().zip(values.dims()).enumerate().all(|(a, (s, d))| a == axis || s == d);
    if !fits || k > extent {
        return Err(Fault::Shape("no more elements than there are along the axis"));
    }
    if src.dtype() != values.dtype() {
        return Err(Fault::DType { found: values.dtype(), wanted: src.dtype().name() });
    }
    if src.is_shared() {
        return Err(Fault::Shared);
    }
    if values.is_empty() {
        return Ok(());
    }
    let inner: usize = values.dims()[axis + 1..].iter().product();
    let others = |a: &usize| *a != axis;
    let dims = Axes::collect((0..src.dims().len()).filter(others).map(|a| src.dims()[a])).unwrap_or_default();
    let strides = Axes::collect((0..src.dims().len()).filter(others).map(|a| src.strides()[a])).unwrap_or_default();
    let walk = Walk::new(&dims, [&strides]);
    let (from, step) = (src.as_ptr().cast_const(), src.strides()[axis]);
    let places = places.slice::<i64>()?;
    match_number!(match src.dtype() { DType::Bool => DType::U8, other => other }, T => {
        let values = values.bits::<T>()?;
        let mut line = 0;
        walk.rows(|[at]| {
            for i in 0..walk.row() as isize {
                // SAFETY: the offsets are those of the view's elements.
                let key = |index: i64| unsafe {
                    *from.cast::<T>().offset(at + i * walk.row_strides()[0] + index as isize * step)
                };
                let start = line / inner * inner * k + line % inner;
                let heap = Heap { k, start, inner };
                let before = |a: i64, b: i64| {
                    let by_value = if p.largest { order(key(b), key(a)) } else { order(key(a), key(b)) };
                    by_value.then(a.cmp(&b)) == Ordering::Less
                };
                heap.select(places, extent, &before);
                for j in 0..k {
                    values[heap.at(j)] = key(places[heap.at(j)]);
                }
                line += 1;
            }
            Ok(())
        })
    })
}

/// Where one line's indices lie among all.
struct Heap {
    k: usize,
    start: usize,
    inner: usize,
}

impl Heap {
    fn at(&self, j: usize) -> usize {
        self.start + j * self.inner
    }

    /// Leaves the first `k` of `0..n` in the order `before`.
    fn select(&self, x: &mut [i64], n: usize, before: &impl Fn(i64, i64) -> bool) {
        for j in 0..self.k {
            x[self.at(j)] = j as i64;
        }
        // The root is the last in order.
        for j in (0..self.k / 2).rev() {
            self.sink(x, j, self.k, before);
        }
        for i in self.k as i64..n as i64 {
            if before(i, x[self.start]) {
                x[self.start] = i;
                self.sink(x, 0, self.k, before);
            }
        }
        for end in (1..self.k).rev() {
            x.swap(self.start, self.at(end));
            self.sink(x, 0, end, before);
        }
    }

    /// Lets element `j` sink to its place among the first `n`.
    fn sink(&self, x: &mut [i64], mut j: usize, n: usize, before: &impl Fn(i64, i64) -> bool) {
        loop {
            let mut child = 2 * j + 1;
            if child >= n {
                return;
            }
            if child + 1 < n && before(x[self.at(child)], x[self.at(child + 1)]) {
                child += 1;
            }
            if !before(x[self.at(j)], x[self.at(child)]) {
                return;
            }
            x.swap(self.at(j), self.at(child));
            j = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{DType, prim::TopK};
    use std::vec::Vec;

    #[test]
    fn agrees_with_sorting() {
        let mut rng = Rng::new(80);
        for dims in [&[9][..], &[3, 40], &[5, 7, 3], &[2, 0]] {
            for axis in 0..dims.len() {
                for largest in [true, false] {
                    let n: usize = dims.iter().product();
                    let data: Vec<f32> =
                        (0..n).map(|_| if rng.below(20) == 0 { f32::NAN } else { rng.below(8) as f32 - 3.0 }).collect();
                    let (extent, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
                    let k = if extent == 0 { 0 } else { rng.below(extent + 1) };
                    let mut out = dims.to_vec();
                    out[axis] = k;
                    let src = Tensor::of(&data, dims).scattered(&mut rng);
                    let mut w = [Tensor::zeros(DType::F32, &out), Tensor::zeros(DType::I64, &out)];
                    let p = TopK { axis: axis as u8, largest, sorted: true };
                    run(&p.into(), &[Some(&src)], &mut w, None, Isa::Portable).unwrap();
                    let (values, places) = (w[0].to_vec::<f32>(), w[1].to_vec::<i64>());
                    for (i, (value, place)) in values.iter().zip(&places).enumerate() {
                        let (o, j, c) = (i / inner / k, i / inner % k, i % inner);
                        let line = |x: usize| data[(o * extent + x) * inner + c];
                        let mut order: Vec<usize> = (0..extent).collect();
                        let key = |x: usize| if line(x).is_nan() { f32::INFINITY } else { line(x) };
                        order.sort_by(
                            |a, b| if largest { key(*b).total_cmp(&key(*a)) } else { key(*a).total_cmp(&key(*b)) },
                        );
                        assert_eq!(*place as usize, order[j]);
                        assert_eq!(value.to_bits(), line(order[j]).to_bits());
                    }
                }
            }
        }
    }
}
