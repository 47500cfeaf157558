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

#[inline]
fn put<T>(data: &mut [T], i: usize, x: T) {
    if let Some(place) = data.get_mut(i) {
        *place = x;
    }
}
