//! Matrix products of every type but f32, by their definition. f16 and bf16 accumulate in f32, and the sum is
//! rounded before a residual is added or an activation applied, as operators of their own would see it; integers wrap.

use super::{Product, Strides, activate};
use crate::{Call, Dst, Element, Fault, Src, activation};
use half::{bf16, f16};
use plan::{
    DType,
    prim::{Activation, ActivationKind, MatMul},
};

/// Columns summed side by side.
const TILE: usize = 16;

/// A type to sum in.
trait Sum: Copy + Default {
    /// `self + x * y`
    fn mac(self, x: Self, y: Self) -> Self;
    /// `self + x`
    fn plus(self, x: Self) -> Self;
}

macro_rules! sums {
    ($($t:ty: |$s:ident, $x:ident, $y:ident| $mac:expr, $plus:expr;)*) => { $(
        impl Sum for $t {
            #[inline(always)]
            fn mac(self, $x: Self, $y: Self) -> Self { let $s = self; $mac }
            #[inline(always)]
            fn plus(self, $x: Self) -> Self { let $s = self; $plus }
        }
    )* };
}
sums! {
    f32: |s, x, y| s + x * y, s + x;
    f64: |s, x, y| s + x * y, s + x;
    i32: |s, x, y| s.wrapping_add(x.wrapping_mul(y)), s.wrapping_add(x);
    i64: |s, x, y| s.wrapping_add(x.wrapping_mul(y)), s.wrapping_add(x);
    u32: |s, x, y| s.wrapping_add(x.wrapping_mul(y)), s.wrapping_add(x);
    u64: |s, x, y| s.wrapping_add(x.wrapping_mul(y)), s.wrapping_add(x);
}

/// Runs the product.
pub(super) fn run(p: &MatMul, call: &Call<'_, '_>, product: &Product<'_>, dst: &mut Dst<'_>) -> Result<(), Fault> {
    let (act, identity) = (&p.activation, p.activation.kind == ActivationKind::Identity);
    let unlike = Err(Fault::DType { found: product.b.dtype(), wanted: "the type of the other matrix" });
    match (product.a.dtype(), product.b.dtype(), dst.dtype()) {
        (a @ (DType::I8 | DType::U8), b @ (DType::I8 | DType::U8), DType::I32) if identity => {
            let zero_a = zeros(call.opt_src(4), product.a.dims(), a, 1)?;
            let zero_b = zeros(call.opt_src(5), product.b.dims(), b, 0)?;
            let signed = (a == DType::I8, b == DType::I8);
            match super::bytes::supports(product) {
                true => super::bytes::run(call.isa(), product, dst.slice()?, (zero_a, zero_b), signed),
                false => quantised(product, dst, zero_a, zero_b),
            }
        }
        (a, b, _) if a != b => unlike,
        (DType::F64, ..) => {
            floats(product, dst, |x: f64| x, |x| if identity { x } else { activate::scalar(act, x) }, |x| x)
        }
        (DType::F16, ..) => {
            let round = |x| f16::from_f32(x).to_f32();
            floats(product, dst, f16::to_f32, |x| f16::from_f32(apply(act, x, round)), round)
        }
        (DType::BF16, ..) => {
            let round = |x| bf16::from_f32(x).to_f32();
            floats(product, dst, bf16::to_f32, |x| bf16::from_f32(apply(act, x, round)), round)
        }
        _ if !identity => Err(Fault::Unsupported("an activation of integers")),
        (DType::I32, ..) => floats(product, dst, |x: i32| x, |x| x, |x| x),
        (DType::I64, ..) => floats(product, dst, |x: i64| x, |x| x, |x| x),
        (DType::U32, ..) => floats(product, dst, |x: u32| x, |x| x, |x| x),
        (DType::U64, ..) => floats(product, dst, |x: u64| x, |x| x, |x| x),
        (found, ..) => Err(Fault::DType { found, wanted: "a number type" }),
    }
}

