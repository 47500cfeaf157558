//! Tensors made of extents.

use crate::{Call, Element, Fault, number::Number, number::match_number};
use plan::{
    DType,
    prim::{Iota, Literal},
};

/// Runs [`Iota`]. Element `i` is `start + i * step` with one multiplication and one addition, so errors do not pile up.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn iota(p: &Iota<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (start, step, mut dst) = (call.opt_src(0), call.opt_src(1), call.dst(0)?);
    let extent = |i: usize| p.range.get(i).copied();
    match_number!(dst.dtype(), T => {
        let of = |given: Option<crate::Src<'_>>, i: usize, default: i64| -> Result<T, Fault> {
            match given {
                Some(s) => s.slice::<T>()?.first().copied().ok_or(Fault::Shape("an empty scalar")),
                None => Ok(T::narrow(T::from_i64(extent(i).unwrap_or(default)))),
            }
        };
        fill(of(start, 0, 0)?, of(step, 1, 1)?, dst.slice::<T>()?);
        Ok(())
    })
}

fn fill<T: Number + Element>(start: T, step: T, out: &mut [T]) {
    let (start, step) = (start.widen(), step.widen());
    for (i, o) in out.iter_mut().enumerate() {
        *o = T::narrow(T::add(start, T::mul(T::from_i64(i as i64), step)));
    }
}

/// Runs [`Literal`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn literal(p: &Literal<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let mut dst = call.dst(0)?;
    if dst.len() != p.elements.len() {
        return Err(Fault::Shape("as many elements as the result has"));
    }
    if dst.dtype() == DType::Bool {
        for (o, x) in dst.bits::<u8>()?.iter_mut().zip(p.elements.iter()) {
            *o = u8::from(*x != 0);
        }
        return Ok(());
    }
    match_number!(dst.dtype(), T => {
        for (o, x) in dst.slice::<T>()?.iter_mut().zip(p.elements.iter()) {
            *o = T::narrow(T::from_i64(*x));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        Isa,
        testing::{Tensor, run},
    };
    use plan::{
        DType, List,
        prim::{Iota, Literal},
    };

    #[test]
    fn ranges() {
        let p = Iota { range: List::of([2, 3]) };
        let mut w = [Tensor::zeros(DType::I64, &[3])];
        run(&p.into(), &[], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<i64>(), [2, 5, 8]);
        let (start, step) = (Tensor::of(&[1.5f32], &[]), Tensor::of(&[-0.5f32], &[]));
        let mut w = [Tensor::zeros(DType::F32, &[4])];
        run(&p.into(), &[Some(&start), Some(&step)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<f32>(), [1.5, 1.0, 0.5, 0.0]);
        let mut w = [Tensor::zeros(DType::I16, &[0])];
        run(&p.into(), &[], &mut w, None, Isa::Portable).unwrap();
    }

    #[test]
    fn literals() {
        let p = Literal { elements: List::of([7, -1, 0]) };
        let mut w = [Tensor::zeros(DType::I32, &[3])];
        run(&p.into(), &[], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<i32>(), [7, -1, 0]);
        let mut w = [Tensor::zeros(DType::Bool, &[3])];
        run(&p.into(), &[], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<u8>(), [1, 1, 0]);
        let mut w = [Tensor::zeros(DType::I32, &[2])];
        assert!(run(&p.into(), &[], &mut w, None, Isa::Portable).is_err());
    }
}
