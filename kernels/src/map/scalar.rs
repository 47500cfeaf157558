//! Instructions on registers of integers, booleans and f64, and the few on f32 that are not vector code.

use super::{cast::each, float::each2};
use crate::Fault;
use plan::prim::MapOp;

/// The arguments and the result of an instruction.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) a: [*const u8; 3],
    pub(super) o: *mut u8,
    pub(super) n: usize,
}

/// Whether any of `n` values is zero.
///
/// # Safety
/// They can be read.
unsafe fn any_zero<T: Copy + Default + PartialEq>(a: *const u8, n: usize) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { core::slice::from_raw_parts(a.cast::<T>(), n) }.contains(&T::default())
}

/// The power of an integer, wrapping; a negative power truncates.
macro_rules! int_pow {
    ($t:ty, $base:expr, $exponent:expr) => {{
        let (mut base, mut e, mut power): ($t, $t, $t) = ($base, $exponent, 1);
        #[allow(unused_comparisons)]
        if e < 0 {
            // 1 / base^|e|: only the bases 1 and -1 leave something.
            power = if base == 1 {
                1
            } else if base == (0 as $t).wrapping_sub(1) {
                if e & 1 == 0 { 1 } else { base }
            } else {
                0
            };
        } else {
            while e > 0 {
                if e & 1 == 1 {
                    power = power.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                e >>= 1;
            }
        }
        power
    }};
}

macro_rules! integer {
    ($name:ident, $t:ty, $u:ty) => {
        /// # Safety
        /// The registers that `op` has can be read and written; the output is one of the arguments or overlaps none.
        pub(super) unsafe fn $name(op: MapOp, r: Registers) -> Result<(), Fault> {
            type T = $t;
            let Registers { a: [a, b, c], o, n } = r;
            // SAFETY: passed on to the caller.
            unsafe {
                match op {
                    MapOp::Neg => each::<T, T>(a, o, n, |x| (0 as T).wrapping_sub(x)),
                    #[allow(unused_comparisons)]
                    MapOp::Abs => each::<T, T>(a, o, n, |x| if x < 0 { (0 as T).wrapping_sub(x) } else { x }),
                    #[allow(unused_comparisons)]
                    MapOp::Sign => {
                        each::<T, T>(a, o, n, |x| if x < 0 { (0 as T).wrapping_sub(1) } else { T::from(x > 0) })
                    }
                    MapOp::Relu => each::<T, T>(a, o, n, |x| x.max(0)),
                    MapOp::BitNot => each::<T, T>(a, o, n, |x| !x),
                    MapOp::Add => each2::<T, T>(a, b, o, n, T::wrapping_add),
                    MapOp::Sub => each2::<T, T>(a, b, o, n, T::wrapping_sub),
                    MapOp::Mul => each2::<T, T>(a, b, o, n, T::wrapping_mul),
                    MapOp::Div | MapOp::Mod | MapOp::Fmod if any_zero::<T>(b, n) => return Err(Fault::DivisionByZero),
                    MapOp::Div => each2::<T, T>(a, b, o, n, |x, y| x.checked_div(y).unwrap_or(x)),
                    MapOp::Fmod => each2::<T, T>(a, b, o, n, |x, y| x.checked_rem(y).unwrap_or(0)),
                    #[allow(unused_comparisons)]
                    MapOp::Mod => each2::<T, T>(a, b, o, n, |x, y| {
                        let rest = x.checked_rem(y).unwrap_or(0);
                        if rest != 0 && (rest < 0) != (y < 0) { rest.wrapping_add(y) } else { rest }
                    }),
                    MapOp::Pow => each2::<T, T>(a, b, o, n, |x, y| int_pow!($t, x, y)),
                    MapOp::Min => each2::<T, T>(a, b, o, n, T::min),
                    MapOp::Max => each2::<T, T>(a, b, o, n, T::max),
                    MapOp::BitAnd => each2::<T, T>(a, b, o, n, |x, y| x & y),
                    MapOp::BitOr => each2::<T, T>(a, b, o, n, |x, y| x | y),
                    MapOp::BitXor => each2::<T, T>(a, b, o, n, |x, y| x ^ y),
                    // A negative amount counts as too large.
                    MapOp::Shl => {
                        each2::<T, T>(
                            a,
                            b,
                            o,
                            n,
                            |x, y| {
                                if (y as $u) < T::BITS as $u { x.wrapping_shl(y as u32) } else { 0 }
                            },
                        )
                    }
                    MapOp::Shr => {
                        each2::<T, T>(a, b, o, n, |x, y| {
                            // Too large an amount leaves what fills from the left: the sign, or zeros.
                            if (y as $u) < T::BITS as $u {
                                x.wrapping_shr(y as u32)
                            } else {
                                x.wrapping_shr(T::BITS - 1).wrapping_shr(1)
                            }
                        })
                    }
                    MapOp::Eq => each2::<T, u8>(a, b, o, n, |x, y| u8::from(x == y)),
                    MapOp::Lt => each2::<T, u8>(a, b, o, n, |x, y| u8::from(x < y)),
                    MapOp::Le => each2::<T, u8>(a, b, o, n, |x, y| u8::from(x <= y)),
                    MapOp::Clip => {
                        let (x, low, high, o) = (a.cast::<T>(), b.cast::<T>(), c.cast::<T>(), o.cast::<T>());
                        for i in 0..n {
                            *o.add(i) = (*x.add(i)).max(*low.add(i)).min(*high.add(i));
                        }
                    }
                    _ => return Err(Fault::Unsupported("this operation on integers")),
                }
            }
            Ok(())
        }
    };
}
integer!(on_i8, i8, u8);
integer!(on_i16, i16, u16);
integer!(on_i32, i32, u32);
integer!(on_i64, i64, u64);
integer!(on_u8, u8, u8);
integer!(on_u16, u16, u16);
integer!(on_u32, u32, u32);
integer!(on_u64, u64, u64);

/// # Safety
/// As [`on_i8`].
pub(super) unsafe fn on_bool(op: MapOp, r: Registers) -> Result<(), Fault> {
    let Registers { a: [a, b, _], o, n } = r;
    // SAFETY: passed on to the caller.
    unsafe {
        match op {
            MapOp::Not => each::<u8, u8>(a, o, n, |x| u8::from(x == 0)),
            MapOp::And | MapOp::Mul | MapOp::Min | MapOp::BitAnd => {
                each2::<u8, u8>(a, b, o, n, |x, y| u8::from(x != 0) & u8::from(y != 0));
            }
            MapOp::Or | MapOp::Add | MapOp::Max | MapOp::BitOr => {
                each2::<u8, u8>(a, b, o, n, |x, y| u8::from((x | y) != 0));
            }
            MapOp::Xor | MapOp::BitXor => each2::<u8, u8>(a, b, o, n, |x, y| u8::from((x != 0) != (y != 0))),
            MapOp::Eq => each2::<u8, u8>(a, b, o, n, |x, y| u8::from((x != 0) == (y != 0))),
            MapOp::Lt => each2::<u8, u8>(a, b, o, n, |x, y| u8::from(x == 0 && y != 0)),
            MapOp::Le => each2::<u8, u8>(a, b, o, n, |x, y| u8::from(x == 0 || y != 0)),
            _ => return Err(Fault::Unsupported("this operation on booleans")),
        }
    }
    Ok(())
}

/// The remainder with the sign of the divisor.
fn floor_mod64(x: f64, y: f64) -> f64 {
    let rest = libm::fmod(x, y);
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
}

fn min64(x: f64, y: f64) -> f64 {
    if x.is_nan() || x < y { x } else { y }
}

fn max64(x: f64, y: f64) -> f64 {
    if x.is_nan() || x > y { x } else { y }
}

fn sigmoid64(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// `x * sigmoid(y)` without `-inf * 0`.
fn gated64(x: f64, y: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid64(y) }
}

/// # Safety
/// As [`on_i8`].
pub(super) unsafe fn on_f64(op: MapOp, r: Registers) -> Result<(), Fault> {
    type T = f64;
    let Registers { a: [a, b, c], o, n } = r;
    // SAFETY: passed on to the caller.
    unsafe {
        if unary64(op, r) {
            return Ok(());
        }
        match op {
            MapOp::IsNan => each::<T, u8>(a, o, n, |x| u8::from(x.is_nan())),
            MapOp::IsPosInf => each::<T, u8>(a, o, n, |x| u8::from(x == f64::INFINITY)),
            MapOp::IsNegInf => each::<T, u8>(a, o, n, |x| u8::from(x == f64::NEG_INFINITY)),
            MapOp::Add => each2::<T, T>(a, b, o, n, |x, y| x + y),
            MapOp::Sub => each2::<T, T>(a, b, o, n, |x, y| x - y),
            MapOp::Mul => each2::<T, T>(a, b, o, n, |x, y| x * y),
            MapOp::Div => each2::<T, T>(a, b, o, n, |x, y| x / y),
            MapOp::Mod => each2::<T, T>(a, b, o, n, floor_mod64),
            MapOp::Fmod => each2::<T, T>(a, b, o, n, libm::fmod),
            MapOp::Pow => each2::<T, T>(a, b, o, n, libm::pow),
            MapOp::Min => each2::<T, T>(a, b, o, n, min64),
            MapOp::Max => each2::<T, T>(a, b, o, n, max64),
            MapOp::Prelu => each2::<T, T>(a, b, o, n, |x, y| if x < 0.0 { x * y } else { x }),
            MapOp::Eq => each2::<T, u8>(a, b, o, n, |x, y| u8::from(x == y)),
            MapOp::Lt => each2::<T, u8>(a, b, o, n, |x, y| u8::from(x < y)),
            MapOp::Le => each2::<T, u8>(a, b, o, n, |x, y| u8::from(x <= y)),
            MapOp::Clip => {
                let (x, low, high, o) = (a.cast::<T>(), b.cast::<T>(), c.cast::<T>(), o.cast::<T>());
                for i in 0..n {
                    let (x, low, high) = (*x.add(i), *low.add(i), *high.add(i));
                    let x = if low > x { low } else { x };
                    *o.add(i) = if high < x { high } else { x };
                }
            }
            _ => return Err(Fault::Unsupported("this operation on f64")),
        }
    }
    Ok(())
}

/// The operations of one argument from f64 to f64; false for others.
///
/// # Safety
/// As [`on_i8`].
unsafe fn unary64(op: MapOp, r: Registers) -> bool {
    use core::f64::consts::FRAC_1_SQRT_2;
    let f: fn(f64) -> f64 = match op {
        MapOp::Neg => |x| -x,
        MapOp::Abs => f64::abs,
        MapOp::Sign => |x| if x == 0.0 || x.is_nan() { x } else { 1f64.copysign(x) },
        MapOp::Sqrt => libm::sqrt,
        MapOp::Reciprocal => |x| 1.0 / x,
        MapOp::Exp => libm::exp,
        MapOp::Log => libm::log,
        MapOp::Sin => libm::sin,
        MapOp::Cos => libm::cos,
        MapOp::Tan => libm::tan,
        MapOp::Asin => libm::asin,
        MapOp::Acos => libm::acos,
        MapOp::Atan => libm::atan,
        MapOp::Sinh => libm::sinh,
        MapOp::Cosh => libm::cosh,
        MapOp::Tanh => libm::tanh,
        MapOp::Asinh => libm::asinh,
        // The library gives numbers below the domain, too.
        MapOp::Acosh => |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
        MapOp::Atanh => libm::atanh,
        MapOp::Erf => libm::erf,
        MapOp::Sigmoid => sigmoid64,
        MapOp::Softplus => |x| max64(x, 0.0) + libm::log1p(libm::exp(-x.abs())),
        MapOp::Floor => libm::floor,
        MapOp::Ceil => libm::ceil,
        MapOp::Round => libm::rint,
        MapOp::Trunc => libm::trunc,
        MapOp::Relu => |x| max64(x, 0.0),
        MapOp::Silu => |x| gated64(x, x),
        MapOp::HardSwish => |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        MapOp::Gelu => |x| if x == f64::NEG_INFINITY { -0.0 } else { x * 0.5 * libm::erfc(-x * FRAC_1_SQRT_2) },
        MapOp::GeluTanh => |x| gated64(x, 1.595_769_121_605_730_7 * (x + 0.044_715 * x * x * x)),
        _ => return false,
    };
    // SAFETY: passed on to the caller.
    unsafe { each::<f64, f64>(r.a[0], r.o, r.n, f) }
    true
}

fn floor_mod32(x: f32, y: f32) -> f32 {
    let rest = libm::fmodf(x, y);
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
}

/// What f32 has beyond the vector code.
///
/// # Safety
/// As [`on_i8`].
pub(super) unsafe fn on_f32(op: MapOp, r: Registers) -> Result<(), Fault> {
    let Registers { a: [a, b, _], o, n } = r;
    // SAFETY: passed on to the caller.
    unsafe {
        match op {
            MapOp::Mod => each2::<f32, f32>(a, b, o, n, floor_mod32),
            MapOp::Fmod => each2::<f32, f32>(a, b, o, n, libm::fmodf),
            MapOp::Pow => {
                let exponents = core::slice::from_raw_parts(b.cast::<f32>(), n);
                // By far the most frequent power; the product is the correctly rounded result.
                if exponents.iter().all(|e| *e == 2.0) {
                    each::<f32, f32>(a, o, n, |x| x * x);
                } else {
                    each2::<f32, f32>(a, b, o, n, libm::powf);
                }
            }
            _ => return Err(Fault::Unsupported("this operation on floats")),
        }
    }
    Ok(())
}

/// `b` where `a` is true, else `c`.
///
/// # Safety
/// As [`on_i8`], for values of `T`; the output does not overlap the condition unless both are bytes.
pub(super) unsafe fn select<T: Copy>(r: Registers) {
    const GROUP: usize = 16;
    let ([a, b, c], o) = (r.a, r.o.cast::<T>());
    let (b, c) = (b.cast::<T>(), c.cast::<T>());
    let whole = r.n - r.n % GROUP;
    // SAFETY: groups end at `whole`, and the rest goes one by one.
    unsafe {
        let mut i = 0;
        while i < whole {
            let x = a.add(i).cast::<[u8; GROUP]>().read();
            let y = b.add(i).cast::<[T; GROUP]>().read();
            let z = c.add(i).cast::<[T; GROUP]>().read();
            // Not an iterator over arrays, which would be compiled for each type.
            #[allow(clippy::needless_range_loop)]
            for k in 0..GROUP {
                o.add(i + k).write(if x[k] != 0 { y[k] } else { z[k] });
            }
            i += GROUP;
        }
        while i < r.n {
            o.add(i).write(if *a.add(i) != 0 { b.add(i).read() } else { c.add(i).read() });
            i += 1;
        }
    }
}