/// An activation of what the product alone would have stored.
fn apply(activation: &Activation, x: f32, round: impl Fn(f32) -> f32) -> f32 {
    if activation.kind == ActivationKind::Identity { x } else { activation::scalar(activation, round(x)) }
}

/// The product of matrices of one type.
fn floats<T: Element, S: Sum>(
    product: &Product<'_>,
    dst: &mut Dst<'_>,
    load: impl Fn(T) -> S,
    store: impl Fn(S) -> T,
    round: impl Fn(S) -> S,
) -> Result<(), Fault> {
    let (a, b) = (product.a.span::<T>()?, product.b.span::<T>()?);
    let (a_0, b_0) = (product.a.origin(), product.b.origin());
    let left = |at: isize, _: usize, _: isize| load(a[a_0.wrapping_add_signed(at)]);
    let right = |at: isize, _: usize, _: isize| load(b[b_0.wrapping_add_signed(at)]);
    loops(product, dst, left, right, (&load, store, round), (None, None))
}

/// A zero point for each row or column, or one for all: bytes, strides and the value of a byte.
#[derive(Clone, Copy)]
pub(super) struct Zeros<'a> {
    data: &'a [u8],
    origin: usize,
    pub strides: Strides,
    signed: bool,
}

impl Zeros<'_> {
    /// The one at this distance from the first.
    #[inline(always)]
    pub fn get(&self, at: isize) -> i32 {
        widen(self.data[self.origin.wrapping_add_signed(at)], self.signed)
    }
}

/// The zero points of an operand of 8 bits: one, one for each of the last axis but `from_end`, or dims that broadcast to
/// those of the operand.
fn zeros<'a>(src: Option<Src<'a>>, dims: &[usize], dtype: DType, from_end: usize) -> Result<Option<Zeros<'a>>, Fault> {
    let Some(src) = src else { return Ok(None) };
    let wrong = Fault::Shape("zero points are neither one nor one for each row or column");
    if src.dtype() != dtype {
        return Err(Fault::DType { found: src.dtype(), wanted: "the type of the matrix" });
    }
    let mut strides = Strides::default();
    let extent = dims.iter().rev().nth(from_end).copied().ok_or(wrong)?;
    if src.dims().len() == 1 && src.dims().first() == Some(&extent) {
        let stride = src.strides().first().copied().unwrap_or(0);
        strides.row = stride;
        strides.col = stride;
    } else if src.len() != 1 {
        let shift = dims.len().checked_sub(src.dims().len()).ok_or(wrong)?;
        let mut aligned = [0isize; plan::MAX_RANK];
        for (i, (d, s)) in src.dims().iter().zip(src.strides()).enumerate() {
            let (to, whole) = (aligned.get_mut(shift + i).ok_or(wrong)?, dims.get(shift + i).ok_or(wrong)?);
            match *d == *whole {
                true => *to = *s,
                false if *d == 1 => {}
                false => return Err(wrong),
            }
        }
        strides = Strides::of(aligned.get(..dims.len()).ok_or(wrong)?).ok_or(wrong)?;
        // Only along rows for the left matrix, along columns for the right one.
        let across = if from_end == 1 { &mut strides.col } else { &mut strides.row };
        if *across != 0 && dims.iter().rev().nth(1 - from_end).is_some_and(|d| *d > 1) {
            return Err(wrong);
        }
    }
    let signed = dtype == DType::I8;
    Ok(Some(Zeros { data: src.span_bits::<u8>()?, origin: src.origin(), strides, signed }))
}

/// A byte as a number.
#[inline(always)]
fn widen(x: u8, signed: bool) -> i32 {
    if signed { i32::from(x as i8) } else { i32::from(x) }
}

