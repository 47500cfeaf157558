//! The product of matrices of bytes, where the columns of the right one lie side by side: four rows by `COLS` columns at a time, their
//! sums in registers.

use super::{Product, Strides, reference::Zeros};
use crate::{Fault, Isa, spatial::Work, spatial::with_isa};

/// Rows and columns that are summed together.
const ROWS: usize = 4;
const COLS: usize = 32;

/// Whether the product is one of those.
pub(super) fn supports(product: &Product<'_>) -> bool {
    product.b_at.col == 1 && product.bias.is_none() && product.residual.is_none()
}

/// One batch.
struct Matrices<'a, const A_SIGNED: bool, const B_SIGNED: bool> {
    product: &'a Product<'a>,
    a: &'a [u8],
    b: &'a [u8],
    /// The first elements of A and B.
    first: (usize, usize),
    zero_a: Option<Zeros<'a>>,
    zero_b: Option<Zeros<'a>>,
    /// Where the batch's zero points are.
    zeros_at: (isize, isize),
    c: &'a mut [i32],
}

/// Runs the product.
///
/// # Errors
/// When the operands are no bytes.
pub(super) fn run(
    isa: Isa,
    product: &Product<'_>,
    out: &mut [i32],
    (zero_a, zero_b): (Option<Zeros<'_>>, Option<Zeros<'_>>),
    signed: (bool, bool),
) -> Result<(), Fault> {
    let (a, b) = (product.a.span_bits::<u8>()?, product.b.span_bits::<u8>()?);
    let (a_0, b_0) = (product.a.origin(), product.b.origin());
    product.each_batch(|place| {
        let at = |zeros: &Option<Zeros<'_>>| zeros.map_or(0, |z| z.strides.offset(place));
        let c_at = product.c_at.offset(place).unsigned_abs();
        let size = product.size.m * product.size.n;
        let c = out.get_mut(c_at..).and_then(|c| c.get_mut(..size)).ok_or(Fault::OutOfBounds)?;
        let first =
            (a_0.wrapping_add_signed(product.a_at.offset(place)), b_0.wrapping_add_signed(product.b_at.offset(place)));
        let zeros_at = (at(&zero_a), at(&zero_b));
        macro_rules! with_signs {
            ($a:literal, $b:literal) => {
                with_isa(isa, Matrices::<$a, $b> { product, a, b, first, zero_a, zero_b, zeros_at, c })
            };
        }
        match signed {
            (false, false) => with_signs!(false, false),
            (false, true) => with_signs!(false, true),
            (true, false) => with_signs!(true, false),
            (true, true) => with_signs!(true, true),
        }
        Ok(())
    })
}

impl<const A_SIGNED: bool, const B_SIGNED: bool> Work for Matrices<'_, A_SIGNED, B_SIGNED> {
    #[inline(always)]
    fn run(mut self) {
        for row in (0..self.product.size.m).step_by(ROWS) {
            for col in (0..self.product.size.n).step_by(COLS) {
                self.tile(row, col);
            }
        }
    }
}

impl<const A_SIGNED: bool, const B_SIGNED: bool> Matrices<'_, A_SIGNED, B_SIGNED> {
    #[inline(always)]
    fn zero(zeros: &Option<Zeros<'_>>, batch: isize, i: usize, stride: fn(&Strides) -> isize) -> i32 {
        zeros.map_or(0, |z| z.get(batch.wrapping_add(stride(&z.strides).wrapping_mul(i as isize))))
    }

    /// The sums of up to `ROWS` by `COLS` results.
    #[inline(always)]
    fn tile(&mut self, row: usize, col: usize) {
        let p = self.product;
        let (rows, cols) = (ROWS.min(p.size.m - row), COLS.min(p.size.n - col));
        let mut sums = [[0i32; COLS]; ROWS];
        let zero_a: [i32; ROWS] = core::array::from_fn(|i| {
            if i < rows { Self::zero(&self.zero_a, self.zeros_at.0, row + i, |s| s.row) } else { 0 }
        });
        let zero_b: [i32; COLS] = core::array::from_fn(|j| {
            if j < cols { Self::zero(&self.zero_b, self.zeros_at.1, col + j, |s| s.col) } else { 0 }
        });
        let step = |s: isize, i: usize| s.wrapping_mul(i as isize);
        for x in 0..p.size.k {
            let from = self.first.1.wrapping_add_signed(step(p.b_at.row, x)).wrapping_add(col);
            let from = &self.b[from..from + cols];
            let mut right = [0u8; COLS];
            if let Ok(whole) = from.try_into() {
                right = whole;
            } else {
                right[..cols].copy_from_slice(from);
            }
            let right: [i32; COLS] = core::array::from_fn(|j| {
                let wide = if B_SIGNED { i32::from(right[j] as i8) } else { i32::from(right[j]) };
                wide.wrapping_sub(zero_b[j])
            });
            for (i, sums) in sums.iter_mut().enumerate().take(rows) {
                let at = step(p.a_at.row, row + i).wrapping_add(step(p.a_at.col, x));
                let left = self.a[self.first.0.wrapping_add_signed(at)];
                let left = if A_SIGNED { i32::from(left as i8) } else { i32::from(left) }.wrapping_sub(zero_a[i]);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = sum.wrapping_add(left.wrapping_mul(right));
                }
            }
        }
        for (i, sums) in sums.iter().enumerate().take(rows) {
            let at = (row + i) * p.size.n + col;
            self.c[at..at + cols].copy_from_slice(&sums[..cols]);
        }
    }
}
