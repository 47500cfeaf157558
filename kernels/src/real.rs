//! Floating-point operands of any type, read and written as f64: for kernels at reference level.

use crate::{Dst, Fault, Src};
use half::{bf16, f16};
use plan::DType;

const WANTED: &str = "a floating-point type";

/// The memory of a read.
#[derive(Clone, Copy)]
pub(crate) enum Reals<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
}

impl<'a> Reals<'a> {
    /// The span of a view.
    pub(crate) fn of(src: &Src<'a>) -> Result<Self, Fault> {
        Ok(match src.dtype() {
            DType::F32 => Reals::F32(src.span()?),
            DType::F64 => Reals::F64(src.span()?),
            DType::F16 => Reals::F16(src.span()?),
            DType::BF16 => Reals::BF16(src.span()?),
            found => return Err(Fault::DType { found, wanted: WANTED }),
        })
    }

    /// An element; NaN outside.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> f64 {
        match self {
            Reals::F32(data) => data.get(i).copied().map(f64::from),
            Reals::F64(data) => data.get(i).copied(),
            Reals::F16(data) => data.get(i).map(|x| x.to_f64()),
            Reals::BF16(data) => data.get(i).map(|x| x.to_f64()),
        }
        .unwrap_or(f64::NAN)
    }
}

/// The memory of a write.
pub(crate) enum RealsMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    F16(&'a mut [f16]),
    BF16(&'a mut [bf16]),
}

impl<'a> RealsMut<'a> {
    /// The elements of a contiguous view.
    pub(crate) fn of(dst: &'a mut Dst<'_>) -> Result<Self, Fault> {
        Ok(match dst.dtype() {
            DType::F32 => RealsMut::F32(dst.slice()?),
            DType::F64 => RealsMut::F64(dst.slice()?),
            DType::F16 => RealsMut::F16(dst.slice()?),
            DType::BF16 => RealsMut::BF16(dst.slice()?),
            found => return Err(Fault::DType { found, wanted: WANTED }),
        })
    }

    /// An element; NaN outside.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> f64 {
        match self {
            RealsMut::F32(data) => Reals::F32(data),
            RealsMut::F64(data) => Reals::F64(data),
            RealsMut::F16(data) => Reals::F16(data),
            RealsMut::BF16(data) => Reals::BF16(data),
        }
        .get(i)
    }

    /// Rounds a number to an element; nothing outside.
    #[inline]
    pub(crate) fn set(&mut self, i: usize, x: f64) {
        match self {
            RealsMut::F32(data) => put(data, i, x as f32),
            RealsMut::F64(data) => put(data, i, x),
            RealsMut::F16(data) => put(data, i, f16::from_f64(x)),
            RealsMut::BF16(data) => put(data, i, bf16::from_f64(x)),
        }
    }
}

/// A number as one of a type: what it is after it was stored.
#[inline]
pub(crate) fn rounded(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::BF16 => bf16::from_f64(x).to_f64(),
        _ => x,
    }
}

/// Terms of a block of a [`Total`].
const BLOCK: u32 = 8;

/// A sum of numbers of a type, rounded to it, as operators of ONNX that have a sum inside see it. The reference implementation, whose
/// results the standard's cases hold to the last bit, sums bf16 in bf16, and all other types more precisely than they are. Here
/// only blocks of a few terms are summed in bf16 and then put together in f64: a long sum would stand still where its terms fall
/// below its last place. Error: at most eight roundings.
pub(crate) struct Total {
    dtype: DType,
    terms: u32,
    block: f64,
    blocks: f64,
}

impl Total {
    /// Of nothing.
    pub(crate) fn new(dtype: DType) -> Self {
        Total { dtype, terms: 0, block: 0.0, blocks: 0.0 }
    }

    /// One term more.
    #[inline]
    pub(crate) fn add(&mut self, x: f64) {
        if self.dtype != DType::BF16 {
            self.blocks += x;
            return;
        }
        self.block = rounded(DType::BF16, self.block + x);
        self.terms += 1;
        if self.terms == BLOCK {
            self.blocks += self.block;
            (self.terms, self.block) = (0, 0.0);
        }
    }

    /// The sum.
    pub(crate) fn get(&self) -> f64 {
        rounded(self.dtype, self.blocks + self.block)
    }
}

#[inline]
fn put<T>(data: &mut [T], i: usize, x: T) {
    if let Some(place) = data.get_mut(i) {
        *place = x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_round_in_their_type() {
        let sum = |dtype: DType, n: u32, x: f64| {
            let mut total = Total::new(dtype);
            (0..n).for_each(|_| total.add(x));
            total.get()
        };
        // Three times this has a bit too many for bf16, and is rounded before the fourth comes.
        let x = 0.2001953125;
        let by_hand = (0..7).fold(0.0, |sum: f64, _| rounded(DType::BF16, sum + x));
        assert_eq!(sum(DType::BF16, 7, x), by_hand);
        assert_ne!(by_hand, rounded(DType::BF16, 7.0 * x));
        assert_eq!(sum(DType::F16, 7, x), rounded(DType::F16, 7.0 * x));
        assert_eq!(sum(DType::F64, 1000, 0.5), 500.0);
        // Long sums do not stand still where a term falls below the last place.
        for n in [255, 256, 1000, 4096, 50_000] {
            let off = sum(DType::BF16, n, 1.0) / f64::from(n) - 1.0;
            assert!(off.abs() < 0.01, "{n}: {off}");
        }
        assert_eq!(sum(DType::BF16, 0, 1.0), 0.0);
    }
}
