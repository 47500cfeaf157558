//! Transcendental functions of f32 on vectors.
//!
//! They use multiplications and additions but no fused ones, so every instruction set gives the same bits, and a fused loop the
//! same as single operations. Bounds are for all inputs and are tested: relative ones in units in the last place of the result
//! (ulp), absolute ones where a difference near zero cannot be resolved in f32. NaN gives NaN everywhere. The polynomials are
//! Chebyshev fits of the functions named beside them.

// The coefficients are written with the digits of the fit, which say how exact it is.
#![allow(clippy::excessive_precision)]

use crate::simd::{Simd, isa_fn, lanes1};

/// Horner's rule, the highest coefficient first.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
unsafe fn poly<S: Simd, const N: usize>(x: S::V, coefficients: [f32; N]) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let mut sum = S::splat(coefficients[0]);
        let mut i = 1;
        while i < N {
            sum = S::add(S::mul(sum, x), S::splat(coefficients[i]));
            i += 1;
        }
        sum
    }
}

/// `2^n` for `n` in -126..=127.
#[inline(always)]
unsafe fn pow2<S: Simd>(n: S::I) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe { S::from_bits(S::shl::<23>(S::iadd(n, S::isplat(127)))) }
}

/// `e^x`; error at most 1.5 ulp, also where the result is subnormal.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        // Beyond these the result is infinite or zero; the order of arguments keeps NaN.
        let x = S::max(S::splat(-104.0), S::min(S::splat(89.0), x));
        let n = S::round(S::mul(x, S::splat(core::f32::consts::LOG2_E)));
        // ln 2 in two parts; the first has 10 bits, so its product with `n` is exact.
        let r = S::sub(x, S::mul(n, S::splat(0.693_359_375)));
        let r = S::add(r, S::mul(n, S::splat(2.121_944_4e-4)));
        // (e^r - 1 - r) / r^2
        let p = poly::<S, 5>(r, [0.001_392_632_6, 0.008_363_293, 0.041_666_554, 0.166_665_76, 0.5]);
        let y = S::add(S::add(S::mul(S::mul(r, r), p), r), S::splat(1.0));
        // 2^n in two factors, so that neither overflows nor is subnormal.
        let n = S::to_int(n);
        let half = S::shr::<1>(n);
        S::mul(S::mul(y, pow2::<S>(half)), pow2::<S>(S::isub(n, half)))
    }
}

/// The natural logarithm; error at most 1.5 ulp. Negative numbers give NaN, zero negative infinity.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn log<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let zero = S::splat(0.0);
        let tiny = S::lt(x, S::splat(f32::MIN_POSITIVE));
        let scaled = S::blend(tiny, S::mul(x, S::splat(33_554_432.0)), x);
        let shift = S::blend(tiny, S::splat(25.0), zero);
        // x = 2^e * m with m in sqrt(1/2)..sqrt(2)
        let bits = S::isub(S::to_bits(scaled), S::isplat(0x3f35_04f3));
        let e = S::sub(S::from_int(S::shr::<23>(bits)), shift);
        let m = S::from_bits(S::iadd(S::iand(bits, S::isplat(0x007f_ffff)), S::isplat(0x3f35_04f3)));
        let f = S::sub(m, S::splat(1.0));
        // (ln(1 + f) - f + f^2 / 2) / f^3
        let p = poly::<S, 9>(
            f,
            [
                0.069_716_115,
                -0.114_797_34,
                0.116_854_2,
                -0.124_256_87,
                0.142_490_58,
                -0.166_678_02,
                0.200_007_16,
                -0.249_999_97,
                0.333_333_31,
            ],
        );
        let f2 = S::mul(f, f);
        let low = S::sub(S::mul(S::mul(f2, f), p), S::mul(e, S::splat(2.121_944_4e-4)));
        let y = S::add(S::sub(low, S::mul(S::splat(0.5), f2)), f);
        let y = S::add(y, S::mul(e, S::splat(0.693_359_375)));
        let y = S::blend(S::eq(x, S::splat(f32::INFINITY)), x, y);
        let y = S::blend(S::eq(x, zero), S::splat(f32::NEG_INFINITY), y);
        S::blend(S::le(zero, x), y, S::splat(f32::NAN))
    }
}

