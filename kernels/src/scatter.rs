//! Putting updates where indices say.

use crate::{
    Call, Dst, Fault, Plain, Src,
    gather::Tuples,
    index::Indices,
    number::{Number, greatest, least, match_bits, match_number},
    walk::Walk,
};
use plan::{
    DType,
    prim::{Reduction, ScatterElements, ScatterNd},
};

/// Copies the data to the result, unless they are the same memory.
fn start(data: &Src<'_>, updates: &Src<'_>, dst: &mut Dst<'_>) -> Result<(), Fault> {
    for view in [data, updates] {
        if view.dtype() != dst.dtype() {
            return Err(Fault::DType { found: view.dtype(), wanted: dst.dtype().name() });
        }
    }
    if data.dims() != dst.dims() {
        return Err(Fault::Shape("data and result differ"));
    }
    if !data.is_shared() {
        dst.bytes()?.copy_from_slice(data.bytes()?);
    }
    Ok(())
}

/// Combines an update with what is there.
#[inline(always)]
fn combine<T: Number>(reduction: Reduction, old: T, new: T) -> T {
    match reduction {
        Reduction::None => new,
        Reduction::Add => T::narrow(T::add(old.widen(), new.widen())),
        Reduction::Mul => T::narrow(T::mul(old.widen(), new.widen())),
        Reduction::Min => T::narrow(least::<T>(old.widen(), new.widen())),
        Reduction::Max => T::narrow(greatest::<T>(old.widen(), new.widen())),
    }
}

/// As [`combine`] for booleans: a sum is "or", a product "and".
fn combine_bool(reduction: Reduction, old: u8, new: u8) -> u8 {
    match reduction {
        Reduction::None => new,
        Reduction::Add | Reduction::Max => u8::from((old | new) != 0),
        Reduction::Mul | Reduction::Min => u8::from(old != 0 && new != 0),
    }
}

/// Calls `elements` or `slices` below with the type and the function that the reduction needs.
macro_rules! reduced {
    ($f:ident, $reduction:expr, $dtype:expr, ($($arg:expr),*)) => {
        match ($reduction, $dtype) {
            (Reduction::None, dtype) => match_bits!(dtype, T => $f::<T>($($arg),*, |_, new| new)),
            (reduction, DType::Bool) => $f::<u8>($($arg),*, |old, new| combine_bool(reduction, old, new)),
            (reduction, dtype) => match_number!(dtype, T => $f::<T>($($arg),*, |old, new| combine::<T>(reduction, old, new))),
        }
    };
}

/// Runs [`ScatterElements`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or an index is out of range.
pub fn scatter_elements(p: &ScatterElements, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (data, indices, updates) = (call.src(0)?, Indices::of(call.src(1)?)?, call.src(2)?);
    let mut dst = call.dst(0)?;
    start(&data, &updates, &mut dst)?;
    let axis = usize::from(p.axis);
    if axis >= dst.dims().len() {
        return Err(Fault::Shape("the axis is not one of the data"));
    }
    let fits = indices.dims().iter().zip(dst.dims()).enumerate().all(|(a, (i, d))| a == axis || i <= d);
    if indices.dims() != updates.dims() || indices.dims().len() != dst.dims().len() || !fits {
        return Err(Fault::Shape("indices and updates differ, or exceed the data"));
    }
    reduced!(elements, p.reduction, updates.dtype(), (axis, &indices, &updates, &mut dst))
}

fn elements<T: Plain>(
    axis: usize,
    indices: &Indices<'_>,
    updates: &Src<'_>,
    dst: &mut Dst<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    let mut shape = *dst.shape();
    let (step, extent) = (shape.strides()[axis], shape.dims()[axis]);
    shape.set_stride(axis, 0);
    let walk = Walk::new(indices.dims(), [indices.strides(), shape.strides()]);
    let ([index_step, data_step], out) = (walk.row_strides(), dst.bits::<T>()?);
    let mut updates = updates.bits::<T>()?.iter();
    walk.rows(|[index_at, at]| {
        for (i, update) in updates.by_ref().take(walk.row()).enumerate() {
            let i = i as isize;
            // SAFETY: the offset is that of an index.
            let index = unsafe { indices.get(index_at + i * index_step, extent)? };
            let at = (at + i * data_step + index as isize * step) as usize;
            let place = out.get_mut(at).ok_or(Fault::OutOfBounds)?;
            *place = f(*place, *update);
        }
        Ok(())
    })
}

/// Runs [`ScatterNd`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or an index is out of range.
pub fn scatter_nd(p: &ScatterNd, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (data, index_view, updates) = (call.src(0)?, call.src(1)?, call.src(2)?);
    let indices = Indices::of(index_view)?;
    let mut dst = call.dst(0)?;
    if !index_view.is_contiguous() {
        return Err(Fault::Strided);
    }
    start(&data, &updates, &mut dst)?;
    let dims = *dst.shape();
    let tuples = Tuples::new(dims.dims(), indices.dims(), 0)?;
    if updates.len() != tuples.count.saturating_mul(tuples.inner) {
        return Err(Fault::Shape("updates and indices do not fit together"));
    }
    if updates.is_empty() {
        return Ok(());
    }
    reduced!(slices, p.reduction, updates.dtype(), (&tuples, &indices, &updates, &mut dst))
}

