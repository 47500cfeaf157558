//! Choosing elements by their values: how many there are is known only then.
//!
//! Results have room for the largest count; what is beyond the count found is left alone.

use crate::{Call, Fault, Src, number::Number, number::match_number};
use plan::{
    DType, MAX_RANK,
    prim::{Compress, NonZero},
};

/// Runs [`NonZero`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or there are more elements than planned.
pub fn non_zero(_p: &NonZero, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, dst) = (call.src(0)?, call.dst(0)?);
    let [rank, planned] = dst.dims() else { return Err(Fault::Shape("NonZero gives a matrix")) };
    if dst.dtype() != DType::I64 {
        return Err(Fault::DType { found: dst.dtype(), wanted: "i64" });
    }
    if *rank != src.dims().len() || src.is_shared() {
        return Err(Fault::Shape("NonZero gives a row for each axis"));
    }
    let out = Places { to: dst.as_ptr().cast(), strides: [dst.strides()[0], dst.strides()[1]], planned: *planned };
    let count = match_number!(src.dtype(), T or bool => find::<T>(&src, &out))?;
    call.define(0, count as i64);
    Ok(())
}

/// Where indices go.
struct Places {
    to: *mut i64,
    strides: [isize; 2],
    planned: usize,
}

fn find<T: Number>(src: &Src<'_>, out: &Places) -> Result<usize, Fault> {
    let dims = src.dims();
    let from = src.as_ptr().cast_const().cast::<T>();
    let last = dims.len().saturating_sub(1);
    let (outer, row) = (dims.get(..last).unwrap_or(&[]), dims.get(last).copied().unwrap_or(1));
    let step = src.strides().get(last).copied().unwrap_or(0);
    if src.is_empty() {
        return Ok(0);
    }
    let (mut index, mut count) = ([0i64; MAX_RANK], 0usize);
    loop {
        let mut at = 0;
        for (i, s) in index.iter().zip(&src.strides()[..last]) {
            at += *i as isize * s;
        }
        for i in 0..row {
            // SAFETY: `index` and `i` are within the dims of the view, whose type is `T`.
            let value = unsafe { *from.offset(at + i as isize * step) };
            if value == T::default() {
                continue;
            }
            if count < out.planned && !dims.is_empty() {
                index[last] = i as i64;
                for (axis, i) in index.iter().enumerate().take(last + 1) {
                    // SAFETY: there is a row for each axis, and `count` is within it.
                    unsafe { *out.to.offset(axis as isize * out.strides[0] + count as isize * out.strides[1]) = *i };
                }
            }
            count += 1;
        }
        index[last] = 0;
        let mut axis = last;
        loop {
            if axis == 0 {
                let planned = out.planned;
                return if count > planned { Err(Fault::Capacity { needed: count, planned }) } else { Ok(count) };
            }
            axis -= 1;
            index[axis] += 1;
            if (index[axis] as usize) < outer[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Runs [`Compress`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or there are more elements than planned.
pub fn compress(p: &Compress, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, condition, mut dst) = (call.src(0)?, call.src(1)?, call.dst(0)?);
    if src.dtype() != dst.dtype() {
        return Err(Fault::DType { found: src.dtype(), wanted: dst.dtype().name() });
    }
    if condition.dtype() != DType::Bool {
        return Err(Fault::DType { found: condition.dtype(), wanted: "bool" });
    }
    let keep = condition.bits::<u8>()?;
    let (outer, extent, inner, planned) = match p.axis {
        None => (1, src.len(), 1, dst.len()),
        Some(axis) => {
            let axis = usize::from(axis);
            let dims = src.dims();
            let (Some(extent), true) = (dims.get(axis), dims.len() == dst.dims().len()) else {
                return Err(Fault::Shape("the axis is not one of the data"));
            };
            if dims[..axis] != dst.dims()[..axis] || dims[axis + 1..] != dst.dims()[axis + 1..] {
                return Err(Fault::Shape("other axes of Compress stay"));
            }
            (dims[..axis].iter().product(), *extent, dims[axis + 1..].iter().product::<usize>(), dst.dims()[axis])
        }
    };
    if keep.len() > extent {
        return Err(Fault::Shape("more conditions than elements"));
    }
    let count = keep.iter().filter(|k| **k != 0).count();
    if count > planned {
        return Err(Fault::Capacity { needed: count, planned });
    }
    let size = src.dtype().size().ok_or(Fault::DType { found: src.dtype(), wanted: "elements of whole bytes" })?;
    let (row, from) = (inner * size, src.bytes()?);
    let out = dst.bytes()?;
    for o in 0..outer {
        for (k, i) in keep.iter().enumerate().filter(|(_, k)| **k != 0).map(|(i, _)| i).enumerate() {
            let (at, to) = ((o * extent + i) * row, (o * planned + k) * row);
            let here = out.get_mut(to..to + row).ok_or(Fault::OutOfBounds)?;
            here.copy_from_slice(from.get(at..at + row).ok_or(Fault::OutOfBounds)?);
        }
    }
    call.define(0, count as i64);
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
        prim::{Compress, NonZero},
    };
    use std::{vec, vec::Vec};

    #[test]
    fn indices_of_what_is_not_zero() {
        let mut rng = Rng::new(60);
        for dims in [&[7][..], &[3, 4], &[2, 3, 5], &[0, 3]] {
            let n: usize = dims.iter().product();
            let data: Vec<f32> = (0..n).map(|_| rng.below(2) as f32 * -1.5).collect();
            let mut want: Vec<Vec<i64>> = vec![Vec::new(); dims.len()];
            for (flat, _) in data.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                let mut rest = flat;
                for a in (0..dims.len()).rev() {
                    want[a].push((rest % dims[a]) as i64);
                    rest /= dims[a];
                }
            }
            let src = Tensor::of(&data, dims).scattered(&mut rng);
            let mut w = [Tensor::zeros(DType::I64, &[dims.len(), n])];
            let found = run(&NonZero {}.into(), &[Some(&src)], &mut w, None, Isa::Portable).unwrap();
            assert_eq!(found[0] as usize, want[0].len());
            for (a, want) in want.iter().enumerate() {
                assert_eq!(w[0].to_vec::<i64>()[a * n..][..want.len()], want[..]);
            }
        }
        let src = Tensor::with_bits(DType::Bool, &[1u8, 0, 1], &[3]);
        let mut w = [Tensor::zeros(DType::I64, &[1, 1])];
        let got = run(&NonZero {}.into(), &[Some(&src)], &mut w, None, Isa::Portable);
        assert_eq!(got, Err(Fault::Capacity { needed: 2, planned: 1 }));
    }

    #[test]
    fn slices_that_are_wanted() {
        let src = Tensor::of(&[1i16, 2, 3, 4, 5, 6], &[2, 3]);
        let keep = Tensor::with_bits(DType::Bool, &[0u8, 1, 1], &[3]);
        let mut w = [Tensor::zeros(DType::I16, &[2, 3])];
        let found =
            run(&Compress { axis: Some(1) }.into(), &[Some(&src), Some(&keep)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!((found[0], w[0].to_vec::<i16>()), (2, vec![2, 3, 0, 5, 6, 0]));
        let mut w = [Tensor::zeros(DType::I16, &[6])];
        let found =
            run(&Compress { axis: None }.into(), &[Some(&src), Some(&keep)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!((found[0], &w[0].to_vec::<i16>()[..2]), (2, &[2, 3][..]));
    }
}