/// `ln(1 + e)` for `e >= 0`; error at most 2 ulp.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
unsafe fn log1p_positive<S: Simd>(e: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let u = S::add(e, S::splat(1.0));
        // What rounding `1 + e` lost, to first order.
        let lost = S::div(S::sub(e, S::sub(u, S::splat(1.0))), u);
        let y = S::add(log::<S>(u), lost);
        S::blend(S::lt(e, S::splat(1e-7)), e, S::blend(S::eq(u, S::splat(f32::INFINITY)), u, y))
    }
}

/// Error at most 2 ulp.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let z = S::mul(x, x);
        // (tanh(x) / x - 1) / z in z = x^2
        let p =
            poly::<S, 6>(z, [0.002_269_501_7, -0.008_323_187, 0.021_762_503, -0.053_958_46, 0.133_333, -0.333_333_33]);
        let small = S::add(x, S::mul(x, S::mul(z, p)));
        let a = S::abs(x);
        let e = exp::<S>(S::add(a, a));
        let large = S::sub(S::splat(1.0), S::div(S::splat(2.0), S::add(e, S::splat(1.0))));
        S::blend(S::lt(a, S::splat(0.625)), small, S::copysign(large, x))
    }
}

/// `1 / (1 + e^-x)`; error at most 2.5 ulp while the result is a normal number, below that absolute, less than 1e-44.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        // e^-|x| never overflows; 1 - s would cancel, so the numerator is chosen by the sign.
        let e = exp::<S>(S::neg(S::abs(x)));
        let one = S::splat(1.0);
        S::div(S::blend(S::lt(x, S::splat(0.0)), e, one), S::add(one, e))
    }
}

/// The error function; error at most 2 ulp.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn erf<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let z = S::mul(x, x);
        // erf(x) / x - 1 in z = x^2
        let p = poly::<S, 7>(
            z,
            [8.204_17e-5, -8.102_915_6e-4, 0.005_197_487_2, -0.026_857_96, 0.112_836_69, -0.376_126_32, 0.128_379_17],
        );
        let small = S::add(x, S::mul(x, p));
        // ln(erfc(a)); from 4 on erf is 1 in f32. The order of arguments keeps NaN.
        let a = S::min(S::splat(4.0), S::abs(x));
        let q = poly::<S, 9>(
            a,
            [
                1.643_063_7e-6,
                -4.616_386e-5,
                5.975_857_7e-4,
                -0.004_762_626,
                0.026_427_638,
                -0.110_087_17,
                -0.631_823_9,
                -1.130_231,
                3.185_396_6e-4,
            ],
        );
        let large = S::sub(S::splat(1.0), exp::<S>(q));
        S::blend(S::lt(a, S::splat(0.921_875)), small, S::copysign(large, x))
    }
}

/// `x * sigmoid(x)`; error at most 3 ulp from -87 up, below that absolute, less than 3e-43. Negative infinity gives -0.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn silu<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller. The clamp keeps -inf * 0 from being NaN.
    unsafe { S::mul(S::max(S::splat(-1e30), x), sigmoid::<S>(x)) }
}