fn slices<T: Plain>(
    tuples: &Tuples<'_>,
    indices: &Indices<'_>,
    updates: &Src<'_>,
    dst: &mut Dst<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    let out = dst.bits::<T>()?;
    for (i, update) in updates.bits::<T>()?.chunks_exact(tuples.inner).enumerate() {
        // SAFETY: there are `count` tuples.
        let at = unsafe { tuples.place(indices, i)? };
        let places = out.get_mut(at..at + tuples.inner).ok_or(Fault::OutOfBounds)?;
        for (place, new) in places.iter_mut().zip(update) {
            *place = f(*place, *new);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{
        Fault, Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{
        DType,
        prim::{Reduction, ScatterElements, ScatterNd},
    };
    use std::vec::Vec;

    fn combine(reduction: Reduction, old: f32, new: f32) -> f32 {
        match reduction {
            Reduction::None => new,
            Reduction::Add => old + new,
            Reduction::Mul => old * new,
            Reduction::Min => old.min(new),
            Reduction::Max => old.max(new),
        }
    }

    const ALL: [Reduction; 5] = [Reduction::None, Reduction::Add, Reduction::Mul, Reduction::Min, Reduction::Max];

    #[test]
    fn elements_are_combined() {
        let mut rng = Rng::new(40);
        let (dims, index_dims) = ([3usize, 4, 5], [2usize, 4, 3]);
        for reduction in ALL {
            for axis in 0..3 {
                let data: Vec<f32> = (0..60).map(|_| rng.below(9) as f32).collect();
                let updates: Vec<f32> = (0..24).map(|_| rng.below(9) as f32).collect();
                let picks: Vec<i64> = (0..24).map(|_| rng.below(2 * dims[axis]) as i64 - dims[axis] as i64).collect();
                let mut want = data.clone();
                for (n, pick) in picks.iter().enumerate() {
                    let mut at = [n / 12, n / 3 % 4, n % 3];
                    at[axis] = pick.rem_euclid(dims[axis] as i64) as usize;
                    let at = at[0] * 20 + at[1] * 5 + at[2];
                    want[at] = combine(reduction, want[at], updates[n]);
                }
                let reads =
                    [Tensor::of(&data, &dims), Tensor::of(&picks, &index_dims), Tensor::of(&updates, &index_dims)];
                for shared in [None, Some(0)] {
                    let mut w = [if shared.is_some() { reads[0].clone() } else { Tensor::zeros(DType::F32, &dims) }];
                    let refs: Vec<_> = reads.iter().map(Some).collect();
                    run(&ScatterElements { axis: axis as u8, reduction }.into(), &refs, &mut w, shared, Isa::Portable)
                        .unwrap();
                    assert_eq!(w[0].to_vec::<f32>(), want, "{reduction:?} axis {axis}");
                }
            }
        }
    }

    #[test]
    fn slices_are_combined() {
        for reduction in ALL {
            let data: Vec<f32> = (0..12).map(|i| i as f32).collect();
            let reads = [
                Tensor::of(&data, &[2, 3, 2]),
                Tensor::of(&[1i64, -1, 0, 0, 1, 2], &[3, 2]),
                Tensor::of(&[9f32, 1.0, 2.0, 8.0, 3.0, 30.0], &[3, 2]),
            ];
            let mut want = data.clone();
            for (at, new) in [(10, 9.0), (11, 1.0), (0, 2.0), (1, 8.0), (10, 3.0), (11, 30.0)] {
                want[at] = combine(reduction, want[at], new);
            }
            for shared in [None, Some(0)] {
                let mut w = [if shared.is_some() { reads[0].clone() } else { Tensor::zeros(DType::F32, &[2, 3, 2]) }];
                let refs: Vec<_> = reads.iter().map(Some).collect();
                run(&ScatterNd { reduction }.into(), &refs, &mut w, shared, Isa::Portable).unwrap();
                assert_eq!(w[0].to_vec::<f32>(), want, "{reduction:?}");
            }
        }
    }

    #[test]
    fn other_types_and_bad_indices() {
        let reads = [Tensor::of(&[200u8, 1], &[2]), Tensor::of(&[0i32], &[1]), Tensor::of(&[100u8], &[1])];
        let refs: Vec<_> = reads.iter().map(Some).collect();
        let mut w = [Tensor::zeros(DType::U8, &[2])];
        let add = ScatterElements { axis: 0, reduction: Reduction::Add };
        run(&add.into(), &refs, &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<u8>(), [44, 1]);
        let bad = Tensor::of(&[2i32], &[1]);
        let got = run(&add.into(), &[refs[0], Some(&bad), refs[2]], &mut w, None, Isa::Portable);
        assert_eq!(got, Err(Fault::Index { index: 2, extent: 2 }));
        let reads = [
            Tensor::with_bits(DType::Bool, &[0u8, 1], &[2]),
            Tensor::of(&[0i64, 1], &[2]),
            Tensor::with_bits(DType::Bool, &[1u8, 0], &[2]),
        ];
        let refs: Vec<_> = reads.iter().map(Some).collect();
        let mut w = [Tensor::zeros(DType::Bool, &[2])];
        run(&add.into(), &refs, &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<u8>(), [1, 1]);
    }
}