/// The product of bytes.
fn quantised(
    product: &Product<'_>,
    dst: &mut Dst<'_>,
    zero_a: Option<Zeros<'_>>,
    zero_b: Option<Zeros<'_>>,
) -> Result<(), Fault> {
    let (a, b) = (product.a.span_bits::<u8>()?, product.b.span_bits::<u8>()?);
    let (a_0, b_0) = (product.a.origin(), product.b.origin());
    let (a_signed, b_signed) = (product.a.dtype() == DType::I8, product.b.dtype() == DType::I8);
    let zero = |zeros: &Option<Zeros<'_>>, i: usize, stride: fn(&Strides) -> isize, batch: isize| match zeros {
        Some(z) => {
            let at = batch.wrapping_add(stride(&z.strides).wrapping_mul(i as isize));
            z.get(at)
        }
        None => 0,
    };
    let left = |at: isize, row: usize, batch: isize| {
        widen(a[a_0.wrapping_add_signed(at)], a_signed).wrapping_sub(zero(&zero_a, row, |s| s.row, batch))
    };
    let right = |at: isize, col: usize, batch: isize| {
        widen(b[b_0.wrapping_add_signed(at)], b_signed).wrapping_sub(zero(&zero_b, col, |s| s.col, batch))
    };
    let batches = (zero_a.map(|z| z.strides), zero_b.map(|z| z.strides));
    loops(product, dst, left, right, (&|x: i32| x, |x| x, |x| x), batches)
}

/// The three loops. `left` and `right` read elements of A and B by offset, row or column, and offset of the batch's zero points.
fn loops<T: Element, S: Sum>(
    product: &Product<'_>,
    dst: &mut Dst<'_>,
    left: impl Fn(isize, usize, isize) -> S,
    right: impl Fn(isize, usize, isize) -> S,
    (load, store, round): (&impl Fn(T) -> S, impl Fn(S) -> T, impl Fn(S) -> S),
    zeros: (Option<Strides>, Option<Strides>),
) -> Result<(), Fault> {
    let bias = product.bias.map(|s| Ok((s.span::<T>()?, s.origin()))).transpose()?;
    let in_place = product.residual.is_some_and(|r| r.is_shared());
    let residual = product.residual.filter(|r| !r.is_shared());
    let residual = residual.map(|s| Ok((s.span::<T>()?, s.origin()))).transpose()?;
    let out = dst.slice::<T>()?;
    let step = |s: isize, i: usize| s.wrapping_mul(i as isize);
    product.each_batch(|place| {
        let (a_at, b_at, c_at) = (product.a_at.offset(place), product.b_at.offset(place), product.c_at.offset(place));
        let (bias_at, residual_at) = (product.bias_at.offset(place), product.residual_at.offset(place));
        let zeros = (zeros.0.map_or(0, |z| z.offset(place)), zeros.1.map_or(0, |z| z.offset(place)));
        for i in 0..product.size.m {
            let a_row = a_at.wrapping_add(step(product.a_at.row, i));
            for first in (0..product.size.n).step_by(TILE) {
                let cols = (product.size.n - first).min(TILE);
                let mut sums = [S::default(); TILE];
                for x in 0..product.size.k {
                    let l = left(a_row.wrapping_add(step(product.a_at.col, x)), i, zeros.0);
                    let b_row = b_at.wrapping_add(step(product.b_at.row, x));
                    for (j, sum) in sums.iter_mut().enumerate().take(cols) {
                        let col = first + j;
                        *sum = sum.mac(l, right(b_row.wrapping_add(step(product.b_at.col, col)), col, zeros.1));
                    }
                }
                for (j, sum) in sums.into_iter().enumerate().take(cols) {
                    let col = first + j;
                    let read = |(data, origin): (&[T], usize), s: &Strides, at: isize| {
                        let at = at.wrapping_add(step(s.row, i)).wrapping_add(step(s.col, col));
                        load(data[origin.wrapping_add_signed(at)])
                    };
                    let at = c_at.wrapping_add(step(product.c_at.row, i)).unsigned_abs() + col;
                    let place = out.get_mut(at).ok_or(Fault::OutOfBounds)?;
                    let sum = bias.map_or(sum, |b| sum.plus(read(b, &product.bias_at, bias_at)));
                    let sum = residual.map_or(sum, |r| round(sum).plus(read(r, &product.residual_at, residual_at)));
                    *place = store(if in_place { round(sum).plus(load(*place)) } else { sum });
                }
            }
        }
        Ok(())
    })
}