/// `x / 2 * (1 + erf(x / sqrt 2))`; error at most 3e-7 * max(1, |x|).
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn gelu<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller. The clamp keeps -inf * 0 from being NaN.
    unsafe {
        let e = erf::<S>(S::mul(x, S::splat(core::f32::consts::FRAC_1_SQRT_2)));
        let half = S::mul(S::max(S::splat(-1e30), x), S::splat(0.5));
        S::mul(half, S::add(S::splat(1.0), e))
    }
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`; error at most 3e-7 * max(1, |x|).
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn gelu_tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller. The clamp keeps -inf * 0 from being NaN.
    unsafe {
        let cubed = S::mul(S::mul(x, x), S::mul(x, S::splat(0.044_715)));
        // (1 + tanh(u)) / 2 is sigmoid(2 u)
        let u = S::mul(S::splat(1.595_769_1), S::add(x, cubed));
        S::mul(S::max(S::splat(-1e30), x), sigmoid::<S>(u))
    }
}

/// `ln(1 + e^x)`; error at most 3 ulp while the result is a normal number.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn softplus<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let small = log1p_positive::<S>(exp::<S>(S::neg(S::abs(x))));
        S::add(small, S::max(S::splat(0.0), x))
    }
}

/// The functions of this module, for [`apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Function {
    Exp,
    Log,
    Tanh,
    Sigmoid,
    Erf,
    Silu,
    Gelu,
    GeluTanh,
    Softplus,
}

/// Applies a function to `n` elements; `o` may be `a`.
///
/// # Safety
/// `n` elements can be read and written there, and the processor has `S`.
#[inline(always)]
unsafe fn apply_raw<S: Simd>(function: Function, a: *const f32, o: *mut f32, n: usize) {
    // SAFETY: passed on to the caller.
    unsafe {
        match function {
            Function::Exp => lanes1!(S, n, a, o, |x| exp::<S>(x)),
            Function::Log => lanes1!(S, n, a, o, |x| log::<S>(x)),
            Function::Tanh => lanes1!(S, n, a, o, |x| tanh::<S>(x)),
            Function::Sigmoid => lanes1!(S, n, a, o, |x| sigmoid::<S>(x)),
            Function::Erf => lanes1!(S, n, a, o, |x| erf::<S>(x)),
            Function::Silu => lanes1!(S, n, a, o, |x| silu::<S>(x)),
            Function::Gelu => lanes1!(S, n, a, o, |x| gelu::<S>(x)),
            Function::GeluTanh => lanes1!(S, n, a, o, |x| gelu_tanh::<S>(x)),
            Function::Softplus => lanes1!(S, n, a, o, |x| softplus::<S>(x)),
        }
    }
}

isa_fn! {
    /// `o[i] = function(a[i])` for `n` elements; `o` may be `a`.
    ///
    /// # Safety
    /// `n` elements can be read and written there, and the processor has `isa`.
    pub unsafe fn apply_ptr(function: Function, a: *const f32, o: *mut f32, n: usize) = apply_raw;
}

/// Applies a function to every element.
///
/// `isa` must not be above [`Isa::detect`](crate::Isa::detect), as everywhere in this crate.
pub fn apply(function: Function, isa: crate::Isa, row: &mut [f32]) {
    // SAFETY: the slice is valid for its length.
    unsafe { apply_ptr(isa, function, row.as_ptr(), row.as_mut_ptr(), row.len()) }
}

#[cfg(test)]
mod tests {
    use super::{Function, apply};
    use crate::Isa;
    use std::vec::Vec;

    fn reference(f: Function, x: f64) -> f64 {
        match f {
            Function::Exp => x.exp(),
            Function::Log => x.ln(),
            Function::Tanh => x.tanh(),
            Function::Sigmoid => {
                if x < 0.0 {
                    x.exp() / (1.0 + x.exp())
                } else {
                    1.0 / (1.0 + (-x).exp())
                }
            }
            Function::Erf => libm::erf(x),
            Function::Silu => {
                if x == f64::NEG_INFINITY {
                    0.0
                } else {
                    x * reference(Function::Sigmoid, x)
                }
            }
            Function::Gelu => {
                if x == f64::NEG_INFINITY {
                    0.0
                } else {
                    x * 0.5 * libm::erfc(-x / 2f64.sqrt())
                }
            }
            Function::GeluTanh => {
                let u = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                if x == f64::NEG_INFINITY { 0.0 } else { x * reference(Function::Sigmoid, 2.0 * u) }
            }
            Function::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        }
    }

