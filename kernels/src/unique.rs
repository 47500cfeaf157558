//! The distinct elements, or slices, of a tensor.
//!
//! NaNs are equal to each other and greater than all numbers. Results are planned with room for the most there can be; what is
//! beyond the count found is left as it was.

use crate::{
    Call, Fault, Meta,
    number::{Number, match_number, order},
};
use core::cmp::Ordering;
use plan::{DType, prim::Unique};

/// How the data falls into the things compared: `count` slices, each of `outer` pieces of `inner` elements.
#[derive(Clone, Copy)]
struct Layout {
    outer: usize,
    count: usize,
    inner: usize,
}

impl Layout {
    fn of(axis: Option<u8>, dims: &[usize]) -> Result<Layout, Fault> {
        let Some(axis) = axis.map(usize::from) else {
            return Ok(Layout { outer: 1, count: dims.iter().product(), inner: 1 });
        };
        let count = *dims.get(axis).ok_or(Fault::Shape("the axis is not one of the data"))?;
        Ok(Layout { outer: dims[..axis].iter().product(), count, inner: dims[axis + 1..].iter().product() })
    }

    /// Piece `o` of slice `i`.
    fn piece<'t, T>(&self, data: &'t [T], i: usize, o: usize) -> &'t [T] {
        data.get((o * self.count + i) * self.inner..).and_then(|d| d.get(..self.inner)).unwrap_or(&[])
    }

    fn compare<T: Number>(&self, data: &[T], a: usize, b: usize) -> Ordering {
        for o in 0..self.outer {
            for (x, y) in self.piece(data, a, o).iter().zip(self.piece(data, b, o)) {
                match order(*x, *y) {
                    Ordering::Equal => {}
                    other => return other,
                }
            }
        }
        Ordering::Equal
    }
}

/// Runs [`Unique`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or there are more than planned.
pub fn unique(p: &Unique, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    if src.dtype() != dst.dtype() {
        return Err(Fault::DType { found: dst.dtype(), wanted: src.dtype().name() });
    }
    let layout = Layout::of(p.axis, src.dims())?;
    let n = layout.count;
    let planned = match p.axis {
        None => dst.len(),
        Some(axis) => *dst.dims().get(usize::from(axis)).ok_or(Fault::Shape("the result has no such axis"))?,
    };
    let (mut first, mut inverse, mut counts) = (call.opt_dst(1), call.opt_dst(2), call.opt_dst(3));
    let (order, leader) =
        call.take_workspace_of::<u64>(n.saturating_mul(2))?.split_at_mut_checked(n).ok_or(Fault::Extent)?;
    let found = match_number!(match src.dtype() { DType::Bool => DType::U8, other => other }, T => {
        let data = src.bits::<T>()?;
        Ok(group(order, leader, p.sorted, |a, b| layout.compare(data, a, b)))
    })?;
    if found > planned {
        return Err(Fault::Capacity { needed: found, planned });
    }
    // From here on `order[..found]` is the first index of each group, and `leader[i]` the group of element `i`.
    let size = src.dtype().size().ok_or(Fault::DType { found: src.dtype(), wanted: "elements of whole bytes" })?;
    let (from, to) = (src.bytes()?, dst.bytes()?);
    let bytes = Layout { inner: layout.inner * size, ..layout };
    for o in 0..layout.outer {
        for (k, i) in order[..found].iter().enumerate() {
            let at = (o * planned + k) * bytes.inner;
            let here = to.get_mut(at..at + bytes.inner).ok_or(Fault::OutOfBounds)?;
            here.copy_from_slice(bytes.piece(from, *i as usize, o));
        }
    }
    if let Some(first) = &mut first {
        let out = first.slice::<i64>()?.get_mut(..found).ok_or(Fault::Shape("too few places for first indices"))?;
        for (o, i) in out.iter_mut().zip(&order[..found]) {
            *o = *i as i64;
        }
    }
    if let Some(inverse) = &mut inverse {
        let out = inverse.slice::<i64>()?.get_mut(..n).ok_or(Fault::Shape("too few places for inverse indices"))?;
        for (o, g) in out.iter_mut().zip(&*leader) {
            *o = *g as i64;
        }
    }
    if let Some(counts) = &mut counts {
        let out = counts.slice::<i64>()?.get_mut(..found).ok_or(Fault::Shape("too few places for counts"))?;
        out.fill(0);
        for g in &*leader {
            if let Some(count) = out.get_mut(*g as usize) {
                *count += 1;
            }
        }
    }
    call.define(0, found as i64);
    Ok(())
}

