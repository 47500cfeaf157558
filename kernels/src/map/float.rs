//! Instructions on f32 registers, as vectors.

use super::cast::each;
use crate::{
    simd::{Simd, isa_fn, lanes1, lanes2, lanes3},
    vecmath,
};
use plan::prim::MapOp;

/// Runs `op` on `n` values; false where it is not an operation from f32 to f32.
///
/// # Safety
/// The arguments that `op` has can be read, `o` can be written and is one of them or overlaps none, and the processor has `S`.
#[inline(always)]
unsafe fn arithmetic_on<S: Simd>(op: MapOp, a: [*const f32; 3], o: *mut f32, n: usize) -> bool {
    macro_rules! one {
        (|$x:ident| $f:expr) => {
            lanes1!(S, n, a[0], o, |$x| $f)
        };
    }
    macro_rules! scalar {
        ($f:expr) => {
            each::<f32, f32>(a[0].cast(), o.cast(), n, $f)
        };
    }
    // SAFETY: passed on to the caller, who knows the processor to have `S`.
    unsafe {
        let (zero, unit) = (S::splat(0.0), S::splat(1.0));
        match op {
            MapOp::Neg => one!(|x| S::neg(x)),
            MapOp::Abs => one!(|x| S::abs(x)),
            MapOp::Sign => one!(|x| {
                let one = S::copysign(unit, x);
                S::blend(S::unordered(x, x), x, S::blend(S::eq(x, zero), zero, one))
            }),
            MapOp::Sqrt => one!(|x| S::sqrt(x)),
            MapOp::Reciprocal => one!(|x| S::div(unit, x)),
            MapOp::Exp => one!(|x| vecmath::exp::<S>(x)),
            MapOp::Log => one!(|x| vecmath::log::<S>(x)),
            MapOp::Tanh => one!(|x| vecmath::tanh::<S>(x)),
            MapOp::Erf => one!(|x| vecmath::erf::<S>(x)),
            MapOp::Sigmoid => one!(|x| vecmath::sigmoid::<S>(x)),
            MapOp::Softplus => one!(|x| vecmath::softplus::<S>(x)),
            MapOp::Silu => one!(|x| vecmath::silu::<S>(x)),
            MapOp::Gelu => one!(|x| vecmath::gelu::<S>(x)),
            MapOp::GeluTanh => one!(|x| vecmath::gelu_tanh::<S>(x)),
            MapOp::Sin => scalar!(libm::sinf),
            MapOp::Cos => scalar!(libm::cosf),
            MapOp::Tan => scalar!(libm::tanf),
            MapOp::Asin => scalar!(libm::asinf),
            MapOp::Acos => scalar!(libm::acosf),
            MapOp::Atan => scalar!(libm::atanf),
            MapOp::Sinh => scalar!(libm::sinhf),
            MapOp::Cosh => scalar!(libm::coshf),
            MapOp::Asinh => scalar!(libm::asinhf),
            // The library gives numbers below the domain, too.
            MapOp::Acosh => scalar!(|x| if x < 1.0 { f32::NAN } else { libm::acoshf(x) }),
            MapOp::Atanh => scalar!(libm::atanhf),
            MapOp::Floor => one!(|x| S::floor(x)),
            MapOp::Ceil => one!(|x| S::ceil(x)),
            MapOp::Round => one!(|x| S::round(x)),
            MapOp::Trunc => one!(|x| S::trunc(x)),
            // `min` and `max` give their second argument where either is NaN, so the data comes second.
            MapOp::Relu => one!(|x| S::max(zero, x)),
            MapOp::HardSwish => one!(|x| {
                let gate = S::add(S::div(x, S::splat(6.0)), S::splat(0.5));
                S::mul(x, S::max(zero, S::min(unit, gate)))
            }),
            _ => return binary_on::<S>(op, a, o, n),
        }
    }
    true
}