    /// Every 1009th float, and all magnitudes between 1e-3 and 100 densely.
    fn sweep() -> Vec<f32> {
        let special =
            [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45, -1e-45, 88.72283, -103.97];
        let all = (0..u32::MAX / 10007).map(|i| f32::from_bits(i * 10007)).filter(|x| !x.is_nan());
        let near = (0..200_000).map(|i| (i as f32 - 100_000.0) * 1.1e-3);
        special.into_iter().chain(all).chain(near).collect()
    }

    fn ulp(x: f64) -> f64 {
        let f = (x.abs() as f32).clamp(f32::MIN_POSITIVE, f32::MAX);
        f64::from(f32::from_bits(f.to_bits() + 1).min(f32::MAX)) - f64::from(f) + f64::from(f32::from_bits(1))
    }

    /// The largest error in ulps over the sweep, and where.
    fn worst(f: Function, isa: Isa, error: impl Fn(f64, f64, f64) -> f64) -> (f64, f32) {
        let inputs = sweep();
        let mut outputs = inputs.clone();
        apply(f, isa, &mut outputs);
        let mut worst = (0.0, 0.0);
        for (x, got) in inputs.iter().zip(&outputs) {
            let want = reference(f, f64::from(*x));
            let rounded = want as f32;
            if got.to_bits() == rounded.to_bits() || (rounded.is_nan() && got.is_nan()) || *got == rounded {
                continue;
            }
            let e = if rounded.is_finite() && got.is_finite() {
                error(f64::from(*x), f64::from(*got), want)
            } else if want.abs() > 3.40282e38 && want.abs() < 3.40284e38 {
                0.0
            } else {
                f64::INFINITY
            };
            if e > worst.0 {
                worst = (e, *x);
            }
        }
        worst
    }

    #[test]
    fn errors_are_within_their_bounds() {
        for (f, bound) in [
            (Function::Exp, 1.5),
            (Function::Log, 1.5),
            (Function::Tanh, 2.0),
            (Function::Sigmoid, 2.5),
            (Function::Erf, 2.0),
            (Function::Silu, 3.0),
            (Function::Softplus, 3.0),
        ] {
            let (e, x) = worst(f, Isa::detect(), |x, got, want| {
                let floor = if f == Function::Silu && x < -87.0 { 1e-43 } else { 0.0 };
                (got - want).abs() / ulp(want).max(floor)
            });
            assert!(e <= bound, "{f:?}: {e} ulp at {x:e}");
        }
        for f in [Function::Gelu, Function::GeluTanh] {
            let (e, x) = worst(f, Isa::detect(), |x, got, want| (got - want).abs() / x.abs().max(1.0));
            assert!(e <= 3e-7, "{f:?}: {e:e} at {x:e}");
        }
    }

    #[test]
    fn instruction_sets_agree_bit_for_bit() {
        let inputs: Vec<f32> = sweep().into_iter().step_by(7).chain([f32::NAN]).collect();
        for f in [
            Function::Exp,
            Function::Log,
            Function::Tanh,
            Function::Sigmoid,
            Function::Erf,
            Function::Silu,
            Function::Gelu,
            Function::GeluTanh,
            Function::Softplus,
        ] {
            let mut first = inputs.clone();
            apply(f, Isa::Portable, &mut first);
            assert!(first.last().is_some_and(|x| x.is_nan()), "{f:?} of NaN");
            for isa in crate::testing::isas() {
                let mut other = inputs.clone();
                apply(f, isa, &mut other);
                for ((x, a), b) in inputs.iter().zip(&first).zip(&other) {
                    assert!(
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                        "{f:?}({x:e}): {a:e} and {b:e} on {isa:?}"
                    );
                }
            }
        }
    }
}
