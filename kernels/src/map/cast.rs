//! Conversions between registers.

use super::{class::Class, memory};
use crate::{Isa, small_float};
use half::{bf16, f16};
use plan::{DType, prim::MapOp};

/// Conversion of a number to a register type: truncating and saturating from floats, wrapping from integers.
trait To<B> {
    fn to(self) -> B;
    /// Rounding and saturating.
    fn to_saturated(self) -> B;
}

macro_rules! int_to_int {
    ($($a:ty),*; $all:tt) => { $( int_to_int!(@one $a; $all); )* };
    (@one $a:ty; [$($b:ty),*]) => { $(
        impl To<$b> for $a {
            #[inline(always)]
            fn to(self) -> $b { self as $b }
            #[inline(always)]
            fn to_saturated(self) -> $b {
                <$b>::try_from(self).unwrap_or(if self > 0 { <$b>::MAX } else { <$b>::MIN })
            }
        }
    )* };
}
int_to_int!(i8, i16, i32, i64, u8, u16, u32, u64; [i8, i16, i32, i64, u8, u16, u32, u64]);

macro_rules! int_to_float {
    ($($a:ty),*) => { $(
        impl To<f32> for $a {
            #[inline(always)]
            fn to(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_saturated(self) -> f32 { self as f32 }
        }
        impl To<f64> for $a {
            #[inline(always)]
            fn to(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_saturated(self) -> f64 { self as f64 }
        }
    )* };
}
int_to_float!(i8, i16, i32, i64, u8, u16, u32, u64);

/// To the nearest integer, ties to even, without a branch that would keep loops from being vectorised: adding and taking away
/// a power of two rounds; numbers above it are integers already.
#[inline(always)]
fn round32(x: f32) -> f32 {
    let big = 8_388_608f32.copysign(x);
    if x.abs() < 8_388_608.0 { (x + big) - big } else { x }
}

/// As [`round32`].
#[inline(always)]
fn round64(x: f64) -> f64 {
    let big = 4_503_599_627_370_496f64.copysign(x);
    if x.abs() < 4_503_599_627_370_496.0 { (x + big) - big } else { x }
}

macro_rules! float_to_int {
    ($f:ty, $round:ident: $($b:ty),*) => { $(
        impl To<$b> for $f {
            #[inline(always)]
            fn to(self) -> $b { self as $b }
            #[inline(always)]
            fn to_saturated(self) -> $b { $round(self) as $b }
        }
    )* };
}
float_to_int!(f32, round32: i8, i16, i32, i64, u8, u16, u32, u64);
float_to_int!(f64, round64: i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float_to_float {
    ($($a:ty => $b:ty),*) => { $(
        impl To<$b> for $a {
            #[inline(always)]
            fn to(self) -> $b { self as $b }
            #[inline(always)]
            fn to_saturated(self) -> $b { self as $b }
        }
    )* };
}
float_to_float!(f32 => f32, f32 => f64, f64 => f32, f64 => f64);

/// Applies `f` to `n` elements in groups, so that loops are vectorised though input and output may be the same memory.
///
/// # Safety
/// `n` elements can be read and written; they are the same memory or do not overlap.
#[inline(always)]
pub(super) unsafe fn each<A: Copy, B: Copy>(a: *const u8, o: *mut u8, n: usize, f: impl Fn(A) -> B) {
    const GROUP: usize = 16;
    let (a, o) = (a.cast::<A>(), o.cast::<B>());
    let whole = n - n % GROUP;
    // SAFETY: groups end at `whole`, and the rest goes one by one.
    unsafe {
        let mut i = 0;
        while i < whole {
            let x = a.add(i).cast::<[A; GROUP]>().read();
            // Not an iterator over arrays, which would be compiled for each type.
            #[allow(clippy::needless_range_loop)]
            for k in 0..GROUP {
                o.add(i + k).write(f(x[k]));
            }
            i += GROUP;
        }
        while i < n {
            o.add(i).write(f(a.add(i).read()));
            i += 1;
        }
    }
}

/// # Safety
/// As [`each`].
unsafe fn to_class<A>(class: Class, saturate: bool, a: *const u8, o: *mut u8, n: usize)
where
    A: Copy + PartialEq + Default + To<f32> + To<f64> + To<i8> + To<i16> + To<i32> + To<i64>,
    A: To<u8> + To<u16> + To<u32> + To<u64>,
{
    macro_rules! to {
        ($b:ty) => {
            // SAFETY: passed on to the caller.
            unsafe {
                if saturate { each::<A, $b>(a, o, n, |x| x.to_saturated()) } else { each::<A, $b>(a, o, n, |x| x.to()) }
            }
        };
    }
    match class {
        Class::F32 => to!(f32),
        Class::F64 => to!(f64),
        Class::I8 => to!(i8),
        Class::I16 => to!(i16),
        Class::I32 => to!(i32),
        Class::I64 => to!(i64),
        Class::U8 => to!(u8),
        Class::U16 => to!(u16),
        Class::U32 => to!(u32),
        Class::U64 => to!(u64),
        // SAFETY: passed on to the caller.
        Class::Bool => unsafe { each::<A, u8>(a, o, n, |x| u8::from(x != A::default())) },
    }
}

/// Converts `n` values of a register from one element type to another.
///
/// # Safety
/// The registers hold values of the classes of the types and do not overlap, unless they are the same and of the same size; the
/// processor has `isa`.
pub(super) unsafe fn cast(isa: Isa, op: MapOp, from: DType, to: DType, a: *const u8, o: *mut u8, n: usize) {
    let (Some(have), Some(want)) = (Class::of(from), Class::of(to)) else { return };
    let saturate = op == MapOp::CastSaturate;
    // SAFETY: passed on to the caller.
    unsafe {
        match (from, to) {
            // Two roundings in a row may differ from one, so these do not go through f32.
            (DType::F64, DType::F16) => return each::<f64, f32>(a, o, n, |x| f16::from_f64(x).to_f32()),
            (DType::F64, DType::BF16) => return each::<f64, f32>(a, o, n, |x| bf16::from_f64(x).to_f32()),
            (DType::I64, DType::BF16) => return each::<i64, f32>(a, o, n, |x| bf16::from_f64(x as f64).to_f32()),
            (DType::U64, DType::BF16) => return each::<u64, f32>(a, o, n, |x| bf16::from_f64(x as f64).to_f32()),
            (DType::I32, DType::BF16) => return each::<i32, f32>(a, o, n, |x| bf16::from_f64(f64::from(x)).to_f32()),
            (DType::U32, DType::BF16) => return each::<u32, f32>(a, o, n, |x| bf16::from_f64(f64::from(x)).to_f32()),
            // To four and two bits: through a type that holds both ranges.
            (_, DType::I4 | DType::I2 | DType::U4 | DType::U2) => return cast_packed(op, have, to, a, o, n),
            _ => {}
        }
        match have {
            Class::F32 => to_class::<f32>(want, saturate, a, o, n),
            Class::F64 => to_class::<f64>(want, saturate, a, o, n),
            Class::I8 => to_class::<i8>(want, saturate, a, o, n),
            Class::I16 => to_class::<i16>(want, saturate, a, o, n),
            Class::I32 => to_class::<i32>(want, saturate, a, o, n),
            Class::I64 => to_class::<i64>(want, saturate, a, o, n),
            Class::U8 | Class::Bool => to_class::<u8>(want, saturate, a, o, n),
            Class::U16 => to_class::<u16>(want, saturate, a, o, n),
            Class::U32 => to_class::<u32>(want, saturate, a, o, n),
            Class::U64 => to_class::<u64>(want, saturate, a, o, n),
        }
        if want == Class::F32 && to != from {
            round_to(isa, to, op != MapOp::CastNoSaturate, o, n);
        }
    }
}

/// Rounds values held as f32 to what their element type can hold.
///
/// # Safety
/// `n` values can be read and written, and the processor has `isa`.
unsafe fn round_to(isa: Isa, dtype: DType, saturate: bool, o: *mut u8, n: usize) {
    // SAFETY: passed on to the caller.
    unsafe {
        match dtype {
            DType::F16 => {
                let mut room = [0u16; 64];
                let values = o.cast::<f32>();
                let mut i = 0;
                while i < n {
                    let k = (n - i).min(room.len());
                    memory::narrow_f16(isa, values.add(i), room.as_mut_ptr(), k);
                    memory::widen_f16(isa, room.as_ptr(), values.add(i), k);
                    i += k;
                }
            }
            DType::BF16 => {
                each::<f32, f32>(o, o, n, |x| f32::from_bits(u32::from(memory::bf16_bits(x)) << 16));
            }
            DType::F32 | DType::F64 => {}
            _ => each::<f32, f32>(o, o, n, |x| small_float::decode(dtype, small_float::encode(dtype, x, saturate))),
        }
    }
}

/// Casts to integers of fewer than eight bits, which registers hold as bytes.
///
/// # Safety
/// As [`cast`].
unsafe fn cast_packed(op: MapOp, have: Class, to: DType, a: *const u8, o: *mut u8, n: usize) {
    let bits = to.bits() as u32;
    let signed = to.is_signed_integer();
    let (low, high) = if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
    let clamp = |x: i64| x.clamp(low, high) as u8;
    let wrap = |x: i64| {
        let unused = 64 - bits;
        (if signed { (x << unused) >> unused } else { x & high }) as u8
    };
    let saturate = op == MapOp::CastSaturate;
    macro_rules! int {
        ($a:ty) => {
            // SAFETY: passed on to the caller.
            unsafe {
                if saturate {
                    each::<$a, u8>(a, o, n, |x| clamp(To::<i64>::to_saturated(x)))
                } else {
                    each::<$a, u8>(a, o, n, |x| wrap(x as i64))
                }
            }
        };
    }
    macro_rules! float {
        ($a:ty) => {
            // SAFETY: passed on to the caller.
            unsafe {
                if saturate {
                    each::<$a, u8>(a, o, n, |x| clamp(To::<i64>::to_saturated(x)))
                } else {
                    each::<$a, u8>(a, o, n, |x| clamp(x as i64))
                }
            }
        };
    }
    match have {
        Class::F32 => float!(f32),
        Class::F64 => float!(f64),
        Class::I8 => int!(i8),
        Class::I16 => int!(i16),
        Class::I32 => int!(i32),
        Class::I64 => int!(i64),
        Class::U8 | Class::Bool => int!(u8),
        Class::U16 => int!(u16),
        Class::U32 => int!(u32),
        Class::U64 => int!(u64),
    }
}
