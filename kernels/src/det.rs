//! Determinants, by elimination with partial pivoting in f64; error about `n` roundings of f64 times the condition.

use crate::{
    Call, Fault, Meta,
    real::{Reals, RealsMut},
};
use plan::prim::Det;

/// Runs [`Det`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn det(_p: &Det, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    let &[ref batch @ .., rows, n] = src.dims() else {
        return Err(Fault::Shape("a determinant needs two axes"));
    };
    if rows != n || batch != dst.dims() || src.dtype() != dst.dtype() {
        return Err(Fault::Shape("determinants are of square matrices, one for each"));
    }
    if !src.is_contiguous() {
        return Err(Fault::Strided);
    }
    let count = dst.len();
    let memory = call.take_workspace_of::<f64>(n * n)?;
    let (from, mut to) = (Reals::of(&src)?, RealsMut::of(&mut dst)?);
    for i in 0..count {
        memory.iter_mut().enumerate().for_each(|(j, x)| *x = from.get(i * n * n + j));
        to.set(i, determinant(memory, n));
    }
    Ok(())
}

/// Bytes of workspace: one matrix.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &Det, reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let Some(Some(src)) = reads.first() else { return Err(Fault::Missing { operand: 0 }) };
    let n = src.dims.last().copied().ok_or(Fault::Shape("a determinant needs two axes"))?;
    n.checked_mul(n).and_then(|x| x.checked_mul(size_of::<f64>())).ok_or(Fault::Extent)
}

/// The determinant of a matrix of `n` rows, which is eliminated.
fn determinant(mut matrix: &mut [f64], n: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..n {
        let mut pivot = 0;
        for (i, row) in matrix.chunks_exact(n).enumerate() {
            let at = |i: usize| matrix.get(i * n + column).map_or(0.0, |x| libm::fabs(*x));
            if row.get(column).is_some_and(|x| libm::fabs(*x) > at(pivot)) {
                pivot = i;
            }
        }
        if pivot != 0 {
            (0..n).for_each(|j| matrix.swap(j, pivot * n + j));
            product = -product;
        }
        // The first row is done with after this: what is left is smaller by a row each time.
        let (first, rest) = matrix.split_at_mut(n);
        let head = first.get(column).copied().unwrap_or(0.0);
        product *= head;
        if head == 0.0 {
            return product;
        }
        for row in rest.chunks_exact_mut(n) {
            let factor = row.get(column).map_or(0.0, |x| x / head);
            for (x, y) in row.iter_mut().zip(&*first).skip(column) {
                *x -= factor * y;
            }
        }
        matrix = rest;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::DType;
    use std::vec::Vec;

    /// By the first row, recursively.
    fn expanded(m: &[Vec<f64>]) -> f64 {
        let Some(first) = m.first() else { return 1.0 };
        let minor = |j: usize| -> Vec<Vec<f64>> {
            m[1..].iter().map(|r| r.iter().enumerate().filter(|(i, _)| *i != j).map(|(_, x)| *x).collect()).collect()
        };
        first.iter().enumerate().map(|(j, x)| if j % 2 == 0 { 1.0 } else { -1.0 } * x * expanded(&minor(j))).sum()
    }

    #[test]
    fn agrees_with_the_expansion() {
        let mut rng = Rng::new(13);
        for n in 0..7 {
            let data: Vec<f64> = (0..3 * n * n).map(|_| rng.below(7) as f64 - 3.0).collect();
            let mut out = [Tensor::zeros(DType::F64, &[3])];
            run(&Det {}.into(), &[Some(&Tensor::of(&data, &[3, n, n]))], &mut out, None, Isa::Portable).unwrap();
            for (i, found) in out[0].to_vec::<f64>().into_iter().enumerate() {
                let rows: Vec<Vec<f64>> = (0..n).map(|r| data[(i * n + r) * n..][..n].to_vec()).collect();
                let wanted = expanded(&rows);
                assert!((found - wanted).abs() < 1e-9 * (1.0 + wanted.abs()), "{n}: {found} {wanted}");
            }
        }
        let mut out = [Tensor::zeros(DType::F32, &[])];
        run(&Det {}.into(), &[Some(&Tensor::of(&[2f32, 1.0, 0.0, 3.0], &[2, 2]))], &mut out, None, Isa::Portable)
            .unwrap();
        assert_eq!(out[0].to_vec::<f32>(), [6.0]);
    }
}
