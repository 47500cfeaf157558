//! What kernels need of element types beyond their bits, and the choice of a Rust type by [`DType`](plan::DType).

use crate::Element;
use core::cmp::Ordering;
use half::{bf16, f16};

/// A real number. Integers wrap; f16 and bf16 compute in f32.
pub(crate) trait Number: Element + PartialOrd {
    /// What sums and products are accumulated in.
    type Acc: Copy + PartialOrd;
    /// Neutral for sums.
    const ZERO: Self::Acc;
    /// Neutral for products.
    const ONE: Self::Acc;
    /// Neutral for maxima: negative infinity, or the least integer.
    const LOWEST: Self::Acc;
    /// Neutral for minima: infinity, or the greatest integer.
    const HIGHEST: Self::Acc;

    fn widen(self) -> Self::Acc;
    /// Rounds once.
    fn narrow(acc: Self::Acc) -> Self;
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn mul(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn abs(a: Self::Acc) -> Self::Acc;
    /// The sum over `n`; integers truncate, and nothing has the mean NaN or 0.
    fn mean(sum: Self::Acc, n: usize) -> Self::Acc;
    fn is_nan(self) -> bool;
    fn acc_is_nan(a: Self::Acc) -> bool;
    fn to_f64(a: Self::Acc) -> f64;
    /// To the nearest of floats; integers truncate and saturate.
    fn from_f64(x: f64) -> Self::Acc;
    /// Integers wrap.
    fn from_i64(x: i64) -> Self::Acc;
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Number for $t {
            type Acc = $t;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(acc: $t) -> $t { acc }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t { a.wrapping_add(b) }
            #[inline(always)]
            fn mul(a: $t, b: $t) -> $t { a.wrapping_mul(b) }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(a: $t) -> $t { if a < 0 { (0 as $t).wrapping_sub(a) } else { a } }
            fn mean(sum: $t, n: usize) -> $t {
                // A count beyond the type is larger than any sum.
                <$t>::try_from(n).ok().and_then(|n| sum.checked_div(n)).unwrap_or(0)
            }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
            #[inline(always)]
            fn acc_is_nan(_: $t) -> bool { false }
            fn to_f64(a: $t) -> f64 { a as f64 }
            fn from_f64(x: f64) -> $t { x as $t }
            fn from_i64(x: i64) -> $t { x as $t }
        }
    )* };
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($t:ty, $acc:ty, $widen:expr, $narrow:expr);*) => { $(
        impl Number for $t {
            type Acc = $acc;
            const ZERO: $acc = 0.0;
            const ONE: $acc = 1.0;
            const LOWEST: $acc = <$acc>::NEG_INFINITY;
            const HIGHEST: $acc = <$acc>::INFINITY;
            #[inline(always)]
            fn widen(self) -> $acc { $widen(self) }
            #[inline(always)]
            fn narrow(acc: $acc) -> $t { $narrow(acc) }
            #[inline(always)]
            fn add(a: $acc, b: $acc) -> $acc { a + b }
            #[inline(always)]
            fn mul(a: $acc, b: $acc) -> $acc { a * b }
            #[inline(always)]
            fn abs(a: $acc) -> $acc { a.abs() }
            fn mean(sum: $acc, n: usize) -> $acc { sum / n as $acc }
            #[inline(always)]
            fn is_nan(self) -> bool { <$t>::is_nan(self) }
            #[inline(always)]
            fn acc_is_nan(a: $acc) -> bool { a.is_nan() }
            fn to_f64(a: $acc) -> f64 { f64::from(a) }
            fn from_f64(x: f64) -> $acc { x as $acc }
            fn from_i64(x: i64) -> $acc { x as $acc }
        }
    )* };
}
floats!(f32, f32, |x| x, |x| x; f64, f64, |x| x, |x| x; f16, f32, f16::to_f32, f16::from_f32; bf16, f32, bf16::to_f32, bf16::from_f32);

/// An order of all numbers: NaNs are equal and greater than all others; -0 and 0 are equal.
#[inline(always)]
pub(crate) fn order<T: Number>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The lesser; NaN wins.
#[inline(always)]
pub(crate) fn least<T: Number>(a: T::Acc, b: T::Acc) -> T::Acc {
    if a < b || T::acc_is_nan(a) { a } else { b }
}

/// The greater; NaN wins.
#[inline(always)]
pub(crate) fn greatest<T: Number>(a: T::Acc, b: T::Acc) -> T::Acc {
    if a > b || T::acc_is_nan(a) { a } else { b }
}

/// `match_number!(dtype, T => body)`: `body` for the [`Number`] that stands for a type, or a [`Fault`](crate::Fault). Booleans are
/// `u8` where `bool` is given before the arrow: `match_number!(dtype, T or bool => body)`.
macro_rules! match_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            plan::DType::F32 => { type $T = f32; $body }
            plan::DType::F64 => { type $T = f64; $body }
            plan::DType::F16 => { type $T = half::f16; $body }
            plan::DType::BF16 => { type $T = half::bf16; $body }
            plan::DType::I8 => { type $T = i8; $body }
            plan::DType::I16 => { type $T = i16; $body }
            plan::DType::I32 => { type $T = i32; $body }
            plan::DType::I64 => { type $T = i64; $body }
            plan::DType::U8 => { type $T = u8; $body }
            plan::DType::U16 => { type $T = u16; $body }
            plan::DType::U32 => { type $T = u32; $body }
            plan::DType::U64 => { type $T = u64; $body }
            found => Err($crate::Fault::DType { found, wanted: "a number" }),
        }
    };
    ($dtype:expr, $T:ident or bool => $body:expr) => {
        match $dtype {
            plan::DType::Bool => { type $T = u8; $body }
            dtype => $crate::number::match_number!(dtype, $T => $body),
        }
    };
}
pub(crate) use match_number;

/// `match_bits!(dtype, T => body)`: `body` for the integer of the size of an element, or a [`Fault`](crate::Fault).
macro_rules! match_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.bits() {
            8 => {
                type $T = u8;
                $body
            }
            16 => {
                type $T = u16;
                $body
            }
            32 => {
                type $T = u32;
                $body
            }
            64 => {
                type $T = u64;
                $body
            }
            128 => {
                type $T = u128;
                $body
            }
            _ => Err($crate::Fault::DType { found: $dtype, wanted: "elements of whole bytes" }),
        }
    };
}
pub(crate) use match_bits;