/// Groups equal elements. Leaves the first index of each group in `order`, the group of each element in `leader`, and gives the
/// number of groups.
fn group(order: &mut [u64], leader: &mut [u64], sorted: bool, compare: impl Fn(usize, usize) -> Ordering) -> usize {
    let n = order.len();
    for (i, o) in order.iter_mut().enumerate() {
        *o = i as u64;
    }
    order.sort_unstable_by(|a, b| compare(*a as usize, *b as usize).then(a.cmp(b)));
    // The first of each run of equals is the group's first index, as equals are in order of their index.
    let mut found = 0;
    let mut k = 0;
    while k < n {
        let head = order[k];
        let mut end = k;
        while end < n && (end == k || compare(head as usize, order[end] as usize) == Ordering::Equal) {
            leader[order[end] as usize] = if sorted { found as u64 } else { head };
            end += 1;
        }
        order[found] = head;
        found += 1;
        k = end;
    }
    if !sorted {
        // In order of first appearance: a group's head comes before its other members, so it is numbered before they ask.
        let mut next = 0;
        for i in 0..n {
            let head = leader[i] as usize;
            if head == i {
                order[next] = i as u64;
                leader[i] = next as u64;
                next += 1;
            } else {
                leader[i] = leader[head];
            }
        }
    }
    found
}

/// Bytes of workspace: two indices for each element or slice.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &Unique, reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let src = reads.first().copied().flatten().ok_or(Fault::Missing { operand: 0 })?;
    Layout::of(p.axis, &src.dims)?.count.checked_mul(16).ok_or(Fault::Extent)
}

#[cfg(test)]
mod tests {
    use crate::{
        Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{DType, prim::Unique};
    use std::{vec, vec::Vec};

    /// Values, first indices, inverse indices and counts of slices.
    fn slow(slices: &[Vec<i32>], sorted: bool) -> (Vec<Vec<i32>>, Vec<i64>, Vec<i64>, Vec<i64>) {
        let mut values: Vec<Vec<i32>> = Vec::new();
        for s in slices {
            if !values.contains(s) {
                values.push(s.clone());
            }
        }
        if sorted {
            values.sort();
        }
        let first = values.iter().map(|v| slices.iter().position(|s| s == v).unwrap() as i64).collect();
        let inverse = slices.iter().map(|s| values.iter().position(|v| s == v).unwrap() as i64).collect();
        let counts = values.iter().map(|v| slices.iter().filter(|s| *s == v).count() as i64).collect();
        (values, first, inverse, counts)
    }

    #[test]
    fn agrees_with_comparing_all() {
        let mut rng = Rng::new(90);
        for dims in [&[12][..], &[6, 2], &[2, 5, 2], &[0]] {
            for axis in (0..dims.len()).map(Some).chain([None]) {
                for sorted in [true, false] {
                    let n: usize = dims.iter().product();
                    let data: Vec<i32> = (0..n).map(|_| rng.below(3) as i32 - 1).collect();
                    let (outer, count, inner) = match axis {
                        None => (1, n, 1),
                        Some(a) => (dims[..a].iter().product(), dims[a], dims[a + 1..].iter().product::<usize>()),
                    };
                    let at = |i: usize, o: usize, k: usize| data[(o * count + i) * inner + k];
                    let slices: Vec<Vec<i32>> = (0..count)
                        .map(|i| {
                            (0..outer).flat_map(|o| (0..inner).map(move |k| (o, k))).map(|(o, k)| at(i, o, k)).collect()
                        })
                        .collect();
                    let (values, first, inverse, counts) = slow(&slices, sorted);
                    let out = if axis.is_some() { dims.to_vec() } else { vec![n] };
                    let mut w = vec![Tensor::zeros(DType::I32, &out)];
                    w.extend((0..3).map(|_| Tensor::zeros(DType::I64, &[count])));
                    let p = Unique { axis: axis.map(|a| a as u8), sorted };
                    let found = run(&p.into(), &[Some(&Tensor::of(&data, dims))], &mut w, None, Isa::Portable).unwrap();
                    assert_eq!(found[0] as usize, values.len());
                    let got = w[0].to_vec::<i32>();
                    for (k, value) in values.iter().enumerate() {
                        for (x, want) in value.iter().enumerate() {
                            let (o, c) = (x / inner, x % inner);
                            assert_eq!(got[(o * count + k) * inner + c], *want, "{dims:?} {axis:?}");
                        }
                    }
                    for (got, want) in w[1..].iter().zip([first, inverse, counts]) {
                        assert_eq!(got.to_vec::<i64>()[..want.len()], want[..]);
                    }
                }
            }
        }
    }

    #[test]
    fn nan_is_one_value() {
        let src = Tensor::of(&[f32::NAN, 1.0, f32::NAN, -0.0, 0.0], &[5]);
        let mut w = [Tensor::zeros(DType::F32, &[5])];
        let found =
            run(&Unique { axis: None, sorted: true }.into(), &[Some(&src)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(found[0], 3);
        assert!(w[0].to_vec::<f32>()[2].is_nan());
    }
}