/// The operations of [`arithmetic_on`] with more than one argument.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn binary_on<S: Simd>(op: MapOp, a: [*const f32; 3], o: *mut f32, n: usize) -> bool {
    macro_rules! two {
        (|$x:ident, $y:ident| $f:expr) => {
            lanes2!(S, n, a[0], a[1], o, |$x, $y| $f)
        };
    }
    // SAFETY: passed on to the caller, who knows the processor to have `S`.
    unsafe {
        let zero = S::splat(0.0);
        match op {
            MapOp::Add => two!(|x, y| S::add(x, y)),
            MapOp::Sub => two!(|x, y| S::sub(x, y)),
            MapOp::Mul => two!(|x, y| S::mul(x, y)),
            MapOp::Div => two!(|x, y| S::div(x, y)),
            // A NaN in `x` stays by the order of arguments, one in `y` by the choice.
            MapOp::Min => two!(|x, y| S::blend(S::unordered(y, y), y, S::min(y, x))),
            MapOp::Max => two!(|x, y| S::blend(S::unordered(y, y), y, S::max(y, x))),
            MapOp::Prelu => two!(|x, y| S::blend(S::lt(x, zero), S::mul(x, y), x)),
            MapOp::Clip => lanes3::<S>(n, a, o, |x, low, high| S::min(high, S::max(low, x))),
            _ => return false,
        }
    }
    true
}

/// As [`arithmetic_on`], for operations that give booleans.
///
/// # Safety
/// As there; `o` overlaps no argument.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)]
unsafe fn compare_on<S: Simd>(op: MapOp, a: [*const f32; 3], o: *mut u8, n: usize) -> bool {
    // The body is compiled with the instructions of `S`: the loops are vectorised with them.
    // SAFETY: passed on to the caller.
    unsafe {
        match op {
            MapOp::IsNan => each::<f32, u8>(a[0].cast(), o, n, |x| u8::from(x.is_nan())),
            MapOp::IsPosInf => each::<f32, u8>(a[0].cast(), o, n, |x| u8::from(x == f32::INFINITY)),
            MapOp::IsNegInf => each::<f32, u8>(a[0].cast(), o, n, |x| u8::from(x == f32::NEG_INFINITY)),
            MapOp::Eq => each2::<f32, u8>(a[0].cast(), a[1].cast(), o, n, |x, y| u8::from(x == y)),
            MapOp::Lt => each2::<f32, u8>(a[0].cast(), a[1].cast(), o, n, |x, y| u8::from(x < y)),
            MapOp::Le => each2::<f32, u8>(a[0].cast(), a[1].cast(), o, n, |x, y| u8::from(x <= y)),
            _ => return false,
        }
    }
    true
}

isa_fn! {
    /// Runs `op` on `n` values; false where it is not an operation from f32 to f32.
    ///
    /// # Safety
    /// The arguments that `op` has can be read, `o` can be written and is one of them or overlaps none, and the processor has
    /// `isa`.
    pub(super) unsafe fn arithmetic(op: MapOp, a: [*const f32; 3], o: *mut f32, n: usize) -> bool = arithmetic_on;
    /// As [`arithmetic`], for operations that give booleans.
    ///
    /// # Safety
    /// As there; `o` overlaps no argument.
    pub(super) unsafe fn compare(op: MapOp, a: [*const f32; 3], o: *mut u8, n: usize) -> bool = compare_on;
}

/// As [`each`], of two arguments.
///
/// # Safety
/// `n` elements can be read and written; the output is the memory of an argument of the same size, or overlaps none.
#[inline(always)]
pub(super) unsafe fn each2<A: Copy, B: Copy>(a: *const u8, b: *const u8, o: *mut u8, n: usize, f: impl Fn(A, A) -> B) {
    const GROUP: usize = 16;
    let (a, b, o) = (a.cast::<A>(), b.cast::<A>(), o.cast::<B>());
    let whole = n - n % GROUP;
    // SAFETY: groups end at `whole`, and the rest goes one by one.
    unsafe {
        let mut i = 0;
        while i < whole {
            let x = a.add(i).cast::<[A; GROUP]>().read();
            let y = b.add(i).cast::<[A; GROUP]>().read();
            // Not an iterator over arrays, which would be compiled for each type.
            #[allow(clippy::needless_range_loop)]
            for k in 0..GROUP {
                o.add(i + k).write(f(x[k], y[k]));
            }
            i += GROUP;
        }
        while i < n {
            o.add(i).write(f(a.add(i).read(), b.add(i).read()));
            i += 1;
        }
    }
}
